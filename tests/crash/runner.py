"""`rmq` in a process that prints a line when it has imported what it needs, and then starts.

    python -m tests.crash.runner CLOCK up …

Its wall clock is wrong by the milliseconds in a file, which may change while it runs; '' is the right one.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path

READY = b"ready\n"
WRONG_BY = struct.Struct("<q")


class WrongClock:
    """The time that a process is told; `seconds` is how far it is ahead."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(WRONG_BY.pack(0))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), WRONG_BY.size)

    def set(self, seconds: float) -> None:
        """Sets the clock in all processes."""
        WRONG_BY.pack_into(self._map, 0, round(seconds * 1000))

    def __call__(self) -> int:
        """Epoch milliseconds."""
        return time.time_ns() // 1_000_000 + int(WRONG_BY.unpack_from(self._map)[0])


def set_clock(clock: WrongClock) -> None:
    """Has servers that are imported from now on take a clock for that of the machine."""
    import broker.clock

    broker.clock.system_now_ms = clock
    from broker.node import open_broker

    assert signature(open_broker).parameters["now_ms"].default is clock


def imported() -> Callable[[], None]:
    """Imports the servers; returns the command line."""
    for name in ("broker.testing.embedded", "rmqcli.commands.up"):
        import_module(name)
    from rmqcli.__main__ import main

    return main


if __name__ == "__main__":
    _, path, *arguments = sys.argv
    if path:
        set_clock(WrongClock(Path(path)))
    main = imported()
    sys.argv = ["rmq", *arguments]
    print(READY.decode(), end="", flush=True)
    main()
