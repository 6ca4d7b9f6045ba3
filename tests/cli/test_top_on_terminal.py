"""`rmq top` on a terminal: keys, signals, and the terminal as it was afterwards."""

from __future__ import annotations

import errno
import os
import pty
import signal
import termios
from collections.abc import Iterator

import pytest

from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.top.table import Line
from rmqcli.top.terminal import Screen
from tests.cli.conftest import Run
from tests.cli.seats import seated


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
    assert _painted(terminal).endswith(b"\x1b[?25h\x1b[?1049l")
    os.close(terminal)


def _painted(terminal: int) -> bytes:
    """Returns what was written to the closed side; the kernel hands it over in parts."""
    parts: list[bytes] = []
    while not parts or parts[-1]:
        try:
            parts.append(os.read(terminal, 65536))
        except OSError as error:
            assert error.errno == errno.EIO  # all was read
            break
    return b"".join(parts)
