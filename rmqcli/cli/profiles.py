"""The profiles file: connection settings of clusters, by name.

`profiles.toml` is in the user's configuration folder, or in the folder that `RMQ_CONFIG_DIR` names. It has a
table `[profiles.NAME]` for each profile, and `current = "NAME"` for the one in use. It may be edited by hand;
the commands rewrite it as a whole. Only its owner may read it: it may hold keys.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error

_NAME = re.compile(r"[A-Za-z0-9_-]+")
OWNER_ONLY = 0o600


def profiles_path() -> Path:
    """Return the path of the profiles file, which need not exist."""
    folder = os.environ.get("RMQ_CONFIG_DIR")
    if folder:
        return Path(folder) / "profiles.toml"
    import platformdirs

    return Path(platformdirs.user_config_dir("rmq")) / "profiles.toml"


def check_name(name: str) -> str:
    """Return the name; raise a usage error if TOML would require quotes around it."""
    if not _NAME.fullmatch(name):
        raise usage_error(f"invalid profile name {name!r}: use letters, digits, '-' and '_'")
    return name


def load_file() -> ProfilesFile:
    """Return the content of the file, empty if there is none. Raise CommandError if it is malformed."""
    import tomllib

    path = profiles_path()
    try:
        tables = tomllib.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        tables = {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: not a TOML file: {error}") from error
    return _checked(path, tables)


def _checked(path: Path, tables: Mapping[str, Any]) -> ProfilesFile:
    import msgspec

    try:
        return msgspec.convert(tables, ProfilesFile)
    except msgspec.ValidationError as error:
        raise CommandError(
            f'{path}: {error}; a profile is a table [profiles.NAME] with namesrv = "host:port"'
        ) from error


def load_profiles() -> dict[str, Profile]:
    """Return the profiles by name. Raise as `load_file` does."""
    return load_file().profiles


def profile(name: str) -> Profile:
    """Return a profile; raise CommandError(NOT_FOUND) if there is none of this name."""
    return profile_in(load_file(), name)


def profile_in(file: ProfilesFile, name: str) -> Profile:
    """Return a profile of a loaded file. Raise as `profile` does."""
    if name not in file.profiles:
        known = ", ".join(sorted(file.profiles)) or "none"
        text = f"profile {name} not found in {profiles_path()} (known: {known})"
        raise CommandError(text, ExitCode.NOT_FOUND, missing=("profile", name), known=file.profiles)
    return file.profiles[name]


def save_file(file: ProfilesFile) -> Path:
    """Write the file atomically, so that a reader never sees half of it, and return its path."""
    from rmqcli.files import replace_file

    path = profiles_path()
    replace_file(path, toml_text(file).encode(), mode=OWNER_ONLY)
    return path


def save_profile(name: str, value: Profile) -> Path:
    """Add or replace one profile."""
    from msgspec.structs import replace

    file = load_file()
    return save_file(replace(file, profiles=file.profiles | {check_name(name): value}))


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
        """Raise ValueError, to which msgspec adds the position, for values that no command could use."""
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
    """Return the TOML of a text, number, truth value or table of texts; JSON values are also valid TOML."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=True)
