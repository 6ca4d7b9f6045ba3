"""The store folders that rows are read from, and the brokers that they belonged to.

(broker name, topic, queue id, queue offset) identifies a message, but no record contains the name of its
broker. It is taken from an option, otherwise from a broker.conf in or beside the folder, otherwise from the
topic that a broker registers under its own name (Java `TopicConfigManager`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from rmqcli.codec.bodies.config import parse_properties
from rmqcli.codec.codes import Perm
from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.names import is_system_topic, reply_topic
from rmqcli.export.errors import SourceError
from rmqcli.store.read.files import DamagedFile
from rmqcli.store.read.tables import topics

_OPTIONS = "(--broker-name; brokerName of the data source)"
_CONFIGS = ("broker.conf", "../broker.conf", "../conf/broker.conf")


class StoreSource(NamedTuple):
    """A store folder and the name of its broker, None if unknown."""

    path: Path
    broker_name: str | None


def store_sources(paths: Sequence[Path], names: Sequence[str] = ()) -> list[StoreSource]:
    """Return the folders with their brokers; `names` are those of all folders, in order, or empty.

    Raises SourceError if two folders belong to the same broker, or one of several to an unknown one, because
    their rows could not be distinguished.
    """
    if names and len(names) != len(paths):
        raise SourceError(
            f"{len(names)} broker names for {len(paths)} store folders: one for each is expected {_OPTIONS}"
        )
    told: Sequence[str | None] = names or [broker_name_of(path) for path in paths]
    found = [StoreSource(path, name) for path, name in zip(paths, told, strict=True)]
    if len(found) > 1:
        _require_apart(found)
    return found


def _require_apart(sources: Sequence[StoreSource]) -> None:
    unknown = next((source.path for source in sources if source.broker_name is None), None)
    if unknown is not None:
        raise SourceError(
            f"{unknown}: the broker of this store is unknown: name the brokers of all stores, in order {_OPTIONS}"
        )
    ordered = sorted(sources, key=lambda source: source.broker_name or "")
    for name, group in groupby(ordered, lambda source: source.broker_name):
        first, *others = [source.path for source in group]
        if others:
            raise SourceError(
                f"{first} and {others[0]} are both of {name}, so their rows could not be told apart: leave one out, "
                f"or name the brokers of all stores, in order {_OPTIONS}"
            )


def broker_name_of(store: Path) -> str | None:
    """Return the name of the broker that wrote a store folder; None if it is unknown or ambiguous."""
    configured = (_configured(store / name, store) for name in _CONFIGS)
    return next((name for name in configured if name), None) or _registered(store)


def _configured(config: Path, store: Path) -> str | None:
    """Return the brokerName of a broker.conf; None if there is none, or if the file is for another store."""
    try:
        properties = parse_properties(config.read_text())
    except (OSError, UnicodeDecodeError):
        return None
    root = properties.get("storePathRootDir", "").strip()
    if root and Path(root).name != store.resolve().name:
        return None
    return properties.get("brokerName", "").strip() or None


def _registered(store: Path) -> str | None:
    try:
        known = topics(store)
    except (CorruptionError, DamagedFile):
        return None
    found = [
        name
        for name, config in known.items()
        if config.perm & Perm.INHERIT
        and config.read_queue_nums == 1
        and not is_system_topic(name)
        and reply_topic(name) not in known
    ]
    return found[0] if len(found) == 1 else None
