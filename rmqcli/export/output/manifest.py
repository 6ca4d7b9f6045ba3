"""The manifest of an export folder: its content, and where `--resume` continues.

It stands beside the folder `orders`, in `_orders.rmq`: some readers (Polars) take every file in a folder
for data. Names that start with `_` are skipped by others (Spark, PyArrow) that read the folder above.

An export of a topic continues at `end` of each queue, one of stores at `commitLogOffset` of each; where
that is null (the last export had an end, so it left out records in between) at `end` of each queue, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rmqcli.export.errors import ExportError, OutputExists
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.spans import LastRow, QueueSpan, latest, merged
from rmqcli.files import replace_file

MANIFEST = "manifest.json"


def books_of(out: Path) -> Path:
    """Return the folder beside `out` that holds its manifest, and files that are not finished."""
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
    """The source of the rows: store folders, a topic of the cluster, or some topics of stores; of stores
    also a queue id and tags.
    """

    stores: tuple[StoreEntry, ...]
    topic: str | None
    queue_id: int | None = None
    tags: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return ", ".join(store.path for store in self.stores) or self.topic or ""


class FileEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A Parquet file; `path` is relative to the folder, `bytes` its size. Of `undecoded` rows `value` is
    null.
    """

    path: str
    rows: int
    bytes: int
    queues: list[QueueSpan]
    commit_log_end: int = 0
    undecoded: int = 0
    last: list[LastRow] = []


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of the file; `queues` are the ranges of all files together, `last` the last record of
    each.
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

    def require_same(self, other: Manifest, out: Path) -> None:
        """Raise OutputExists if `other` is not a continuation of this export."""
        for name, option in _MUST_AGREE.items():
            was, is_now = _text(getattr(self, name)), _text(getattr(other, name))
            if was != is_now:
                raise OutputExists(
                    f"{out}: was exported with {option} {was}, not {is_now}; "
                    "specify the same to resume, or name a new folder with --out"
                )

    def require_whole(self, out: Path) -> None:
        """Raise OutputExists if a file has changed in size. A missing file was removed by the user."""
        for file in self.files:
            path = out / file.path
            size = path.stat().st_size if path.exists() else file.bytes
            if size != file.bytes:
                raise OutputExists(
                    f"{path}: has {size} bytes, not the {file.bytes} that were exported "
                    "(after a power cut?); name a new folder with --out"
                )

    def commit_log_offset(self, store: str) -> int | None:
        """Return where the next export of a store continues; None: at the ends of its queues."""
        return next((entry.commit_log_offset for entry in self.stores if entry.path == store), 0)

    def extended(
        self, files: list[FileEntry], reached: list[QueueSpan], ends: Mapping[str, int | None]
    ) -> Manifest:
        """Return the manifest with more files; `reached` are spans without rows, as far as was read, and
        `ends` the commit-log offsets where the next export of each store continues.
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
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise ExportError(f"{path}: not written by rmq export: {error}") from error


def write_json(path: Path, value: object) -> None:
    """Write a file whole or not at all, even if the process is killed.

    Like the Parquet files it is not synced: a manifest that outlives them at a power cut would list missing
    rows.
    """
    text = msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"
    replace_file(path, text, durable=False)
