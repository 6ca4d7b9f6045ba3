"""Parquet files of one export: written under a temporary name below --out, renamed when all of them are whole.

An export that fails leaves nothing, one that is killed leaves a folder `_temporary-…` that readers of Parquet skip, and no
`_SUCCESS`. Sizes are bytes of columns in memory.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from rmqcli.export.errors import OutputExists

__all__ = ["ExportFolder", "ParquetFiles", "refuse_existing"]

COMPRESSION = "zstd"
FILE_BYTES = 512 * 1024 * 1024
"""A file is ended after about so many bytes."""
ROW_GROUP_BYTES = 64 * 1024 * 1024
REPEATING = ["topic", "broker_name", "tags", "born_host", "store_host", "properties.key_value.key"]
"""Columns worth a dictionary; trying one on bodies costs time and is given up every time."""
SUCCESS = "_SUCCESS"


def refuse_existing(out: Path) -> None:
    """OutputExists when there is something under `out`."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OutputExists(f"{out}: exists and is not empty; name a new folder with --out")


class ParquetFiles:
    """`with ParquetFiles(folder, "part", schema) as files: files.write(batch)`; then `files.names` are the files made.

    An error inside may leave broken files: the folder is a temporary one.
    """

    def __init__(self, folder: Path, prefix: str, schema: Any) -> None:
        self.names: list[str] = []
        self._folder = folder
        self._prefix = prefix
        self._schema = schema
        self._pending: list[Any] = []
        self._pending_bytes = 0
        self._file_bytes = 0
        self._writer: Any = None

    def __enter__(self) -> ParquetFiles:
        return self

    def write(self, batch: Any) -> None:
        """Adds the rows of a record batch; batches are gathered to row groups."""
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa

        table = pa.Table.from_batches(self._pending, self._pending[0].schema).cast(self._schema)
        self._open().write_table(table, row_group_size=max(1, table.num_rows))
        self._file_bytes += self._pending_bytes
        self._pending, self._pending_bytes = [], 0
        if self._file_bytes >= FILE_BYTES:
            self._end_file()

    def _open(self) -> Any:
        from pyarrow import parquet

        if self._writer is None:
            self.names.append(f"{self._prefix}-{len(self.names):05d}.parquet")
            self._writer = parquet.ParquetWriter(
                self._folder / self.names[-1],
                self._schema,
                compression=COMPRESSION,
                use_dictionary=REPEATING,
            )
        return self._writer

    def _end_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer, self._file_bytes = None, 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._pending:
                self._write_group()
        finally:
            self._end_file()


class ExportFolder:
    """`with ExportFolder(out, schema) as folder:` write files to `folder.temporary`, then `folder.commit(names)`."""

    def __init__(self, out: Path, schema: Any) -> None:
        """OutputExists when there is something under `out`."""
        refuse_existing(out)
        self.temporary = out / f"_temporary-{uuid.uuid4().hex}"
        self._out = out
        self._schema = schema
        self._is_new = not out.exists()

    def __enter__(self) -> ExportFolder:
        self.temporary.mkdir(parents=True)
        return self

    def commit(self, names: Iterable[str]) -> None:
        """These files, in this order, are the export. No rows at all are one empty file: it still has the schema."""
        for number, name in enumerate(list(names) or [self._empty_file()]):
            (self.temporary / name).rename(self._out / f"part-{number:05d}.parquet")
        (self._out / SUCCESS).touch()

    def _empty_file(self) -> str:
        from pyarrow import parquet

        parquet.write_table(self._schema.empty_table(), self.temporary / "empty.parquet")
        return "empty.parquet"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.temporary, ignore_errors=True)
        if kind is not None and self._is_new and not any(self._out.iterdir()):
            self._out.rmdir()
