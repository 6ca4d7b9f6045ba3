"""Processes on a terminal, which tests type at."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support import PATIENCE, RMQ


class Seat:
    """A process on a terminal of 80 × 24."""

    def __init__(self, environment: dict[str, str], *arguments: str) -> None:
        self.terminal, side = pty.openpty()
        self.former = termios.tcgetattr(side)
        self.side, self.seen = side, b""
        self.process = subprocess.Popen(
            [*RMQ, *arguments], stdin=side, stdout=side, stderr=side, env=environment, start_new_session=True
        )

    def see(self, wanted: bytes) -> None:
        """Wait until it is shown; what came before is forgotten."""
        deadline = time.monotonic() + PATIENCE
        while wanted not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.terminal], [], [], left)[0], self.seen[-4000:]
            self.seen += os.read(self.terminal, 65536)
        self.seen = self.seen.partition(wanted)[2]

    def type(self, text: bytes) -> None:
        os.write(self.terminal, text)

    def end(self) -> int:
        """Return its exit code; the terminal is as it was."""
        self.see(b"\x1b[?25h\x1b[?1049l")
        code = self.process.wait(PATIENCE)
        assert termios.tcgetattr(self.side) == self.former
        return code


@contextmanager
def seated(environment: dict[str, str], *arguments: str) -> Iterator[Seat]:
    seat = Seat(environment, *arguments)
    try:
        yield seat
    finally:
        seat.process.kill()
        seat.process.wait()
        os.close(seat.terminal)
        os.close(seat.side)
