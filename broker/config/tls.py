"""The TLS settings of a server and of its connections to name servers, by Java's property names.

In Java they are system properties and lines of `tls.config.file` (`TlsSystemConfig`). Here they are entries
like those of broker.conf, which take precedence over the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from rmqcli.broker.config import BrokerConfig, config_from_properties, read_properties
from rmqcli.broker.disk import REAL, Disk
from rmqcli.broker.errors import ConfigError

PREFIX = "tls."
CONFIG_FILE = "tls.config.file"
MODES = ("disabled", "permissive", "enforcing")
CLIENT_AUTHS = ("none", "optional", "require")

_NAMES = {
    "mode": "tls.server.mode",
    "enable": "tls.enable",
    "config_file": CONFIG_FILE,
    "test_mode": "tls.test.mode.enable",
    "need_client_auth": "tls.server.need.client.auth",
    "key_path": "tls.server.keyPath",
    "key_password": "tls.server.keyPassword",
    "cert_path": "tls.server.certPath",
    "auth_client": "tls.server.authClient",
    "trust_cert_path": "tls.server.trustCertPath",
    "client_key_path": "tls.client.keyPath",
    "client_key_password": "tls.client.keyPassword",
    "client_cert_path": "tls.client.certPath",
    "auth_server": "tls.client.authServer",
    "client_trust_cert_path": "tls.client.trustCertPath",
}


class TlsConfig(msgspec.Struct, frozen=True, kw_only=True, rename=_NAMES):
    """Modes, files, and the peers to verify.

    If `auth_server` is None, the name server is verified if its CA is known. `test_mode` is read but has no
    effect: a certificate is never generated, and a configured one is always used.
    """

    mode: str = "permissive"
    enable: bool = False
    config_file: str | None = None
    test_mode: bool = True
    need_client_auth: str = "none"
    key_path: str | None = None
    key_password: str | None = None
    cert_path: str | None = None
    auth_client: bool = False
    trust_cert_path: str | None = None
    client_key_path: str | None = None
    client_key_password: str | None = None
    client_cert_path: str | None = None
    auth_server: bool | None = None
    client_trust_cert_path: str | None = None

    @property
    def secures_peers(self) -> bool:
        """True if connections to name servers use TLS (Java `BrokerStartup`): if it is enabled, or if the
        server itself accepts nothing else."""
        return self.enable or self.mode == "enforcing"

    @property
    def files(self) -> list[Path]:
        """The files whose changes affect the server."""
        names = (self.config_file, self.cert_path, self.key_path, self.trust_cert_path)
        return [Path(name) for name in names if name]


def is_tls_name(name: str) -> bool:
    """Return True for a TLS property, known or not."""
    return name.startswith(PREFIX)


def load_tls(entries: Mapping[str, str], disk: Disk = REAL) -> tuple[TlsConfig, list[str]]:
    """Return the settings in entries, which override those in the file named by `tls.config.file`, and the
    unknown names.

    Blocks. Raises ConfigError if a file cannot be read or a value is invalid.
    """
    file = entries.get(CONFIG_FILE, "").strip()
    given = read_properties(Path(file), disk) if file else {}
    merged = {name: value for name, value in {**given, **entries}.items() if is_tls_name(name)}
    used = {name: value for name, value in merged.items() if value.strip()}
    config, unknown = config_from_properties(TlsConfig, used)
    config = msgspec.structs.replace(
        config, mode=config.mode.lower(), need_client_auth=config.need_client_auth.lower()
    )
    _check_word("tls.server.mode", config.mode, MODES)
    _check_word("tls.server.need.client.auth", config.need_client_auth, CLIENT_AUTHS)
    return config, unknown


def check_ha_tls(config: BrokerConfig, tls: TlsConfig) -> None:
    """Raise ConfigError if replication should use TLS but its settings are missing."""
    if config.ha_tls_required and not tls.cert_path:
        raise ConfigError("haTlsRequired=true needs tls.server.certPath and tls.server.keyPath")
    if config.ha_tls_enable and not tls.secures_peers:
        raise ConfigError("haTlsEnable=true uses the TLS settings of a client: set tls.enable=true")


def _check_word(name: str, value: str, words: tuple[str, ...]) -> None:
    if value not in words:
        raise ConfigError(f"{name}={value}: {' or '.join(words)} is expected")
