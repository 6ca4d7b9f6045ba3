"""Parquet files of one export: written under a temporary name below --out, renamed when all of them are whole.

An export that fails leaves nothing, one that is killed leaves a folder `_temporary-…` that readers of Parquet skip, and no
`_SUCCESS`. Sizes are bytes of columns in memory.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from rmqcli.export.errors import OutputExists

__all__ = ["ExportFolder", "ParquetFiles", "refuse_existing"]

FILE_BYTES = 512 * 1024 * 1024
"""A file is ended after about so many bytes."""
ROW_GROUP_BYTES = 64 * 1024 * 1024
WRITER_OPTIONS: Mapping[str, Any] = {
    "compression": "zstd",
    # Trying a dictionary on bodies costs time and is given up every time; the least and the largest body tell nobody anything.
    "use_dictionary": ["topic", "broker_name", "tags", "born_host", "store_host", "properties.key_value.key"],
    "write_statistics": [
        *("topic", "broker_name", "queue_id", "queue_offset", "commit_log_offset", "msg_id", "tags"),
        *("born_timestamp", "store_timestamp", "sys_flag", "reconsume_times", "store_size"),
    ],
}
SUCCESS = "_SUCCESS"
_TEMPORARY = "_temporary-"


def refuse_existing(out: Path) -> None:
    """OutputExists when there is something under `out`."""
    if not out.exists():
        return
    found = [path.name for path in out.iterdir()] if out.is_dir() else [out.name]
    if found and all(name.startswith(_TEMPORARY) for name in found):
        raise OutputExists(
            f"{out}: holds {found[0]} of an export that still runs or was killed; remove that, or name a new folder with --out"
        )
    if found:
        raise OutputExists(f"{out}: exists and is not empty; name a new folder with --out")


class ParquetFiles:
    """`with ParquetFiles(folder, "part", schema) as files: files.write(batch)`; then `files.names` are the files made.

    A row group is compressed and written by a thread of its own while the next one is gathered, so memory holds two. An error
    inside may leave broken files: the folder is a temporary one.
    """

    def __init__(self, folder: Path, prefix: str, schema: Any) -> None:
        self.names: list[str] = []
        self._folder = folder
        self._prefix = prefix
        self._schema = schema
        self._gathered: list[Any] = []
        self._gathered_bytes = 0
        self._file_bytes = 0
        self._writer: Any = None
        self._thread = ThreadPoolExecutor(1, "parquet")
        self._under_way: Future[None] | None = None

    def __enter__(self) -> ParquetFiles:
        return self

    def write(self, batch: Any) -> None:
        """Adds the rows of a record batch. Errors of writing come out at a later call, or at the end of the block."""
        if batch.num_rows:
            self._gathered.append(batch)
            self._gathered_bytes += batch.nbytes
        if self._gathered_bytes >= ROW_GROUP_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        self._settle()
        self._under_way = self._thread.submit(self._write_group, self._gathered, self._gathered_bytes)
        self._gathered, self._gathered_bytes = [], 0

    def _settle(self) -> None:
        if self._under_way is not None:
            self._under_way.result()
            self._under_way = None

    def _write_group(self, batches: list[Any], size: int) -> None:
        import pyarrow as pa

        table = pa.Table.from_batches(batches).cast(self._schema)
        self._open().write_table(table, row_group_size=table.num_rows)
        self._file_bytes += size
        if self._file_bytes >= FILE_BYTES:
            self._end_file()

    def _open(self) -> Any:
        from pyarrow import parquet

        if self._writer is None:
            self.names.append(f"{self._prefix}-{len(self.names):05d}.parquet")
            path = self._folder / self.names[-1]
            self._writer = parquet.ParquetWriter(path, self._schema, **WRITER_OPTIONS)
        return self._writer

    def _end_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer, self._file_bytes = None, 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._thread, ExitStack() as stack:
            stack.callback(self._end_file)
            self._settle()
            if kind is None and self._gathered:
                self._write_group(self._gathered, self._gathered_bytes)


class ExportFolder:
    """`with ExportFolder(out, schema) as folder:` write files to `folder.temporary`, then `folder.commit(names)`."""

    def __init__(self, out: Path, schema: Any) -> None:
        """OutputExists when there is something under `out`."""
        refuse_existing(out)
        self.temporary = out / f"{_TEMPORARY}{uuid.uuid4().hex}"
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
