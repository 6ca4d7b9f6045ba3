"""The values in a file of profiles, and their text as TOML.

They are in a separate module because they are msgspec structs, which a command that reads no profile does
not import.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The settings by which commands reach a cluster; None: not set.

    `namesrv`: addresses separated by semicolons. `map`: replacement addresses for connections (see
    `rmqcli.client.wire.addresses`). `timeout`: seconds for one request. `group`: the consumer group of
    commands that name none. `protected`: confirmations of changes require the name of the profile.
    `access_key`: the account that signs requests; its secret key is `secret_key`, is read from
    `secret_key_file`, is printed by `secret_command`, or is typed at a prompt. `tls…`: the global options of
    these names.
    """

    namesrv: str
    map: dict[str, str] = {}
    timeout: float | None = None
    group: str | None = None
    protected: bool = False
    access_key: str | None = None
    secret_key: str | None = None
    secret_key_file: str | None = None
    secret_command: str | None = None
    security_token: str | None = None
    tls: bool | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_insecure: bool | None = None
    tls_config: str | None = None

    # Without secrets: logs and tracebacks may show it.
    def __repr__(self) -> str:
        return f"Profile({self.namesrv!r}, access_key={self.access_key!r})"

    def __post_init__(self) -> None:
        """Raise ValueError, to which msgspec adds the position, for values that commands cannot use."""
        if not self.namesrv.strip():
            raise ValueError("namesrv is empty")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError("timeout must be more than 0 seconds")


class ProfilesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All profiles by name; `current` is the one chosen by `rmq profile use`."""

    current: str | None = None
    profiles: dict[str, Profile] = {}


def toml_text(file: ProfilesFile) -> str:
    """Return the file as TOML; decoding it gives an equal value."""
    top = [] if file.current is None else [f"current = {_toml(file.current)}\n"]
    tables = (
        f"[profiles.{name}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in _fields(one).items())
        for name, one in file.profiles.items()
    )
    return "\n".join([*top, *tables])


def _fields(profile: Profile) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(profile)
    return fields


def _toml(value: Any) -> str:
    """Return the TOML of a string, number, boolean or table of strings; JSON values are also valid TOML."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=True)
