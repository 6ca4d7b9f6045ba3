"""Configurations of broker and name server: files with Java's property names, and changes at run time.

A configuration is a frozen value that a change replaces. Only the kinds of values (number, boolean, text) are
checked, as in Java; `broker.config.checks` checks their ranges. Unknown names are reported and ignored.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from broker.config.broker import BrokerConfig
from broker.config.namesrv import NamesrvConfig
from broker.config.properties import read_properties
from broker.errors import ConfigError
from codec.bodies.properties import format_properties

__all__ = [
    "BrokerConfig",
    "ConfigUpdate",
    "NamesrvConfig",
    "config_from_properties",
    "config_properties",
    "config_text",
    "expand_path",
    "load_config",
    "update_config",
    "warn_unknown",
]

Config = TypeVar("Config", BrokerConfig, NamesrvConfig)

ALWAYS_BLACK = frozenset(
    {"configBlackList", "rocketmqHome", "brokerConfigPath", "configStorePath", "kvConfigPath"}
)
"""Properties that no request can change, whatever configBlackList contains: they name files to write."""

_log = logging.getLogger("broker.config")


class ConfigUpdate(NamedTuple):
    """The result of a change. With a forbidden name nothing changes: `config` is the old one."""

    config: Any
    changed: dict[str, str]
    unknown: list[str]
    forbidden: list[str]


def load_config(cls: type[Config], path: str | Path) -> tuple[Config, list[str]]:
    """Reads a properties file. Returns the configuration and the unknown names, in the order of the file.

    Raises ConfigError when the file cannot be read or a value has the wrong kind.
    """
    return config_from_properties(cls, read_properties(Path(path)))


def config_from_properties(cls: type[Config], entries: Mapping[str, str]) -> tuple[Config, list[str]]:
    """Converts entries like `load_config`."""
    names = property_names(cls)
    known = {name: value for name, value in entries.items() if name in names}
    return _convert(cls, known), [name for name in entries if name not in names]


def warn_unknown(unknown: list[str], source: str) -> None:
    """Logs a warning for each name on the logger `broker.config`."""
    for name in unknown:
        _log.warning("%s: unknown property %s is ignored", source, name)


def update_config(config: Config, entries: Mapping[str, str]) -> ConfigUpdate:
    """Applies entries to a running configuration (codes 25 and 318).

    Raises ConfigError for a value of the wrong kind.
    """
    names = property_names(type(config))
    closed = ALWAYS_BLACK | set(config.config_black_list.split(";"))
    forbidden = [name for name in entries if name in closed]
    unknown = [name for name in entries if name not in names]
    if forbidden:
        return ConfigUpdate(config, {}, unknown, forbidden)
    wanted = {name: value for name, value in entries.items() if name in names}
    converted = _convert(type(config), wanted)
    updated = replace(config, **{names[name]: getattr(converted, names[name]) for name in wanted})
    before, after = config_properties(config), config_properties(updated)
    changed = {name: after.get(name, "") for name in wanted if after.get(name) != before.get(name)}
    return ConfigUpdate(updated, changed, unknown, [])


def config_properties(config: BrokerConfig | NamesrvConfig) -> dict[str, str]:
    """Every property that has a value, as Java formats it."""
    values = ((name, getattr(config, field)) for name, field in property_names(type(config)).items())
    return {name: _text(value) for name, value in values if value is not None}


def config_text(config: BrokerConfig | NamesrvConfig) -> str:
    """The body of GET_BROKER_CONFIG and GET_NAMESRV_CONFIG."""
    return format_properties(config_properties(config))


@cache
def property_names(cls: type[BrokerConfig] | type[NamesrvConfig]) -> dict[str, str]:
    """Java property name → field name."""
    return {field.encode_name: field.name for field in msgspec.structs.fields(cls)}


def expand_path(text: str) -> Path:
    """A path of a configuration with `~` or Java's `${user.home}` replaced by the home folder."""
    return Path(text.replace("${user.home}", "~")).expanduser()


def _convert(cls: type[Config], entries: Mapping[str, str]) -> Config:
    entries = {name: value.strip() for name, value in entries.items()}
    try:
        return msgspec.convert(entries, cls, strict=False)
    except msgspec.ValidationError as error:
        raise _wrong_kind(entries, str(error)) from error


_KINDS = {"int": "a number", "bool": "true or false", "str": "text"}


def _wrong_kind(entries: Mapping[str, str], text: str) -> ConfigError:
    # "Expected `int`, got `str` - at `$.listenPort`"
    found = re.fullmatch(r"Expected `(\w+)[^`]*`.* - at `\$\.(\w+)`", text)
    if found is None or found[1] not in _KINDS or found[2] not in entries:
        return ConfigError(f"configuration: {text}")
    return ConfigError(f"{found[2]}={entries[found[2]]}: {_KINDS[found[1]]} is expected")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
