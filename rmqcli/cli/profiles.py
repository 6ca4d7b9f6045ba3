"""Named clusters: `[profiles.NAME]` tables in `profiles.toml` of the user's configuration folder.

`RMQ_CONFIG_DIR` puts the folder elsewhere. The file may be edited by hand; the commands rewrite it as a whole.
A profile holds `namesrv` ("host:port;host:port").
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error

__all__ = ["Profile", "check_name", "load_profiles", "profile", "profiles_path", "save_profiles"]

_NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Profile:
    """One named cluster."""

    name: str
    namesrv: str


def profiles_path() -> Path:
    """Where the profiles are, whether or not the file exists."""
    folder = os.environ.get("RMQ_CONFIG_DIR")
    if folder:
        return Path(folder) / "profiles.toml"
    import platformdirs

    return Path(platformdirs.user_config_dir("rmq")) / "profiles.toml"


def check_name(name: str) -> str:
    """The name as it is; a usage error when TOML would need quotes for it."""
    if not _NAME.fullmatch(name):
        raise usage_error(f"profile name {name!r}: only letters, digits, '-' and '_' are possible")
    return name


def load_profiles() -> dict[str, Profile]:
    """All profiles; none when there is no file. CommandError when the file cannot be read as what it should be."""
    path = profiles_path()
    try:
        tables = tomllib.loads(path.read_text("utf-8")).get("profiles", {})
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: not a TOML file: {error}") from error
    return {name: _profile(path, name, table) for name, table in tables.items()}


def _profile(path: Path, name: str, table: object) -> Profile:
    namesrv = table.get("namesrv") if isinstance(table, Mapping) else None
    if not isinstance(namesrv, str) or not namesrv:
        raise CommandError(f'{path}: profile {name} needs a line namesrv = "host:port"')
    return Profile(name, namesrv)


def profile(name: str) -> Profile:
    """The profile; CommandError(NOT_FOUND) when there is none of this name."""
    found = load_profiles()
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise CommandError(f"no profile {name} in {profiles_path()} (known: {known})", ExitCode.NOT_FOUND)
    return found[name]


def save_profiles(profiles: Mapping[str, Profile]) -> Path:
    """Writes all profiles, by a rename so that a reader never sees half a file."""
    path = profiles_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = [
        f"[profiles.{entry.name}]\nnamesrv = {_toml_text(entry.namesrv)}\n" for entry in profiles.values()
    ]
    fresh = path.with_suffix(".tmp")
    fresh.write_text("\n".join(tables), "utf-8")
    fresh.replace(path)
    return path


def _toml_text(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=True)
