"""Finds the name servers of a command line: options, environment variables and profiles.

The first of these that is set wins: `--namesrv`, `--profile`, RMQ_NAMESRV, NAMESRV_ADDR, the profile named by
RMQ_PROFILE, the profile `default`, 127.0.0.1:9876.

Profiles are the tables `[profiles.NAME]` of `profiles.toml` in the user's configuration folder, or in the
folder that `RMQ_CONFIG_DIR` names. A profile holds `namesrv` ("host:port;host:port"). The file may be edited
by hand; the commands rewrite it as a whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from codec.addresses import DEFAULT_NAMESRV
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.files import replace_file

_NAME = re.compile(r"[A-Za-z0-9_-]+")


def name_servers(namesrv: str | None = None, profile_name: str | None = None) -> str:
    """Return the addresses of the name servers, given the values of `--namesrv` and `--profile`."""
    return next(address for address in _candidates(namesrv, profile_name) if address)


def environment_name_servers() -> str | None:
    """Return the value of RMQ_NAMESRV or NAMESRV_ADDR."""
    return os.environ.get("RMQ_NAMESRV") or os.environ.get("NAMESRV_ADDR")


def _candidates(namesrv: str | None, profile_name: str | None) -> Iterator[str | None]:
    yield namesrv
    if profile_name:
        yield profile(profile_name)
    yield environment_name_servers()
    if named := os.environ.get("RMQ_PROFILE"):
        yield profile(named)
    yield load_profiles().get("default")
    yield DEFAULT_NAMESRV


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


def load_profiles() -> dict[str, str]:
    """Return the name servers by profile; none if there is no file. CommandError if the file is malformed."""
    import tomllib

    path = profiles_path()
    try:
        tables = tomllib.loads(path.read_text("utf-8")).get("profiles", {})
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: not a TOML file: {error}") from error
    return {name: _profile(path, name, table) for name, table in tables.items()}


def _profile(path: Path, name: str, table: object) -> str:
    namesrv = table.get("namesrv") if isinstance(table, Mapping) else None
    if not isinstance(namesrv, str) or not namesrv:
        raise CommandError(f'{path}: profile {name} requires a line namesrv = "host:port"')
    return namesrv


def profile(name: str) -> str:
    """Return the name servers of the profile; raise CommandError(NOT_FOUND) if there is none of this name."""
    found = load_profiles()
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        raise CommandError(
            f"profile {name} not found in {profiles_path()} (known: {known})", ExitCode.NOT_FOUND
        )
    return found[name]


def save_profiles(profiles: Mapping[str, str]) -> Path:
    """Write all profiles to a temporary file and rename it, so that a reader never sees half a file."""
    path = profiles_path()
    tables = [f"[profiles.{name}]\nnamesrv = {_toml_text(namesrv)}\n" for name, namesrv in profiles.items()]
    replace_file(path, "\n".join(tables).encode())
    return path


def _toml_text(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=True)
