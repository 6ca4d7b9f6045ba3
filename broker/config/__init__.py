"""Configurations of broker and name server: files with Java's property names, and changes at run time.

A configuration is a frozen value that is replaced on a change. Loading checks only the types of values
(number, boolean, string), as Java does. Unknown names are reported and ignored.
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

from rmqcli.broker.config.broker import BrokerConfig
from rmqcli.broker.config.checks import check_values
from rmqcli.broker.config.servers import FIXED, NamesrvConfig, ProxyConfig
from rmqcli.broker.disk import REAL, Disk, save_table
from rmqcli.broker.errors import ConfigError, Refusal
from rmqcli.codec.bodies.config import format_properties, load_properties_file, store_properties
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.errors import BodyError

__all__ = [
    "SECRETS",
    "BrokerConfig",
    "ConfigUpdate",
    "NamesrvConfig",
    "ProxyConfig",
    "config_from_properties",
    "config_properties",
    "config_text",
    "expand_path",
    "ignored",
    "load_config",
    "read_properties",
    "update_config",
    "warn_unknown",
    "write_properties",
]

Config = TypeVar("Config", BrokerConfig, NamesrvConfig)
StructT = TypeVar("StructT", bound=msgspec.Struct)

ALWAYS_BLACK = frozenset(
    {
        *("configBlackList", "rocketmqHome", "brokerConfigPath", "configStorePath", "kvConfigPath"),
        *("aclEnable", "plainAclFile", "innerClientAuthenticationCredentials"),
        *("authenticationEnabled", "authenticationWhitelist", "initAuthenticationUser"),
        *("authorizationEnabled", "authorizationWhitelist"),
        *("haWhiteRemoteAddresses", "haTlsRequired", "haTlsEnable"),
    }
)
"""Properties that no request can change, whatever configBlackList contains: they name files to write, or
control permissions."""
SECRETS = frozenset({"initAuthenticationUser", "innerClientAuthenticationCredentials"})
"""Properties that are never shown."""
ONLY_AT_START = frozenset(
    {
        "advertisedPort",
        "bindAddress",
        "brokerClusterName",
        "brokerIP1",
        "brokerIP2",
        "brokerName",
        "enableConsumeQueueExt",
        "haListenPort",
        "listenPort",
        "mappedFileSizeCommitLog",
        "mappedFileSizeConsumeQueue",
        "mappedFileSizeConsumeQueueExt",
        "maxHashSlotNum",
        "maxIndexNum",
        "messageDelayLevel",
        "messageIndexEnable",
        "storePathCommitLog",
        "storePathDLedgerCommitLog",
        "storePathRootDir",
        "vipChannelEnabled",
    }
)
"""Properties that identify a server, locate its data, or determine the layout of its files.

Java accepts a change, which has no effect at first, and then starts on another store the next time, or not at
all.
"""

_log = logging.getLogger("rmqcli.broker.config")


class ConfigUpdate(NamedTuple):
    """The new configuration, the properties that differ, and the ignored names."""

    config: Any
    changed: dict[str, str]
    unknown: list[str]


def read_properties(path: Path, disk: Disk = REAL) -> dict[str, str]:
    """Return the entries of a file. Raises ConfigError if it cannot be read. Blocks."""
    try:
        return load_properties_file(disk.read(path))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except BodyError as error:
        raise ConfigError(f"{path}: {error}") from error


def write_properties(path: Path, entries: Mapping[str, str], disk: Disk = REAL) -> None:
    """Replace a file atomically, and keep its previous content beside it as `.bak`. Blocks. Raises OSError.

    The permissions stay as they are, because a file that only its owner may read may contain secrets.
    """
    before = disk.state(path)
    save_table(disk, path, store_properties(entries).encode(), None if before is None else before.mode)


def load_config(cls: type[Config], path: str | Path) -> tuple[Config, list[str]]:
    """Return the configuration in a file, and its unknown names. Raises ConfigError if the file is unreadable
    or invalid."""
    return config_from_properties(cls, read_properties(Path(path)))


def config_from_properties(cls: type[StructT], entries: Mapping[str, str]) -> tuple[StructT, list[str]]:
    """Convert entries like `load_config`. A property with a fixed value counts as unknown with any other
    value."""
    names = property_names(cls)
    known = {name: value for name, value in entries.items() if name in names}
    unknown = [name for name, value in entries.items() if name not in names and FIXED.get(name) != value]
    return _convert(cls, known), unknown


def warn_unknown(unknown: list[str], source: str) -> None:
    """Log a warning for each name on the logger `rmqcli.broker.config`."""
    for name in unknown:
        _log.warning("%s: %s", source, ignored(name))


def ignored(name: str) -> str:
    """Return a short reason why a property has no effect."""
    return (
        f"{name} is ignored: it is always {FIXED[name]}"
        if name in FIXED
        else f"unknown property {name} is ignored"
    )


def update_config(config: Config, entries: Mapping[str, str], told: Mapping[str, str] = {}) -> ConfigUpdate:
    """Apply entries to a running configuration (codes 25 and 318). Raises Refusal for some names and values.

    An entry that the server itself reports in `told` is not a change.
    """
    if not entries.keys().isdisjoint(ALWAYS_BLACK | set(config.config_black_list.split(";"))):
        raise Refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    entries = {name: value for name, value in entries.items() if told.get(name) != value.strip()}
    for name in FIXED.keys() & entries.keys() & told.keys():
        raise Refusal(ResponseCode.NO_PERMISSION, f"{name} cannot change: it is always {FIXED[name]}")
    names = property_names(type(config))
    wanted = {name: value for name, value in entries.items() if name in names}
    try:
        converted = _convert(type(config), wanted)
        updated = replace(config, **{names[name]: getattr(converted, names[name]) for name in wanted})
        check_values(updated)
    except ConfigError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
    before, after = config_properties(config), config_properties(updated)
    changed = {name: after.get(name, "") for name in wanted if after.get(name) != before.get(name)}
    for name in sorted(ONLY_AT_START & changed.keys()):
        remark = (
            f"{name} cannot change while the server runs: set it in its configuration file and start it again"
        )
        raise Refusal(ResponseCode.NO_PERMISSION, remark)
    return ConfigUpdate(updated, changed, [name for name in entries if name not in names])


def config_properties(config: BrokerConfig | NamesrvConfig) -> dict[str, str]:
    """Return every property that has a value, in Java's format, except secrets."""
    values = ((name, getattr(config, field)) for name, field in property_names(type(config)).items())
    return {name: _text(value) for name, value in values if value is not None and name not in SECRETS}


def config_text(config: BrokerConfig | NamesrvConfig) -> str:
    """Return the body of GET_BROKER_CONFIG and GET_NAMESRV_CONFIG."""
    return format_properties(config_properties(config))


@cache
def property_names(cls: type[msgspec.Struct]) -> dict[str, str]:
    """Return the field names by Java property name."""
    return {field.encode_name: field.name for field in msgspec.structs.fields(cls)}


def expand_path(text: str) -> Path:
    """Return a path of a configuration with `~` or Java's `${user.home}` replaced by the home folder.

    Raises ConfigError if this user has none.
    """
    try:
        return Path(text.replace("${user.home}", "~")).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{text}: this user has no home folder: set HOME, or another path") from error


def _convert(cls: type[StructT], entries: Mapping[str, str]) -> StructT:
    entries = {name: value.strip() for name, value in entries.items()}
    for name, value in entries.items():
        if "\n" in value or "\r" in value:  # a reader would take the second line to be another property
            raise ConfigError(f"{name}: a text of one line is expected")
    try:
        return msgspec.convert(entries, cls, strict=False)
    except msgspec.ValidationError as error:
        raise _wrong_kind(entries, str(error)) from error


_KINDS = {"int": "a number", "bool": "true or false", "str": "text"}


def _wrong_kind(entries: Mapping[str, str], text: str) -> ConfigError:
    # "Expected `int`, got `str` - at `$.listenPort`"
    found = re.fullmatch(r"Expected `(\w+)[^`]*`.* - at `\$\.([\w.]+)`", text)
    if found is None or found[1] not in _KINDS or found[2] not in entries:
        return ConfigError(f"configuration: {text}")
    return ConfigError(f"{found[2]}={entries[found[2]]}: {_KINDS[found[1]]} is expected")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
