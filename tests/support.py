"""The store folders of `tests/data`, and the limit of waits for other processes."""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

PATIENCE = 120.0
"""Seconds after which a wait for another process or thread fails: a busy machine needs far less."""

RMQ = (sys.executable, "-m", "rmqcli", "--timeout", f"{PATIENCE:g}")
"""The command line in a process of its own."""

DATA = Path(__file__).parent / "data"
COMMIT_LOG_FILE_SIZE = 512 * 1024
CONSUME_QUEUE_FILE_SIZE = 300 * 20
INDEX_SLOTS = 500
INDEX_ITEMS = 2000


@dataclass(frozen=True)
class Ack:
    """A send that was acknowledged before the broker was killed."""

    topic: str
    queue_id: int
    queue_offset: int
    uniq_key: str
    offset_msg_id: str


@dataclass
class JavaStore:
    """A store folder that a Java broker wrote, with the output of Java's decoder. Copy it to write to it."""

    folder: Path
    root: Path = field(init=False)

    def __post_init__(self) -> None:
        self.root = self.folder / "store"

    @cached_property
    def dump(self) -> list[dict[str, Any]]:
        with (self.folder / "dump.jsonl").open(encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """The dump lines of one kind: msg, commitlog-file, consumequeue-file, index-file."""
        return [line for line in self.dump if line["kind"] == kind]

    @property
    def commit_logs(self) -> list[Path]:
        return sorted((self.root / "commitlog").iterdir())

    @cached_property
    def commit_log(self) -> bytes:
        """The concatenated commit log files: physical offsets are positions in it."""
        return b"".join(path.read_bytes() for path in self.commit_logs)

    def acks(self) -> Iterator[Ack]:
        for line in (self.folder / "acks.txt").read_text().splitlines():
            _, topic, queue_id, queue_offset, uniq_key, offset_msg_id = line.split(" ")
            yield Ack(topic, int(queue_id), int(queue_offset), uniq_key, offset_msg_id)


def unpack(name: str, target: Path) -> JavaStore:
    """Unpacks `store-clean` or `store-killed` below a folder; sparse files stay sparse."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        if hasattr(tarfile, "data_filter"):  # Debian's Python 3.11.2 has no filters yet
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(target)
    return JavaStore(target / name)
