"""The shape of the files to rebuild: sizes from settings, else from the files that are left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from codec.store import batch_queue
from codec.store.consume_queue import ENTRY, FILE_ENTRIES
from codec.store.delay_levels import DEFAULT_LEVELS, DelayLevels
from codec.store.file_names import NAME_PATTERN
from codec.store.index_file import FILE_ITEMS, FILE_SLOTS
from rmqcli.store.read.batch_queues import batch_topics
from rmqcli.store.read.index import shape_of_index
from rmqcli.store.read.tables import deleted_topics

QUEUE_FILE_SIZE = FILE_ENTRIES * ENTRY.size
BATCH_FILE_SIZE = batch_queue.FILE_UNITS * batch_queue.UNIT.size


class Shape(NamedTuple):
    """Sizes of the files to write, names of index files to use again, the delay levels, the topics with batch
    queues. `unknown` are the broker properties of sizes that are RocketMQ's for want of a file. `deleted`
    maps topics to the commit-log offset before which no record belongs to them.
    """

    queue_file_size: int = QUEUE_FILE_SIZE
    index_slots: int = FILE_SLOTS
    index_items: int = FILE_ITEMS
    index_names: dict[int, str] = {}  # noqa: RUF012  never written to
    levels: DelayLevels = DEFAULT_LEVELS
    batch_file_size: int = BATCH_FILE_SIZE
    batch_topics: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    deleted: dict[str, int] = {}  # noqa: RUF012  never written to


_PROPERTIES = {
    "mappedFileSizeConsumeQueue": "queue_file_size",
    "maxHashSlotNum": "index_slots",
    "maxIndexNum": "index_items",
    "mapperFileSizeBatchConsumeQueue": "batch_file_size",
}


def shape_of(store: Path, properties: Mapping[str, str] | None = None) -> Shape:
    """Return the shape of a store's files; `properties` of its broker come first. ValueError."""
    topics = batch_topics(store)
    slots, items, names = shape_of_index(store / "index")
    found = {
        "queue_file_size": _usual(store / "consumequeue", ENTRY.size),
        "index_slots": slots,
        "index_items": items,
        "batch_file_size": _usual(store / batch_queue.FOLDER, batch_queue.UNIT.size),
    }
    if not topics:
        found["batch_file_size"] = BATCH_FILE_SIZE
    given = {name: value for name, value in (properties or {}).items() if name in _PROPERTIES}
    for name, value in given.items():
        if not value.isdecimal() or not 0 < int(value) < 1 << 31:
            raise ValueError(f"{name}: {value!r} is not a size")
        found[_PROPERTIES[name]] = int(value)
    unknown = tuple(name for name, field in _PROPERTIES.items() if not found[field])
    sizes = (found[field] or Shape._field_defaults[field] for field in _PROPERTIES.values())
    queue_file_size, index_slots, index_items, batch_file_size = sizes
    return Shape(
        queue_file_size,
        index_slots,
        index_items,
        names,
        batch_file_size=batch_file_size,
        batch_topics=topics,
        unknown=unknown,
        deleted=deleted_topics(store),
    )


def _usual(folder: Path, unit: int) -> int:
    """Return the most frequent size of queue files; 0 without any."""
    found = (path.stat().st_size for path in folder.glob(f"*/*/{NAME_PATTERN}"))
    return _most_frequent(size for size in found if size and size % unit == 0)


def _most_frequent(sizes: Iterable[int]) -> int:
    counted = sorted(sizes, reverse=True)
    return max(counted, key=counted.count, default=0)
