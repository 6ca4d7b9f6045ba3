"""`rmq` in a process that prints a line when it has imported what it needs, and then starts.

    python -m tests.crash.runner MACHINE up …

What it is told of its machine is wrong as a file says, which may change while it runs; '' is the truth.
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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqcli.broker.disk import Usage

READY = b"ready\n"
LAYOUT = struct.Struct("<qq")
"""Milliseconds by which the clock is ahead; percent of the disk in use."""
ROOMY = 50
"""Percent of the disk in use unless told otherwise."""
FIRST_RETENTION_S = 0.02
"""Seconds from a start to the first look for files to remove, which are a minute else."""


class Machine:
    """The clock and the disk of processes, as they are told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            path.write_bytes(LAYOUT.pack(0, ROOMY))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), LAYOUT.size)

    def set_clock(self, seconds: float) -> None:
        """Sets the clock ahead in all processes."""
        LAYOUT.pack_into(self._map, 0, round(seconds * 1000), self._values()[1])

    def fill(self, percent: int) -> None:
        """Has all processes see a disk of which so much is in use."""
        LAYOUT.pack_into(self._map, 0, self._values()[0], percent)

    def _values(self) -> tuple[int, int]:
        wrong_by, percent = LAYOUT.unpack_from(self._map)
        return wrong_by, percent

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._values()[0]

    def usage(self, usage: Usage) -> Usage:
        """What is said of a disk of which that much is in use."""
        return usage._replace(used=usage.total * self._values()[1] // 100)


def set_up(machine: Machine) -> None:
    """Has servers that are imported from now on believe a machine, and look for files to remove at once."""
    import rmqcli.broker.system

    rmqcli.broker.system.system_now_ms = machine.now_ms
    from rmqcli.broker.disk.real import RealDisk
    from rmqcli.broker.node import open_broker
    from rmqcli.broker.store import retention

    assert signature(open_broker).parameters["now_ms"].default == machine.now_ms
    true = RealDisk.usage
    RealDisk.usage = lambda disk, path: machine.usage(true(disk, path))  # type: ignore[assignment, method-assign]
    retention.FIRST_RUN_S = FIRST_RETENTION_S  # type: ignore[assignment]


def imported() -> Callable[[], None]:
    """Imports the servers; returns the command line."""
    for name in ("rmqcli.broker.testing.embedded", "rmqcli.commands.up"):
        import_module(name)
    from rmqcli.__main__ import main

    return main


if __name__ == "__main__":
    _, path, *arguments = sys.argv
    if path:
        set_up(Machine(Path(path)))
    main = imported()
    sys.argv = ["rmq", *arguments]
    print(READY.decode(), end="", flush=True)
    main()
