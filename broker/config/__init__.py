"""Configuration of broker and name server: files with Java's property names, and changes while running.

A configuration is a frozen value; a change makes another. Values are checked for their kind only (number, truth value,
text), as Java does. Names nobody knows are reported, never fatal.
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
"""What no request changes, whatever configBlackList says: with these it could write any file."""

_log = logging.getLogger("broker.config")


class ConfigUpdate(NamedTuple):
    """What a change came to. With any forbidden name nothing is changed: `config` is the old one."""

    config: Any
    changed: dict[str, str]
    unknown: list[str]
    forbidden: list[str]


def load_config(cls: type[Config], path: str | Path) -> tuple[Config, list[str]]:
    """The configuration in a properties file, and the names in it that nobody knows (in the order of the file).

    Raises ConfigError when the file cannot be read or a value is of the wrong kind.
    """
    return config_from_properties(cls, read_properties(Path(path)))


def config_from_properties(cls: type[Config], entries: Mapping[str, str]) -> tuple[Config, list[str]]:
    """As load_config, from entries that are read already."""
    names = property_names(cls)
    known = {name: value for name, value in entries.items() if name in names}
    return _convert(cls, known), [name for name in entries if name not in names]


def warn_unknown(unknown: list[str], source: str) -> None:
    """One warning per name, on the `broker.config` logger."""
    for name in unknown:
        _log.warning("%s: unknown property %s is ignored", source, name)


def update_config(config: Config, entries: Mapping[str, str]) -> ConfigUpdate:
    """The entries put over a running configuration (codes 25 and 318). Raises ConfigError on a value of the wrong kind."""
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
    """Every property that has a value, as Java writes it."""
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
    """A path of a configuration: `~` and Java's `${user.home}` are the home folder."""
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
