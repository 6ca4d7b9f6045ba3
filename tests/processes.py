"""Servers of the command line in processes of their own: `rmq up`, `rmq broker`, `rmq namesrv`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import AnyStr

from tests.support import RMQ

Process = subprocess.Popen[bytes]


def up(store: Path, settings: Mapping[str, object] | None = None) -> list[str]:
    """The arguments of `rmq up` on free ports, with properties of the broker."""
    words = ["up", "--port", "0", "--namesrv-port", "0", "--store", str(store)]
    for name, value in (settings or {}).items():
        words += ["--set", f"{name}={value}"]
    return words


def launched(arguments: Sequence[str], command: Sequence[str] = RMQ, stderr: int | None = None) -> Process:
    """A server that has begun to start."""
    return subprocess.Popen([*command, *arguments, "--json"], stdout=subprocess.PIPE, stderr=stderr)


def announced(process: Process) -> dict[str, str]:
    """The words with which a server announces that it accepts connections."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"the server ended before it served, with {process.wait()}"
    words: dict[str, str] = json.loads(line)
    return words


@contextmanager
def ended(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """Kills a process at the end of the block if it still runs."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@contextmanager
def running(
    arguments: Sequence[str], command: Sequence[str] = RMQ, stderr: int | None = None
) -> Iterator[tuple[Process, dict[str, str]]]:
    """A server and the words of its announcement; killed at the end of the block if it still runs."""
    with ended(launched(arguments, command, stderr)) as process:
        yield process, announced(process)
