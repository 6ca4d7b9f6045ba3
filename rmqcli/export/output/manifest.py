"""The manifest of an export folder: its content, and where `--resume` continues.

For the folder `orders` it is next to it, in `_orders.rmq`, because some readers (Polars) treat every file in
a folder as data. Others (Spark, PyArrow), when reading the parent folder, skip names that start with `_`. An
export of a topic continues at `end` of each queue, one of stores at `commitLogOffset` of each store. Where
that is null (the last export had an end, so it left out records in between), it also continues at `end` of
each queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.export.errors import ExportError, OutputExists
from rmqcli.export.output.layout import Layout
from rmqcli.files import replace_file

# The queue offsets that rows hold: stored in the footer of every file, summed up in the manifest.
#
# Records in no consume queue (half and rolled-back messages of old brokers) do not count: their queue offset
# means nothing.

QueueKey: TypeAlias = tuple[str, str | None, int]
"""Topic, broker (None: unknown), queue id."""


class QueueSpan(msgspec.Struct, frozen=True, rename="camel"):
    """Queue offsets [begin, end), with the number of rows among them."""

    topic: str
    broker_name: str | None
    queue_id: int
    begin: int
    end: int
    rows: int

    @property
    def key(self) -> QueueKey:
        return self.topic, self.broker_name, self.queue_id


class LastRow(msgspec.Struct, frozen=True, rename="camel"):
    """The last exported record of a queue, which shows whether the topic is still the same."""

    topic: str
    broker_name: str | None
    queue_id: int
    queue_offset: int
    commit_log_offset: int

    @property
    def key(self) -> QueueKey:
        return self.topic, self.broker_name, self.queue_id


def latest(rows: Iterable[LastRow]) -> list[LastRow]:
    """Return the last row of each queue, sorted."""
    found: dict[QueueKey, LastRow] = {}
    for row in rows:
        known = found.get(row.key)
        if known is None or row.queue_offset >= known.queue_offset:
            found[row.key] = row
    return sorted(found.values(), key=lambda row: (row.topic, row.broker_name or "", row.queue_id))


def queue_codes(table: Any) -> tuple[list[QueueKey], Any]:
    """Return the queues of a table, in the order of their first rows, and the number of the queue of each row."""
    import numpy as np
    import pyarrow as pa

    (topics, topic_codes), (brokers, broker_codes) = map(_coded, (table["topic"], table["broker_name"]))
    # Rows are grouped by one number much faster than by several strings. The ids as unsigned 32 bits, so that
    # a negative one does not change the half of the names.
    queues = table["queue_id"].to_numpy().view(np.uint32).astype(np.int64)
    keys = pa.array(((topic_codes * len(brokers) + broker_codes) << 32) | queues).dictionary_encode()
    return [_queue_key(key, topics, brokers) for key in keys.dictionary.to_pylist()], keys.indices.to_numpy()


def _queue_key(key: int, topics: list[Any], brokers: list[Any]) -> QueueKey:
    names, queue = divmod(key, 1 << 32)
    topic, broker = divmod(names, len(brokers))
    return topics[topic], brokers[broker], queue - ((queue >> 31) << 32)


def _coded(column: Any) -> tuple[list[Any], Any]:
    """Return the values of a column, with None last, and the index of the value of each row as int64."""
    import pyarrow as pa

    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    whole = coded.unify_dictionaries().combine_chunks()
    values = whole.dictionary.to_pylist()
    return [*values, None], whole.indices.cast(pa.int64()).fill_null(len(values)).to_numpy()


def merged(spans: Iterable[QueueSpan]) -> list[QueueSpan]:
    """Join spans into one per queue, sorted."""
    found: dict[QueueKey, QueueSpan] = {}
    for span in spans:
        known = found.get(span.key)
        if known is not None:
            bounds = min(known.begin, span.begin), max(known.end, span.end)
            span = QueueSpan(*span.key, *bounds, known.rows + span.rows)
        found[span.key] = span
    return sorted(found.values(), key=lambda span: (span.topic, span.broker_name or "", span.queue_id))


_SPAN_COLUMNS = ("topic", "broker_name", "queue_id", "queue_offset", "commit_log_offset")


class SpanTally:
    """Counts the rows of one file, by queue."""

    def __init__(self, *, of_store: bool) -> None:
        import numpy as np

        self._of_store = of_store
        # Columns with a number for each queue: texts of 80,000 queues are looked up once a table, and sorted
        # once a file.
        self._numbers: dict[QueueKey, int] = {}
        self._begins = self._ends = self._rows = self._places = np.zeros(0, np.int64)
        self._commit_log_end = 0
        self._undecoded = 0

    def add(self, table: Any, undecoded: int = 0) -> None:
        """Add rows, of which `undecoded` have a body that could not be decoded."""
        import pyarrow as pa

        self._undecoded += undecoded
        self._commit_log_end = max(self._commit_log_end, _commit_log_end(table))
        in_queues = table["sys_flag"].to_numpy() & MessageSysFlag.TRANSACTION_PREPARED == 0
        table = table.select(_SPAN_COLUMNS)
        if not in_queues.all():
            table = table.filter(pa.array(in_queues))
        if table.num_rows:
            self._add(table)

    def _add(self, table: Any) -> None:
        import numpy as np

        keys, codes = queue_codes(table)
        known = self._numbers
        numbers = np.array([known.setdefault(key, len(known)) for key in keys])[codes]
        more = len(known) - len(self._rows)
        bounds = np.iinfo(np.int64)
        self._begins, self._ends, self._rows, self._places = (
            np.concatenate((column, np.full(more, fill)))
            for column, fill in (
                (self._begins, bounds.max),
                (self._ends, bounds.min),
                (self._rows, 0),
                (self._places, 0),
            )
        )
        offsets = table["queue_offset"].to_numpy()
        np.minimum.at(self._begins, numbers, offsets)
        np.maximum.at(self._ends, numbers, offsets + 1)
        self._rows += np.bincount(numbers, minlength=len(known))
        newest = np.flatnonzero(offsets + 1 == self._ends[numbers])
        self._places[numbers[newest]] = table["commit_log_offset"].to_numpy()[newest]

    @property
    def spans(self) -> list[QueueSpan]:
        """The span of each queue, sorted."""
        spans = list(zip(self._begins.tolist(), self._ends.tolist(), self._rows.tolist(), strict=True))
        return [QueueSpan(*key, *spans[number]) for key, number in self._in_order()]

    @property
    def last(self) -> list[LastRow]:
        """The last row of each queue, sorted."""
        rows = list(zip((self._ends - 1).tolist(), self._places.tolist(), strict=True))
        return [LastRow(*key, *rows[number]) for key, number in self._in_order()]

    def _in_order(self) -> list[tuple[QueueKey, int]]:
        return sorted(self._numbers.items(), key=lambda one: (one[0][0], one[0][1] or "", one[0][2]))

    def metadata(self) -> dict[str, str]:
        """Return the metadata of the file.

        The keys are `rmq.offsets`, `rmq.last`, for a store `rmq.commit_log_end`, and `rmq.undecoded` if there
        are any.
        """
        end = self._commit_log_end if self._of_store else None
        return footer_facts(self.spans, self.last, self._undecoded, end)


def footer_facts(
    spans: list[QueueSpan], last: list[LastRow], undecoded: int, commit_log_end: int | None
) -> dict[str, str]:
    found = {
        "rmq.offsets": msgspec.json.encode(spans).decode(),
        "rmq.last": msgspec.json.encode(last).decode(),
    }
    if undecoded:
        found["rmq.undecoded"] = str(undecoded)
    if commit_log_end is not None:
        found["rmq.commit_log_end"] = str(commit_log_end)
    return found


def _commit_log_end(table: Any) -> int:
    import pyarrow.compute as pc

    return int(pc.max(pc.add(table["commit_log_offset"], pc.cast(table["store_size"], "int64"))).as_py())


MANIFEST = "manifest.json"


def books_of(out: Path) -> Path:
    """Return the folder next to `out` that contains its manifest and unfinished files."""
    there = out.resolve()
    return there.with_name(f"_{there.name}.rmq")


class StoreEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A store folder (an absolute path), the name of its broker, and where the next export continues."""

    path: str
    broker_name: str | None
    commit_log_offset: int | None = 0

    def __str__(self) -> str:
        return f"{self.path} (of {self.broker_name})" if self.broker_name else self.path


class Origin(NamedTuple):
    """The source of the rows: store folders, a topic of the cluster, or some topics of stores.

    For stores, also a queue id and tags.
    """

    stores: tuple[StoreEntry, ...]
    topic: str | None
    queue_id: int | None = None
    tags: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return ", ".join(store.path for store in self.stores) or self.topic or ""


ASIDE = "aside/"
"""The prefix of the names of files with rows whose body does not decode, which are stored elsewhere."""


class FileEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A Parquet file; `path` is relative to the folder, `bytes` its size.

    In `undecoded` rows, `value` is null.
    """

    path: str
    rows: int
    bytes: int
    queues: list[QueueSpan]
    commit_log_end: int = 0
    undecoded: int = 0
    last: list[LastRow] = []


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of the file.

    `queues` are the ranges of all files together, `last` the last record of each queue.
    """

    version: int = 1
    rmq_version: str
    stores: list[StoreEntry] = []
    topic: str | None
    queue_id: int | None = None
    tags: list[str] = []
    partition_by: list[str]
    columns: list[str]
    decode: str | None = None
    sample: str | None = None
    masks: list[str] = []
    mask_key: str | None = None
    rows: int = 0
    queues: list[QueueSpan] = []
    last: list[LastRow] = []
    files: list[FileEntry] = []

    @classmethod
    def empty(cls, origin: Origin, layout: Layout) -> Manifest:
        import rmqcli

        return cls(
            rmq_version=rmqcli.__version__,
            stores=list(origin.stores),
            topic=origin.topic,
            queue_id=origin.queue_id,
            tags=list(origin.tags),
            partition_by=list(layout.partition_by),
            columns=layout.names,
            **layout.transform.summary,
        )

    def require_same(self, other: Manifest, out: str) -> None:
        """Raise OutputExists if `other` is not a continuation of this export."""
        for name, option in _MUST_AGREE.items():
            was, is_now = _text(getattr(self, name)), _text(getattr(other, name))
            if was != is_now:
                raise OutputExists(
                    f"{out}: was exported with {option} {was}, not {is_now}; "
                    "specify the same to resume, or name a new folder with --out"
                )

    def require_whole(self, out: Path) -> None:
        """Raise OutputExists if the size of a file has changed. Missing files were removed by the user."""
        for file in self.files:
            path = out / file.path
            size = path.stat().st_size if path.exists() else file.bytes
            if size != file.bytes:
                raise OutputExists(
                    f"{path}: has {size} bytes, not the {file.bytes} that were exported "
                    "(after a power cut?); name a new folder with --out"
                )

    def commit_log_offset(self, store: str) -> int | None:
        """Return the commit-log offset where the next export of a store continues.

        None: at the ends of its queues.
        """
        return next((entry.commit_log_offset for entry in self.stores if entry.path == store), 0)

    def extended(
        self, files: list[FileEntry], reached: list[QueueSpan], ends: Mapping[str, int | None]
    ) -> Manifest:
        """Return the manifest with more files.

        `reached` are spans without rows, up to where queues were read, and `ends` the commit-log offsets
        where the next export of each store continues.
        """
        added = [span for file in files for span in file.queues]
        return msgspec.structs.replace(
            self,
            rows=self.rows + sum(file.rows for file in files),
            stores=[
                msgspec.structs.replace(
                    entry, commit_log_offset=ends.get(entry.path, entry.commit_log_offset)
                )
                for entry in self.stores
            ],
            queues=merged([*self.queues, *added, *reached]),
            last=latest([*self.last, *(row for file in files for row in file.last)]),
            files=[*self.files, *files],
        )


_MUST_AGREE = {
    "stores": "--store",
    "topic": "--topic",
    "queue_id": "--queue",
    "tags": "--tag",
    "partition_by": "--partition-by",
    "columns": "--columns",
    "decode": "--decode",
    "sample": "--sample",
    "masks": "--mask",
    "mask_key": "--mask-key-file",
}


def _text(value: object) -> str:
    if value is None or value == []:
        return "none"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def read_json(path: Path, kind: Any) -> Any:
    """Read a JSON file; None if missing. Raises ExportError if it is not of this type."""
    try:
        return decode_json(path.read_bytes(), kind, path)
    except FileNotFoundError:
        return None


def decode_json(content: bytes, kind: Any, shown: object) -> Any:
    """Return the content as this type. Raises ExportError, which names the file, if it is of another one."""
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise ExportError(f"{shown}: not written by rmq export: {error}") from error


def encode_json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def write_json(path: Path, value: object, *, durable: bool = False) -> None:
    """Write a file completely or not at all, even if the process is killed.

    Like the Parquet files of an export, it is not synced by default: after a power cut, a manifest that
    outlives them would list missing rows.
    """
    replace_file(path, encode_json(value), durable=durable)
