"""The store folders of `tests/data`, and the limit of waits for other processes."""

from __future__ import annotations

import json
import os
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

PATIENCE = 120.0
"""Seconds after which a wait for another process or thread fails: a busy machine needs far less."""

RMQ = (sys.executable, "-m", "rmqcli", "--timeout", f"{PATIENCE:g}")
"""The command line in a process of its own."""

DATA = Path(__file__).parent / "data"
COMMIT_LOG_FILE_SIZE = 512 * 1024
CONSUME_QUEUE_FILE_SIZE = 300 * 20
INDEX_SLOTS = 500
INDEX_ITEMS = 2000
PAGE = 4096


@dataclass(frozen=True)
class Ack:
    """A send that was acknowledged before the broker was killed."""

    topic: str
    queue_id: int
    queue_offset: int
    uniq_key: str
    offset_msg_id: str


@dataclass(eq=False)
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
    """Unpacks `store-clean`, `store-killed` or `store-five` below a folder; sparse files stay sparse."""
    for path, entry in _entries(name):
        if entry.content is None:
            (target / path).mkdir(entry.mode, parents=True, exist_ok=True)
            continue
        with (target / path).open("wb") as file:
            for begin, data in entry.content:
                file.seek(begin)
                file.write(data)
            file.truncate(entry.size)
            os.fchmod(file.fileno(), entry.mode)
        os.utime(target / path, (entry.changed, entry.changed))
    return JavaStore(target / name)


class _Entry(NamedTuple):
    """A file of an archive, or a folder without content."""

    mode: int
    changed: float
    size: int
    content: tuple[tuple[int, bytes], ...] | None
    """What is between the holes, with the places where it begins."""


@cache
def _entries(name: str) -> list[tuple[str, _Entry]]:
    """Reads an archive once in a process: to decompress it takes five times as long as to write the files."""
    found = []
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        for member in archive:
            content = None
            if (file := archive.extractfile(member)) is not None:
                data = file.read()
                places: Any = member.sparse or [(0, member.size)]
                content = tuple((begin, data[begin : begin + size]) for begin, size in places)
            entry = _Entry(member.mode, member.mtime, member.size, content)
            found.append((member.name, entry))
    return found


def sparse_copy(source: Path, target: Path) -> Path:
    """Copies a folder with a hole for each page of zeros, as `cp --sparse=always` does."""
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes()
        with copy.open("wb") as file:
            file.truncate(len(data))
            for at in range(0, len(data), PAGE):
                if data[at : at + PAGE].strip(b"\0"):
                    file.seek(at)
                    file.write(data[at : at + PAGE])
        os.utime(copy, (path.stat().st_atime, path.stat().st_mtime))
    return target
