"""A process that has imported what most commands import, and forks a copy of itself for each `rmq` and `python`.

A start of `rmq` takes 0.2 s of CPU time, most of it for imports, a server or a program with the client library
0.4 s; a copy takes a quarter of that. What belongs to the command is imported by the copy, as by a process of its
own. warm_client.py is the client: it passes its arguments, environment, folder and standard streams.
"""

from __future__ import annotations

import gc
import importlib
import marshal
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from rmqcli.__main__ import main
from tests.docs.pages import ROOT
from tests.processes import ended
from tests.support import PATIENCE

__all__ = ["warm_programs"]

IMPORTED = (
    "rmqcli.broker.mirror",
    "rmqcli.broker.node",
    "rmqcli.codec.operations",
    "rmqcli.codec.scan",
    "duckdb",
    "encodings.idna",
    "numpy",
    "pyarrow.compute",
    "pyarrow.parquet",
    "rich.table",
    "rmqcli.cli.app",
    "rmqcli.cli.endpoints",
    "rmqcli.cli.running",
    "rmqcli.client.admin.admin",
    "rmqcli.client.produce.producer",
    "rmqcli.export.from_store.queue_check",
    "rmqcli.render.output",
    "trio",
)
CLIENT = Path(__file__).with_name("warm_client.py")
LENGTH = 4
RMQ = """#!/bin/sh
case "$1" in --profile | --timeout | -n) command=$3 ;; *) command=$1 ;; esac
case " $*" in *" --timeout "*) ;; *) set -- --timeout {patience:g} "$@" ;; esac
case "$command" in bench | spark | top | "$COLD") exec {rmq} "$@" ;; esac
exec {python} -I -S {client} {address} rmq "$@"
"""
"""Processes of their own are commands that measure, load Spark or paint a terminal, and the one in `COLD`, which a
page stops: SIGSTOP would stop the client instead of its copy.
"""
PYTHON = """#!/bin/sh
case "$1" in -c | *.py) exec {python} -I -S {client} {address} python "$@" ;; esac
exec {python} "$@"
"""


class Asked(NamedTuple):
    """What a copy needs of its client."""

    program: str
    arguments: list[str]
    environment: dict[bytes, bytes]
    folder: bytes
    process_group: int


@contextmanager
def warm_programs(folder: Path) -> Iterator[None]:
    """Runs the server; `folder` has `rmq` and `python` then, which it runs.

    The requests of that `rmq` may take as long as a busy machine needs. A server that ends before its time is
    named in a warning: programs have started in processes of their own since, which takes longer.
    """
    address, rmq = folder / "warm", Path(sys.executable).with_name("rmq")
    texts = {"python": sys.executable, "client": CLIENT, "address": address, "rmq": rmq}
    words = {name: shlex.quote(str(text)) for name, text in texts.items()}
    for name, script in (("rmq", RMQ), ("python", PYTHON)):
        (folder / name).write_text(script.format(**words, patience=PATIENCE))
        (folder / name).chmod(0o755)
    command = [sys.executable, "-m", __name__, str(address)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    with ended(process) as server:
        assert server.stdout is not None and server.stdout.readline()
        yield
        if server.poll() is not None:  # 0: its standard input, 1: an exception, below 0: a signal
            warnings.warn(f"the warm process ended with {server.returncode}", stacklevel=1)


class Server:
    """Accepts clients, and tells each of them the exit code of its copy."""

    def __init__(self, address: str, starter: Any) -> None:
        """Listens at a path; `starter` is readable once whoever started the server has ended."""
        self._events = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen()
        self.when_readable(self._listener, self._accept)
        self.when_readable(starter, sys.exit)

    def serve(self) -> NoReturn:
        while True:
            self.turn()

    def turn(self) -> None:
        """Handles the events of one look."""
        for key, _ in self._events.select():
            # Its file may have been closed by an event before it, and another one may have its number.
            if self._events.get_map().get(key.fd) is key:
                key.data()

    def when_readable(self, file: Any, action: Callable[[], object]) -> None:
        self._events.register(file, selectors.EVENT_READ, action)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        streams: list[int] = []
        try:
            head, streams, *_ = socket.recv_fds(client, LENGTH, 3)
            with client.makefile("rb") as file:
                asked = Asked(*marshal.loads(file.read(int.from_bytes(head, "big"))))
        except (OSError, EOFError, ValueError):  # the client was killed before it had asked
            for descriptor in (client.detach(), *streams):
                os.close(descriptor)
            return
        process = os.fork()
        if process == 0:
            run_copy(asked, streams)
        for stream in streams:
            os.close(stream)
        end = os.pidfd_open(process)
        self.when_readable(client, partial(self._pass_signal, client, end))
        self.when_readable(end, partial(self._tell_end, client, end, process))

    def _pass_signal(self, client: socket.socket, end: int) -> None:
        """A client that is killed takes its copy with it."""
        try:
            number = client.recv(1)
        except ConnectionError:
            number = b""
        if not number:
            self._events.unregister(client)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(end, number[0] if number else signal.SIGKILL)

    def _tell_end(self, client: socket.socket, end: int, process: int) -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        with suppress(OSError):  # the client was killed
            client.send((code if code >= 0 else 128 - code).to_bytes(LENGTH, "big"))
        with suppress(KeyError):
            self._events.unregister(client)
        self._events.unregister(end)
        client.close()
        os.close(end)


def run_copy(asked: Asked, streams: list[int]) -> NoReturn:
    """Runs the command as if this process had been started for it; does not return."""
    os.setpgid(0, asked.process_group)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1024)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environb.update(asked.environment)
    time.tzset()
    os.chdir(asked.folder)
    try:
        PROGRAMS[asked.program](asked.arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    else:
        code = 0
    sys.stderr.flush()
    os._exit(code)  # clearing up what the server imported takes as long as the command


def run_rmq(arguments: list[str]) -> None:
    sys.argv = ["rmq", *arguments]
    main()


def run_python(arguments: list[str]) -> None:
    """Runs `python -c TEXT [ARGUMENT]…` or `python FILE [ARGUMENT]…`."""
    first, *rest = arguments
    try:
        if first == "-c":
            sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv, sys.path[0] = arguments, str(Path(first).resolve().parent)
            runpy.run_path(first, run_name="__main__")
    finally:
        sys.stdout.flush()


PROGRAMS = {"rmq": run_rmq, "python": run_python}


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    server = Server(sys.argv[1], sys.stdin)
    print("ready", flush=True)
    server.serve()
