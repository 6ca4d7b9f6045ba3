"""Properties of several servers: selection, comparison, the plan of a change, and its result.

A table of properties is name → text; tables are by the label of their server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias

Table: TypeAlias = Mapping[str, str]
Tables: TypeAlias = Mapping[str, Table]

_OF_ONE_BROKER = frozenset(
    [
        "abortFile",
        "advertisedPort",
        "bindAddress",
        "brokerConfigPath",
        "brokerId",
        "brokerIP1",
        "brokerIP2",
        "brokerName",
        "haListenPort",
        "haMasterAddress",
        "listenPort",
        "localHostName",
        "rocketmqHome",
        "storeCheckpoint",
    ]
)


class Change(NamedTuple):
    """One property of one server; `old` is None if it had no value."""

    server: str
    name: str
    old: str | None
    new: str


class Compared(NamedTuple):
    """One property of all servers; a value is None if there is none."""

    name: str
    values: Mapping[str, str | None]

    @property
    def differs(self) -> bool:
        return len(set(self.values.values())) > 1


def is_of_one_broker(name: str) -> bool:
    """Return True if a property is specific to one broker: its name, addresses and folders."""
    return name in _OF_ONE_BROKER or name.startswith("storePath")


def selected(tables: Tables, patterns: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the properties whose names match a pattern (`*` and `?`, ignoring case), sorted by name."""
    wanted = [pattern.lower() for pattern in patterns] or ["*"]
    return {
        label: {
            name: table[name]
            for name in sorted(table)
            if any(fnmatchcase(name.lower(), pattern) for pattern in wanted)
        }
        for label, table in tables.items()
    }


def compared(tables: Tables, names: Iterable[str] | None = None) -> list[Compared]:
    """Return every property, or those of `names`, with its value on each server, sorted by name."""
    known = {name for table in tables.values() for name in table} if names is None else set(names)
    return [Compared(name, {label: tables[label].get(name) for label in tables}) for name in sorted(known)]


def planned(tables: Tables, values: Table) -> list[Change]:
    """Return the changes that give the tables `values`."""
    return [
        Change(label, name, table.get(name), value)
        for label, table in tables.items()
        for name, value in values.items()
        if table.get(name) != value
    ]


def unlisted(tables: Tables, values: Table) -> list[str]:
    """Return the names of `values` that no server lists: unknown ones, or known ones without a value."""
    return [name for name in values if not any(name in table for table in tables.values())]


def not_taken(changes: Iterable[Change], tables: Tables) -> dict[str, str]:
    """Return the properties that did not change although the server reported success, as server → text."""
    left: dict[str, list[str]] = {}
    for change in changes:
        found = tables.get(change.server, {}).get(change.name)
        if change.server in tables and found != change.new:
            state = f"is still {found}" if found is not None else "is not known"
            left.setdefault(change.server, []).append(f"{change.name} {state}")
    return {server: "; ".join(texts) for server, texts in left.items()}
