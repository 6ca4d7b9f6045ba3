"""The topics of store folders as tables.

Records are found as in an export: by the consume queues where they can be trusted, otherwise by walking the
commit log; a range of store times is found by samples. A queue with more entries than there are records is
damage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from rmqcli.codec.errors import CorruptionError
from rmqcli.codec.names import LMQ_PREFIX, check_topic, is_system_topic
from rmqcli.codec.scan.arrow import schema
from rmqcli.export import RowFilter, StoreSource
from rmqcli.export.from_store.by_queues import QueuePlaces, divided, queue_places, scan
from rmqcli.export.from_store.parts import Part, parts_of, scan_part
from rmqcli.export.from_store.queue_check import StoreQueues, UnsoundQueue, has_topic, require_rows
from rmqcli.export.output.manifest import SpanTally
from rmqcli.sql.errors import ReadAgain
from rmqcli.store import CommitLogFiles, DamagedFile
from rmqcli.store.read.tables import topics

# Bounds of the rows that a filter can accept, for scans that find rows by topic, queue, offset and time.
#
# DuckDB gives a scan its filter as an Arrow expression, whose parts Python cannot see. But Arrow can decide
# whether an expression can be true given facts about the columns, which is how it skips files of a
# partitioned data set. Bounds are found by querying it, so they are valid for every expression, and open for
# one that it does not understand. They never exclude an accepted row; the included rows must still be
# filtered.

_ORDERED = ("queue_id", "queue_offset", "commit_log_offset", "store_timestamp")
_TESTED_QUEUES = 256
"""The number of queue ids tested one by one, because a list of ids is not a range."""
_FORMAT = ds.IpcFileFormat()
_FILES = LocalFileSystem()


class Interval(NamedTuple):
    """Numbers from `low` to `high`, both included; None is unbounded."""

    low: int | None = None
    high: int | None = None

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)

    @property
    def only(self) -> int | None:
        """The number, if there is only one."""
        return self.low if self.low == self.high else None


class Bounds(NamedTuple):
    """Bounds by column; times in µs.

    `topics` are the known topics that a row can have, `not_queues` the queue ids within the bounds that no
    row can have.
    """

    topics: frozenset[str]
    queue_id: Interval = Interval()
    queue_offset: Interval = Interval()
    commit_log_offset: Interval = Interval()
    store_timestamp: Interval = Interval()
    not_queues: frozenset[int] = frozenset()

    def takes_queue(self, queue_id: int) -> bool:
        """Return False if no row of a queue can be accepted."""
        return queue_id in self.queue_id and queue_id not in self.not_queues


def bounds_of(filter: Any | None, topics: Collection[str]) -> Bounds | None:
    """Return the bounds of the rows of these topics; None if no row of them can be accepted."""
    if filter is None:
        return Bounds(frozenset(topics))
    possible = _possible_topics(filter, topics)
    found = {name: _interval(filter, name) for name in _ORDERED}
    if not possible or None in found.values():
        return None
    known = {name: one for name, one in found.items() if one is not None}
    return Bounds(frozenset(possible), **known, not_queues=_impossible_queues(filter, known["queue_id"]))


def _possible_topics(filter: Any, topics: Collection[str]) -> set[str]:
    names = list(topics)
    known = _possible(filter, [ds.field("topic") == pa.scalar(name, pa.string()) for name in names])
    return {names[number] for number in known}


def _impossible_queues(filter: Any, bounds: Interval) -> frozenset[int]:
    if "queue_id" not in str(filter):
        return frozenset()
    numbers = [number for number in range(_TESTED_QUEUES) if number in bounds]
    known = _possible(filter, [ds.field("queue_id") == pa.scalar(number, pa.int32()) for number in numbers])
    return frozenset(numbers).difference(numbers[place] for place in known)


def _possible(filter: Any, guarantees: list[Any]) -> list[int]:
    """Return the numbers of the guarantees under which the filter can be true."""
    # No such files exist: Arrow only compares the partition expressions with the filter. So the bounds never
    # exclude an accepted row, regardless of the filter that DuckDB pushes down.
    fragments = [
        _FORMAT.make_fragment(str(number), _FILES, partition_expression=one)
        for number, one in enumerate(guarantees)
    ]
    files = ds.FileSystemDataset(fragments, schema(), _FORMAT, _FILES)
    return [int(fragment.path) for fragment in files.get_fragments(filter)]


def _interval(filter: Any, name: str) -> Interval | None:
    """Return the bounds of a column; None if the filter is never true."""
    column, kind = ds.field(name), schema().field(name).type
    width = 8 * kind.byte_width - 1
    least, most = -(1 << width), (1 << width) - 1

    def number(value: int) -> Any:
        plain = pa.scalar(value, pa.int32() if width == 31 else pa.int64())
        return plain.cast(kind)

    def up_to(value: int) -> bool:
        return bool(_possible(filter, [column <= number(value)]))

    def down_to(value: int) -> bool:
        return bool(_possible(filter, [column >= number(-value)]))

    if not up_to(most):
        return None
    low = _first(up_to, least, most)
    # The upper bound is found as the lower bound of the negated number.
    high = _first(down_to, -most, -least)
    if low is not None and high is not None and low > -high:
        return None
    return Interval(low, None if high is None else -high)


def _first(holds: Callable[[int], bool], least: int, most: int) -> int | None:
    """Return the lowest number for which a statement holds, assuming it then holds for all higher ones.

    Returns None if it holds for all numbers.
    """
    if holds(least):
        return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(middle) else (middle, most)
    return most


_MAX_MS = (2**63 - 1) // 1000
_OPEN = Bounds(frozenset())


@dataclass(frozen=True, slots=True)
class WatchedRows(RowFilter):
    """A row filter that uses only the queues within `bounds`.

    It calls `check` for every batch that is read, even for one without wanted rows.
    """

    check: Callable[[], None] = lambda: None
    bounds: Bounds = _OPEN

    def takes_queue(self, topic: str | None, queue_id: int | None) -> bool:
        taken = queue_id is None or self.bounds.takes_queue(queue_id)
        return taken and RowFilter.takes_queue(self, topic, queue_id)

    def messages(self, batch: Any) -> Any:
        self.check()
        return RowFilter.messages(self, batch)


class Stores:
    """The topics of the stores of one or several brokers.

    With `verify`, a wrong CRC is damage; with `walk`, consume queues are not used.
    """

    def __init__(self, sources: Sequence[StoreSource], *, verify: bool = True, walk: bool = False) -> None:
        """Raise FileNotFoundError for a folder without a commit log."""
        for source in sources:
            CommitLogFiles(source.path)
        self._sources = sources
        self._verify = verify
        self._walked = set(sources if walk else ())

    @cached_property
    def names(self) -> Sequence[str]:
        """The topics, except system topics, sorted."""
        found = {name for source in self._sources for name in _topics(source)}
        return sorted(name for name in found if not is_system_topic(name))

    def has(self, name: str) -> bool:
        """Return True if there is a topic of this name.

        If the store has no consume queues, any topic may exist.
        """
        try:
            check_topic(name)
        except ValueError:
            return False
        is_stored = not name.startswith(LMQ_PREFIX)
        return is_stored and any(has_topic(source.path, name) for source in self._sources)

    def scan(self, bounds: Bounds, check: Callable[[], None]) -> Iterator[Any]:
        """Yield record batches with all rows of the topics of `bounds` within it, and possibly others of
        them.

        `check` is called often; its exceptions end the scan. Raises CorruptionError at damage, and ReadAgain.
        """
        # Walking the commit log is faster than reading all of its topics by their queues.
        walked = len(bounds.topics) > 1 and bounds.topics.issuperset(self.names)
        rows = _rows(frozenset() if walked else bounds.topics, bounds, self._verify, check)
        for source in self._sources:
            if walked or any(has_topic(source.path, name) for name in bounds.topics):
                batches = self._read(source, replace(rows, broker_name=source.broker_name))
                yield from (_only(batch, bounds.topics) for batch in batches) if walked else batches

    def cancel(self) -> None:
        """Do nothing, because a scan calls its `check` often enough."""

    def _read(self, source: StoreSource, rows: RowFilter) -> Iterator[Any]:
        queues = StoreQueues(source.path, rows)
        expected = queues.counts() if self._verify else {}
        tally = SpanTally(of_store=True)
        for batch in self._batches(source, queues):
            if expected:
                tally.add(pa.Table.from_batches([batch]))
            yield batch
        require_rows(queues, expected, tally.spans)

    def _batches(self, source: StoreSource, queues: StoreQueues) -> Iterator[Any]:
        rows = queues.rows
        parts = parts_of(source.path, rows)
        places = None if source in self._walked else queue_places(queues)
        for part, own in _tasks(parts, places, rows):
            try:
                yield from scan(part, rows, own)
            except UnsoundQueue as error:
                for _ in scan_part(part, rows):  # a damaged record is reported as such
                    pass
                self._walked.add(source)
                raise ReadAgain(str(error)) from error


def _tasks(
    parts: Iterable[Part], places: QueuePlaces | None, rows: RowFilter
) -> Iterable[tuple[Part, QueuePlaces | None]]:
    if rows.topics:
        return divided(list(parts), places)
    return ((part, places) for part in parts)


def _only(batch: Any, names: Collection[str]) -> Any:
    return batch.filter(pc.is_in(batch["topic"], pa.array(sorted(names), pa.string())))


def _topics(source: StoreSource) -> Iterator[str]:
    folder = source.path / "consumequeue"
    if folder.is_dir():
        yield from (
            one.name for one in folder.iterdir() if one.is_dir() and not one.name.startswith(LMQ_PREFIX)
        )
    try:
        yield from topics(source.path)
    except (CorruptionError, DamagedFile):
        return


def _rows(topics: frozenset[str], bounds: Bounds, verify: bool, check: Callable[[], None]) -> WatchedRows:
    offsets, times = bounds.queue_offset, bounds.store_timestamp
    return WatchedRows(
        topics=topics,
        queue_id=bounds.queue_id.only,
        begin=offsets.low,
        end=_after(offsets.high),
        begin_time=None if times.low is None else times.low // 1000,
        end_time=_after(None if times.high is None else times.high // 1000, _MAX_MS),
        begin_commit_log=max(0, bounds.commit_log_offset.low or 0),
        check_crc=verify,
        only_queued=True,
        check=check,
        bounds=bounds,
    )


def _after(last: int | None, most: int = 2**63 - 1) -> int | None:
    return None if last is None or last >= most else last + 1
