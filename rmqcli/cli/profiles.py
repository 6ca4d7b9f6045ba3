"""The profiles file: connection settings of clusters, by name.

`profiles.toml` is in the user's configuration folder, or in the folder that `RMQ_CONFIG_DIR` names. It has a
table `[profiles.NAME]` for each profile, and `current = "NAME"` for the one in use. It may be edited by hand;
the commands rewrite it as a whole. Only its owner may read it, because it may contain keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.state import user_folder

if TYPE_CHECKING:
    from rmqcli.cli.profile_values import Profile, ProfilesFile

_NAME = re.compile(r"[A-Za-z0-9_-]+")
OWNER_ONLY = 0o600


def profiles_path() -> Path:
    """Return the path of the profiles file, which need not exist."""
    return user_folder("config", "RMQ_CONFIG_DIR") / "profiles.toml"


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

    from rmqcli.cli.profile_values import ProfilesFile

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
    from rmqcli.cli.profile_values import toml_text
    from rmqcli.files import replace_file

    path = profiles_path()
    replace_file(path, toml_text(file).encode(), mode=OWNER_ONLY)
    return path


def save_profile(name: str, value: Profile) -> Path:
    """Add or replace one profile."""
    from msgspec.structs import replace

    file = load_file()
    return save_file(replace(file, profiles=file.profiles | {check_name(name): value}))
