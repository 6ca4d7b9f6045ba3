"""A topic, or all topics, as an Arrow data set, from which DuckDB requests columns and rows.

DuckDB calls `scanner` of a data set with names of columns and a filter, and reads the stream of the result.
It does not filter again, so every batch is filtered here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from rmqcli.codec.scan.arrow import schema

Batches = Callable[[Any | None], Iterator[Any]]
"""Returns record batches of the export schema with all rows that a filter accepts, and possibly others."""


class TopicTable(ds.Dataset):  # type: ignore[misc]
    """A data set whose rows are read on demand."""

    def __init__(self, batches: Batches) -> None:
        # `ds.Dataset` has no instances itself, so its __init__ is not called.
        self._batches = batches

    @property
    def schema(self) -> Any:
        return schema()

    def scanner(
        self, columns: Sequence[str] | None = None, filter: Any | None = None, **options: Any
    ) -> _Scan:
        """Return the scan that DuckDB reads.

        Options of Arrow's own scans, such as batch sizes, have no effect.
        """
        return _Scan(self._batches, schema().names if columns is None else list(columns), filter)


class _Scan:
    """One read of the rows that a filter accepts."""

    def __init__(self, batches: Batches, columns: Sequence[str], filter: Any | None) -> None:
        self._batches = batches
        self._filter = filter
        self.projected_schema = pa.schema([schema().field(name) for name in columns])

    def to_reader(self) -> Any:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._accepted())

    def __arrow_c_stream__(self, requested_schema: Any | None = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _accepted(self) -> Iterator[Any]:
        names = self.projected_schema.names
        for batch in self._batches(self._filter):
            accepted = batch if self._filter is None else batch.filter(self._filter)
            if accepted.num_rows:
                yield accepted.select(names)
