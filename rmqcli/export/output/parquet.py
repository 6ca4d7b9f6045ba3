"""Parquet files of record batches, in one series or one per partition, and the encoding of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from inspect import signature
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from rmqcli.codec.scan.arrow_arrays import select, size_of
from rmqcli.export.output.folder import Place
from rmqcli.export.output.layout import BLOOM_FILTERS, PARTITIONS, Layout
from rmqcli.export.output.manifest import ASIDE, SpanTally
from rmqcli.export.output.order import in_order, sorting_columns
from rmqcli.export.transform.decoding import VALUE


class Output(NamedTuple):
    """The files to write to `place`; their names start with `prefix`. Can be pickled.

    With `of_store`, the footers contain the position at which the next export of the store continues. With
    `in_thread`, a thread compresses and writes a row group while the next one is gathered, so two are in
    memory.
    """

    place: Place
    source: str
    layout: Layout
    prefix: str = "part"
    in_thread: bool = True
    of_store: bool = True

    @property
    def sorts(self) -> bool:
        """True if the rows of each row group are sorted, which takes no time for those of a cluster."""
        return self.layout.sort or not self.of_store

    def open(self) -> Files:
        if isinstance(self.place, TwoPlaces):
            return SortedFiles(self, self.place)
        return PartitionedFiles(self) if self.layout.partition_by else ParquetFiles(self)


class TwoPlaces(NamedTuple):
    """The place of rows whose body decodes and, with a separate layout, that of the others."""

    kept: Place
    aside: Place
    layout: Layout

    @property
    def shown(self) -> str:
        return self.kept.shown

    def create(self, name: str) -> Any:
        return self.kept.create(name)


class ParquetFiles:
    """A context manager that writes batches to one file after another; `names` are their names in `place`.

    An error may leave incomplete files, which are not visible yet.
    """

    def __init__(self, output: Output) -> None:
        self.names: list[str] = []
        self.gathered_bytes = 0
        self._output = output
        self._layout = output.layout
        self._metadata = output.layout.schema(output.source).metadata
        self._schema: Any = None
        self._gathered: list[Any] = []
        self._file_bytes = 0
        self._stream: Any = None
        self._writer: Any = None
        self._tally = SpanTally(of_store=output.of_store)
        self._thread = ThreadPoolExecutor(1, "parquet") if output.in_thread else None
        self._under_way: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def write(self, batch: Any) -> None:
        """Transform a record batch of the export schema by the layout and add it.

        Either all batches are encoded or none.

        Errors of writing are raised by a later call, or at the end of the block.
        """
        self.add(self._layout.transform.apply(batch))

    def add(self, batch: Any) -> None:
        """Add a transformed batch."""
        if batch.num_rows:
            if self._schema is not None and _is_grown(self._schema, batch.schema):
                self.hand_over()
                self._schema = None
            self._schema = self._schema or batch.schema
            self._gathered.append(batch if batch.schema == self._schema else batch.cast(self._schema))
            self.gathered_bytes += size_of(batch)
        if self.gathered_bytes >= self._layout.row_group_bytes:
            self.hand_over()

    def hand_over(self) -> None:
        self._settle()
        if not self._gathered:
            return
        group = self._gathered, self.gathered_bytes
        self._gathered, self.gathered_bytes = [], 0
        if self._thread is None:
            self._write_group(*group)
        else:
            self._under_way = self._thread.submit(self._write_group, *group)

    def _settle(self) -> None:
        if self._under_way is not None:
            self._under_way.result()
            self._under_way = None

    def _write_group(self, batches: list[Any], size: int) -> None:
        # Each batch has its own dictionaries; a writer that encounters a second one gives up dictionaries.
        ordered = in_order(batches) if self._output.sorts else pa.Table.from_batches(batches)
        table = ordered.unify_dictionaries()
        shaped = self._layout.shape(table)
        if self._writer is not None and not self._writer.schema.equals(shaped.schema):
            self._end_file()  # typed bodies have more fields from here on
        self._open(table, shaped.schema).write_table(shaped, row_group_size=shaped.num_rows)
        self._tally.add(table, self._layout.transform.undecoded(table))
        self._file_bytes += size
        if self._file_bytes >= self._layout.file_bytes:
            self._end_file()

    def _open(self, table: Any, schema: Any) -> Any:
        if self._writer is None:
            self.names.append(f"{self._output.prefix}-{len(self.names):05d}.parquet")
            self._stream = self._output.place.create(self.names[-1])
            options = writer_options(self._layout, table)
            if self._output.sorts:
                options["sorting_columns"] = sorting_columns(self._layout, schema) or None
            self._writer = parquet.ParquetWriter(self._stream, schema, **options)
        return self._writer

    def _end_file(self) -> None:
        if self._writer is not None:
            self._writer.add_key_value_metadata({**self._metadata, **self._tally.metadata()})
            self._writer.close()
            self._stream.close()
            self._writer, self._file_bytes = None, 0
            self._tally = SpanTally(of_store=self._output.of_store)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._thread or nullcontext(), ExitStack() as stack:
            # Also after an error of the thread, so that the stream is closed.
            stack.callback(self._end_file)
            self._settle()
            if kind is None and self._gathered:
                self._write_group(self._gathered, self.gathered_bytes)


def _is_grown(there: Any, now: Any) -> bool:
    """Return True if typed bodies have other fields than before."""
    fields = [schema.field(VALUE) if VALUE in schema.names else None for schema in (there, now)]
    return bool(fields[0] != fields[1])


class PartitionedFiles:
    """Writes a series of files for each partition, with a bounded number of open files and bounded memory."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._layout = output.layout
        self._open: dict[str, ParquetFiles] = {}
        self._rounds: dict[str, int] = {}
        self._done: list[str] = []

    @property
    def names(self) -> list[str]:
        return [*self._done, *(name for files in self._open.values() for name in files.names)]

    def __enter__(self) -> Self:
        return self

    def write(self, batch: Any) -> None:
        self.add(self._layout.transform.apply(batch))

    def add(self, batch: Any) -> None:
        for folder, part in _partitions(batch, self._layout.partition_by):
            self._files(folder).add(part)
        while sum(files.gathered_bytes for files in self._open.values()) > self._layout.gathered_bytes:
            max(self._open.values(), key=lambda files: files.gathered_bytes).hand_over()

    def _files(self, folder: str) -> ParquetFiles:
        files = self._open.pop(folder, None)
        if files is None:
            if len(self._open) >= self._layout.open_partitions:
                self._close(next(iter(self._open)))
            number = self._rounds[folder] = self._rounds.get(folder, -1) + 1
            name = f"{folder}/{self._output.prefix}-{number:03d}"
            files = ParquetFiles(self._output._replace(prefix=name))
        self._open[folder] = files  # moved to the end: the first one, unused longest, is closed first
        return files

    def _close(self, folder: str) -> None:
        files = self._open.pop(folder)
        with files:
            pass
        self._done += files.names

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as stack:
            for files in self._open.values():
                stack.callback(files.__exit__, kind, error, trace)


class SortedFiles:
    """Writes rows whose body decodes to one place and the others to another, where names begin with ASIDE."""

    def __init__(self, output: Output, places: TwoPlaces) -> None:
        self._transform = output.layout.transform
        self._kept = output._replace(place=places.kept).open()
        self._aside = output._replace(place=places.aside, layout=places.layout).open()

    @property
    def names(self) -> list[str]:
        return [*self._kept.names, *(ASIDE + name for name in self._aside.names)]

    def __enter__(self) -> Self:
        return self

    def write(self, batch: Any) -> None:
        kept, aside = self._transform.sorted_out(batch)
        self._kept.add(kept)
        self._aside.add(aside)

    def add(self, batch: Any) -> None:
        self._kept.add(batch)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as stack:
            for files in (self._kept, self._aside):
                stack.callback(files.__exit__, kind, error, trace)


Files = ParquetFiles | PartitionedFiles | SortedFiles


def _partitions(batch: Any, keys: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the rows of each partition, in order, with the name of its folder."""
    if not batch.num_rows:
        return
    codes = _folders(batch, keys).dictionary_encode()
    names = codes.dictionary.to_pylist()
    if len(names) == 1:
        yield _quoted(keys, names[0]), batch
        return
    numbers = codes.indices.to_numpy()
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(names)))
    ordered = select(batch, order)
    for name, begin, end in zip(names, [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        yield _quoted(keys, name), ordered.slice(begin, end - begin)


_SEPARATOR = "\0"


def _folders(batch: Any, keys: tuple[str, ...]) -> Any:
    def values(key: str) -> Any:
        column = batch[PARTITIONS[key]]
        if key == "hour":
            return _hours(column)
        # Days are cast to a date first, which is in the column's own zone, UTC.
        return pc.cast(column.cast(pa.date32()) if key == "day" else column, pa.string())

    return pc.binary_join_element_wise(*(values(key) for key in keys), _SEPARATOR)


def _hours(times: Any) -> Any:
    """Return the hours of times in UTC as strings, each of which is formatted once."""
    hours = pc.floor_temporal(times.cast(pa.timestamp("us")), unit="hour").dictionary_encode()
    return pc.strftime(hours.dictionary, "%Y-%m-%d-%H").take(hours.indices)


def _quoted(keys: tuple[str, ...], joined: str) -> str:
    values = joined.split(_SEPARATOR)
    return "/".join(f"{key}={quote(value, safe='')}" for key, value in zip(keys, values, strict=True))


WRITER_OPTIONS: Mapping[str, Any] = {
    # A dictionary of bodies costs time and is always given up; statistics of bodies help no reader.
    "use_dictionary": ["topic", "broker_name", "tags", "born_host", "store_host", "properties.key_value.key"],
    "write_statistics": [
        *("topic", "broker_name", "queue_id", "queue_offset", "commit_log_offset", "msg_id", "tags"),
        *("born_timestamp", "store_timestamp", "sys_flag", "reconsume_times", "store_size"),
    ],
    # These numbers grow slowly: 0.01 instead of 2 bytes each, in a third of the time.
    "column_encoding": dict.fromkeys(
        ("queue_offset", "commit_log_offset", "born_timestamp", "store_timestamp"), "DELTA_BINARY_PACKED"
    ),
    "write_page_index": True,
    # Without the schema, dictionary columns are read as texts, but its metadata is left out as well.
    "store_schema": False,
}
_CAN_FILTER = "bloom_filter_options" in signature(parquet.ParquetWriter).parameters
"""False for the versions of PyArrow that cannot write Bloom filters."""
_FALSE_POSITIVES = 0.05
"""The false-positive rate of a filter. A rate of 0.01 takes twice the bytes."""
_BODIES_APART = {"body": "DELTA_LENGTH_BYTE_ARRAY"}
_SMALL_BODY = 512
_SAMPLE_BYTES = 1 << 16
_LEAST_GAIN = 0.05


def writer_options(layout: Layout, table: Any) -> dict[str, Any]:
    """Return the options for files of this layout whose first row group is `table`."""
    names = layout.names
    options = {**WRITER_OPTIONS, "compression": layout.compression}
    for name in ("use_dictionary", "write_statistics"):
        options[name] = [column for column in options[name] if column.partition(".")[0] in names]
    bodies_apart = (
        _BODIES_APART
        if "body" in table.column_names and layout.compression == "zstd" and _is_noise(table)
        else {}
    )
    encodings = {**WRITER_OPTIONS["column_encoding"], **bodies_apart}
    options["column_encoding"] = {name: encodings[name] for name in names if name in encodings}
    if _CAN_FILTER:
        bloom = {"ndv": table.num_rows, "fpp": _FALSE_POSITIVES}
        options["bloom_filter_options"] = {
            BLOOM_FILTERS[name]: bloom for name in layout.bloom_filters if name in names
        }
    return options


def _is_noise(table: Any) -> bool:
    """Return True if bodies are small and incompressible.

    The lengths between such bodies make zstd search for matches without success, so they are stored
    separately: 80 instead of 145 ns for 100 bytes. Compressible bodies would take a tenth longer.
    """
    bodies = next((chunk for chunk in table["body"].chunks if len(chunk)), None)
    if (
        bodies is None
        or bodies.null_count
        or bodies.type != pa.binary()
        or bodies.nbytes > (_SMALL_BODY + 4) * len(bodies)
    ):
        return False
    sample = b"".join(bodies[: -(-_SAMPLE_BYTES * len(bodies) // bodies.nbytes)].to_pylist())
    return bool(pa.compress(sample, "zstd").size > (1 - _LEAST_GAIN) * len(sample))
