"""Suggests similar names of topics and groups, from the tables of a store folder."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

_QUEUES = ("consumequeue", "batchconsumequeue")


def note_meant(path: Path, *, topics: Collection[str] | None = None, group: str | None = None) -> None:
    """Note similar names of the store for each name that it does not have.

    Note nothing for a file, or if tables are missing or damaged: inspections report those themselves.
    """
    from rmqcli.codec.errors import CorruptionError

    try:
        for kind, names, known in _tables(path, topics or (), group):
            for name in names:
                _note(kind, name, known)
    except (OSError, CorruptionError):
        return


def _tables(
    path: Path, topics: Collection[str], group: str | None
) -> list[tuple[str, Collection[str], Collection[str]]]:
    from rmqcli.store.read import tables

    if not path.is_dir():
        return []
    found: list[tuple[str, Collection[str], Collection[str]]] = []
    if topics:
        found.append(("topic", topics, {*tables.topics(path), *_queue_folders(path)}))
    if group is not None:
        committed = {one.group for one in tables.group_offsets(path)}
        found.append(("group", [group], committed.union(tables.groups(path))))
    return found


def _queue_folders(path: Path) -> set[str]:
    """Return the topics that have queues: brokers do not list all of their system topics in the table of
    topics.
    """
    return {one.name for folder in _QUEUES if (path / folder).is_dir() for one in (path / folder).iterdir()}


def _note(kind: str, name: str, known: Collection[str]) -> None:
    from rmqcli.cli.remedies import close_names, did_you_mean
    from rmqcli.render.output import warn

    if name not in known and (names := close_names(name, known)):
        warn(f"the store has no {kind} {name}{did_you_mean(names)}")
