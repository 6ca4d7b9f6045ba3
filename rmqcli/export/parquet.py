"""Parquet files of one export folder: temporary names until whole, a new file when one is large, `_SUCCESS` at the end."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any

from rmqcli.export.errors import ExportError

__all__ = ["COMPRESSION", "FILE_BYTES", "ParquetFolder", "refuse_existing"]

COMPRESSION = "zstd"
FILE_BYTES = 512 * 1024 * 1024
"""A file is ended after about so many bytes of columns in memory."""
ROW_GROUP_BYTES = 64 * 1024 * 1024


def refuse_existing(out: Path) -> None:
    """ExportError when there is something under `out` already: an export never mixes with another."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ExportError(f"{out}: exists and is not empty; name a new folder with --out")


class ParquetFolder:
    """`with ParquetFolder(out, schema) as folder: folder.write(batch)`. An error inside leaves nothing behind."""

    def __init__(self, out: Path, schema: Any, metadata: dict[str, str] | None = None) -> None:
        refuse_existing(out)
        self._out = out
        self._schema = schema.with_metadata(metadata or {})
        self._temporary = out / f"_temporary-{uuid.uuid4().hex}"
        self._pending: list[Any] = []
        self._pending_bytes = 0
        self._file_bytes = 0
        self._files = 0
        self._writer: Any = None

    def __enter__(self) -> ParquetFolder:
        self._temporary.mkdir(parents=True)
        return self

    def write(self, batch: Any) -> None:
        """Adds the rows of a record batch; batches are gathered to row groups."""
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        if not self._pending:
            return
        if self._writer is None:
            path = self._temporary / f"part-{self._files:05d}.parquet"
            self._writer = parquet.ParquetWriter(path, self._schema, compression=COMPRESSION)
            self._files += 1
        table = pa.Table.from_batches(self._pending).cast(self._schema)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._file_bytes += self._pending_bytes
        self._pending, self._pending_bytes = [], 0
        if self._file_bytes >= FILE_BYTES:
            self._end_file()

    def _end_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer, self._file_bytes = None, 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._write_group()
                self._commit()
        finally:
            self._end_file()
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _commit(self) -> None:
        self._end_file()
        for file in sorted(self._temporary.iterdir()):
            file.rename(self._out / file.name)
        (self._out / "_SUCCESS").touch()
