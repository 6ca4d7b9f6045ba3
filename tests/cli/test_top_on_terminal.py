"""`rmq top` on a terminal: keys, signals, and the terminal as it was afterwards."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.top.lines import Line
from rmqcli.top.screen import Screen
from tests.cli.conftest import Run
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


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One without the long names and many groups of other tests, which would not fit into 24 lines of 80."""
    with embedded_in_thread() as running:
        yield running


def test_keys_on_a_terminal(environment: dict[str, str], rmq: Run, topic: str) -> None:
    rmq("send", topic, "x")
    rmq("consume", topic, "-g", "G_live", "--from", "start", "-c", "1")
    with seated(environment, "top", "--interval", "0.2") as seat:
        seat.see(b"G_live")
        seat.type(b"?")
        seat.see(b"any key closes this")
        seat.type(b" t")
        seat.see(b"TOPIC")
        seat.type(b"/xyz")
        seat.see("/xyz▏".encode())
        seat.see(b"no topics with xyz")
        seat.type(b"\rq")
        assert seat.end() == 0


def test_signals_restore_the_terminal(environment: dict[str, str], rmq: Run) -> None:
    with seated(environment, "top", "brokers", "--interval", "0.2") as seat:
        seat.see(b"broker-a")
        seat.process.send_signal(signal.SIGTSTP)  # discarded, as no shell could continue it
        seat.see(b"\x1b[?1049l")
        seat.see(b"broker-a")
        seat.process.send_signal(signal.SIGCONT)
        seat.see(b"\x1b[?1049h")
        seat.see(b"broker-a")
        seat.process.terminate()
        assert seat.end() == -signal.SIGTERM


def test_an_error_restores_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, side = pty.openpty()
    former = termios.tcgetattr(side)
    with os.fdopen(side, "w") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        screen = Screen(color=False)
        screen.keys = side
        with pytest.raises(ZeroDivisionError), screen:
            assert termios.tcgetattr(side) != former
            screen.paint([Line("x", "bold")])
            raise ZeroDivisionError
        assert termios.tcgetattr(side) == former
        stdout.flush()
        assert os.read(terminal, 65536).endswith(b"\x1b[?25h\x1b[?1049l")
    os.close(terminal)
