"""The progress of an import: an append-only file of lines `{"file": NAME, "rows": [[BEGIN, END], …]}`.

Ends are excluded. A line is written as soon as the broker has acknowledged its rows, so an import that is
killed repeats at most the rows in flight. The first line names the source and the topic.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Collection, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from rmqcli.files import replace_file
from rmqcli.import_.rows import ImportFailed, InputError
from rmqcli.store.read.files import naming_full_disk


class _Head(msgspec.Struct, frozen=True):
    source: str
    topic: str


class _Sent(msgspec.Struct, frozen=True):
    file: str
    rows: list[tuple[int, int]]


def _joined(rows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for begin, end in sorted(rows):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


class Progress:
    """A context manager for the progress file of an import. With a path of None, nothing is kept."""

    def __init__(
        self,
        path: Path | None,
        source: str,
        topic: str,
        *,
        resume: bool,
        listed: Collection[str] | None = None,
    ) -> None:
        """Raise InputError if the file exists without `resume`, or belongs to another import, or if it names a
        file that is not `listed` in the source: its rows are in another file now.
        """
        self._path = path
        self._head = _Head(source, topic)
        self._sent: dict[str, list[tuple[int, int]]] = {}
        self._descriptor = -1
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise InputError(f"--progress {path}: expected a file in an existing folder")
        if path is not None and path.exists():
            if not resume:
                raise InputError(
                    f"{path} belongs to an earlier import: "
                    "continue with --resume, or remove it to send all again"
                )
            self._read(path)
            gone = next((file for file in self._sent if listed is not None and file not in listed), None)
            if gone is not None:
                raise InputError(
                    f"{path}: the rows of {gone} are in other files since a compaction, so it is not known which "
                    "ones were sent; remove it to send all again"
                )

    def _read(self, path: Path) -> None:
        # The last line may be cut short by a kill; its rows count as not sent.
        lines = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        try:
            head = msgspec.json.decode(lines[0], type=_Head) if lines else self._head
            for line in lines[1:]:
                sent = msgspec.json.decode(line, type=_Sent)
                self._sent.setdefault(sent.file, []).extend(sent.rows)
        except msgspec.MsgspecError as error:
            raise ImportFailed(f"{path}: not the progress file of an import: {error}") from error
        if head != self._head:
            raise InputError(f"{path} is of an import of {head.source} to topic {head.topic}")
        self._sent = {file: _joined(rows) for file, rows in self._sent.items()}

    def __enter__(self) -> Self:
        if self._path is not None:
            lines = [self._head, *(_Sent(file, rows) for file, rows in self._sent.items())]
            # The file is rewritten, which merges the many lines of the last run and removes a torn one.
            with naming_full_disk(self._path):
                replace_file(self._path, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        return self

    def is_sent(self, file: str, number: int) -> bool:
        rows = self._sent.get(file, [])
        place = bisect_right(rows, number, key=lambda row: row[0])
        return place > 0 and number < rows[place - 1][1]

    def sent(self, file: str, numbers: Iterable[int]) -> None:
        """Record rows that the broker has acknowledged."""
        if self._descriptor < 0 or self._path is None:
            return
        rows = _joined((number, number + 1) for number in numbers)
        line = msgspec.json.encode(_Sent(file, rows)) + b"\n"
        with naming_full_disk(self._path):
            # A full disk may accept part of the line without an error; a line after it would corrupt both.
            if os.write(self._descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
