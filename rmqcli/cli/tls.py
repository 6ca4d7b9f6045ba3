"""TLS is used if any of these settings asks for it. For each setting, the first source that has it wins: the
option, the profile in effect, the variable, Java's file.

    --tls, --no-tls      RMQ_TLS=1, 0       connect by TLS, or not
    --tls-ca FILE        RMQ_TLS_CA         check servers by these CAs (PEM); 'system': those of the system
    --tls-cert FILE      RMQ_TLS_CERT       the certificate of this client (PEM), for servers that ask
    --tls-key FILE       RMQ_TLS_KEY        its key; RMQ_TLS_KEY_PASSWORD if it is encrypted
    --tls-insecure       RMQ_TLS_INSECURE   accept every server
    --tls-config FILE    RMQ_TLS_CONFIG     Java's tls.properties: tls.enable, tls.client.trustCertPath, ...

All of them imply --tls. A server is checked if a CA is known. With --tls-ca, its certificate must also be
valid for the address; with a trustCertPath of Java's file it need not, as in Java. Without a CA, a line on
standard error warns that nothing is checked, unless --tls-insecure is given.

A profile stores those of these options that `rmq profile add` and `edit` get, and `tls = false` for --no-tls.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error

if TYPE_CHECKING:
    from rmqcli.cli.profile_values import Profile
    from rmqcli.cli.settings import Given
    from rmqcli.client import Tls

FIELDS = ("tls", "tls_ca", "tls_cert", "tls_key", "tls_insecure", "tls_config")
"""The names in `Given` and `Profile`; RMQ_TLS_CA is the variable of `tls_ca`."""
PASSWORD = "RMQ_TLS_KEY_PASSWORD"
SYSTEM = "system"
"""The value of --tls-ca for the CAs that the system trusts."""
_SWITCHES = ("tls", "tls_insecure")
_WORDS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


def tls_of(given: Given, profile: Profile | None) -> Tls | None:
    """Return the TLS settings of clients, None for plain connections.

    Raise a usage error for settings that contradict each other, and CommandError for a file that cannot be
    read.
    """
    found = resolved(given, profile)
    java = java_file(found["tls_config"]) if "tls_config" in found else {}
    if not is_on(found, java):
        return None
    from rmqcli.client import Tls

    ca = found.get("tls_ca") or java.get("tls.client.trustCertPath") or None
    certificate = found.get("tls_cert") or java.get("tls.client.certPath") or None
    check = _checks(found, java, ca)
    for option in ("tls_ca", "tls_cert", "tls_key"):
        _check_file(option, found.get(option))
    return Tls(
        ca=None if ca == SYSTEM or not check else ca,
        certificate=certificate,
        key=found.get("tls_key") or java.get("tls.client.keyPath") or None,
        key_password=os.environ.get(PASSWORD) or java.get("tls.client.keyPassword") or None,
        check=check,
        check_host="tls_ca" in found,
    )


def resolved(given: Given, profile: Profile | None) -> dict[str, Any]:
    """Return the fields that are set, each from the first source that sets it."""
    sources: list[Mapping[str, Any]] = [_fields(given), _fields(profile), _environment()]
    found: dict[str, Any] = {}
    for source in reversed(sources):
        # the source nearest to the command wins, with everything that it implies
        if source.get("tls") is None and any(source.values()):
            found.pop("tls", None)
        if source.get("tls_insecure") is None and source.get("tls_ca") is not None:
            found.pop("tls_insecure", None)
        found |= {name: value for name, value in source.items() if value is not None}
    if given.tls_insecure and given.tls_ca is not None:
        raise usage_error("--tls-insecure and --tls-ca cannot be combined: with a CA the server is checked")
    return found


def is_on(found: Mapping[str, Any], java: Mapping[str, str] = {}) -> bool:
    """Return True if connections use TLS, by the fields that are set and Java's file."""
    if "tls" in found:
        return bool(found["tls"])
    if java.get("tls.enable", "").strip().lower() == "false":
        return False
    return any(value for value in found.values())


def java_file(path: str) -> dict[str, str]:
    """Return the TLS properties in Java's file. Raise CommandError if it cannot be read."""
    from rmqcli.codec.bodies.config import load_properties_file
    from rmqcli.codec.errors import BodyError

    try:
        entries = load_properties_file(Path(path).read_bytes())
    except OSError as error:
        code = ExitCode.NOT_FOUND if isinstance(error, FileNotFoundError) else ExitCode.USAGE
        raise CommandError(f"--tls-config {path}: {error.strerror}", code) from error
    except BodyError as error:
        raise usage_error(f"--tls-config {path}: {error}") from error
    return {name: value.strip() for name, value in entries.items()}


@cache
def warn_unchecked() -> None:
    """Warn once that servers are not checked."""
    from rmqcli.render.output import warn

    warn(
        "TLS does not check the server: anyone on the way could pretend to be it; "
        "name its CA with --tls-ca, or accept this with --tls-insecure"
    )


def is_unchecked(given: Given, profile: Profile | None, tls: Tls | None) -> bool:
    """Return True if servers are not checked and nobody has accepted that."""
    return tls is not None and not tls.check and not resolved(given, profile).get("tls_insecure")


def _check_file(name: str, path: str | None) -> None:
    if path and path != SYSTEM and not Path(path).exists():
        option = f"--{name.replace('_', '-')}"
        raise CommandError(f"{option} {path}: No such file or directory", ExitCode.NOT_FOUND)


def tls_text(found: Mapping[str, Any]) -> str:
    """Return fields as options, in one line."""
    words = []
    for name, value in found.items():
        option = f"--{name.replace('_', '-')}"
        if value is False:
            words.append(option.replace("--tls", "--no-tls") if name == "tls" else "")
        elif value is not None:
            words.append(option if value is True else f"{option} {value}")
    return " ".join(filter(None, words))


def tls_source(given: Given, profile: Profile | None, label: str) -> str:
    """Return the sources of the fields; `label` names the profile."""
    sources = {"options": _fields(given), label: _fields(profile), "environment": _environment()}
    found = [name for name, fields in sources.items() if any(value is not None for value in fields.values())]
    return " and ".join(found) or "not set"


def _checks(found: Mapping[str, Any], java: Mapping[str, str], ca: str | None) -> bool:
    if found.get("tls_insecure"):
        return False
    if "tls_ca" in found:
        return True
    if java.get("tls.test.mode.enable", "").lower() == "true":
        return False  # Java then trusts every server
    return java.get("tls.client.authServer", "true" if ca else "false").lower() == "true"


def _fields(source: Given | Profile | None) -> dict[str, Any]:
    return {name: getattr(source, name, None) for name in FIELDS}


def _environment() -> dict[str, Any]:
    texts = {name: os.environ.get(f"RMQ_{name.upper()}") for name in FIELDS}
    return {name: _switch(name, text) if name in _SWITCHES else text for name, text in texts.items() if text}


def _switch(name: str, text: str) -> bool:
    if text.lower() not in _WORDS:
        raise usage_error(f"RMQ_{name.upper()}={text}: expected 1 or 0")
    return _WORDS[text.lower()]
