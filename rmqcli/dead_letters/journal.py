"""The journal of the dead letters of a group, so that none is sent twice: a file that only grows.

Each line is `{"letter": IDENTITY, "state": STATE}`; the last one of a letter counts. A line `sending` comes
before a send and `sent` after its acknowledgement: after a kill, a time-out or a lost connection a letter is
left as `sending`, and may have been sent.
"""

from __future__ import annotations

import errno
import fcntl
import os
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from rmqcli.dead_letters.letter import JournalError
from rmqcli.state import state_folder


class State(StrEnum):
    """The state of a letter. OPEN is never written, except to take back SENDING after a refusal."""

    OPEN = "open"
    SENDING = "sending"
    SENT = "sent"
    DROPPED = "dropped"


class _Line(msgspec.Struct, frozen=True):
    letter: str
    state: State


def journal_path(group: str) -> Path:
    """Return the file of a group in the user's state folder, or in the one that RMQ_STATE_DIR names."""
    return state_folder() / "dlq" / f"{group}.jsonl"


class Journal:
    """The states of letters by identity. Entered as a context manager, it can be written to."""

    def __init__(self, path: Path) -> None:
        """Read the file, if it exists. Raise JournalError for another file, and OSError."""
        self.path = path
        self._states: dict[str, State] = {}
        self._descriptor = -1
        self._read()

    def _read(self) -> None:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        # A kill may cut the last line short.
        for line in data.splitlines(keepends=True):
            if line.endswith(b"\n"):
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            found = msgspec.json.decode(line, type=_Line)
        except msgspec.MsgspecError as error:
            raise JournalError(f"{self.path}: not a progress file of rmq dlq: {error}") from error
        self._states[found.letter] = found.state

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise JournalError(f"{self.path} is in use: another rmq works on these dead letters") from None
        # Again, under the lock, because another process may have written to the file in the meantime.
        self._read()
        self._end_torn_line()
        return self

    def _end_torn_line(self) -> None:
        """Remove the partial line that a kill left: the next one would become unreadable."""
        data = self.path.read_bytes()
        os.ftruncate(self._descriptor, data.rfind(b"\n") + 1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
        self._descriptor = -1

    def state(self, letter: str) -> State:
        return self._states.get(letter, State.OPEN)

    def note(self, letter: str, state: State) -> None:
        """Write the state of a letter. Raise OSError if the disk is full: then nothing may be sent."""
        self._append(msgspec.json.encode(_Line(letter, state)) + b"\n")
        self._states[letter] = state

    def _append(self, data: bytes) -> None:
        if os.write(self._descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
