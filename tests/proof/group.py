"""A cluster and the members of a group, each a process of its own: what can be killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rmqcli.cli.exit_codes import ExitCode
from tests.foreign.install import Client
from tests.proof.journal import Journal, wait_until
from tests.support import PATIENCE

__all__ = ["Group", "Server", "feed", "rmq"]

RMQ = (sys.executable, "-m", "rmqcli")
ORDERLY_MEMBER = (sys.executable, "-m", "tests.proof.orderly_member")


def rmq(namesrv: str, *arguments: str, absent: str = "") -> str:
    """What it prints; `absent` when it finds nothing (exit code 4), if that is said."""
    done = subprocess.run(
        [*RMQ, *arguments, "-n", namesrv], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    if done.returncode == ExitCode.NOT_FOUND and absent:
        return absent
    assert done.returncode == 0, done.stderr
    return done.stdout


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Server:
    """`rmq up` on one store and one pair of ports, however often it is killed and started."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._ports = free_ports(2)
        self._process: subprocess.Popen[str] | None = None
        self.namesrv = f"127.0.0.1:{self._ports[1]}"

    def start(self) -> None:
        broker, namesrv = map(str, self._ports)
        command = [*RMQ, "up", "--json", "--port", broker, "--namesrv-port", namesrv]
        command += ["--store", str(self._store), "--set", "mappedFileSizeCommitLog=16777216"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert json.loads(self._process.stdout.readline())["namesrv"] == self.namesrv

    def kill(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    @contextmanager
    def running(self) -> Iterator[Server]:
        self.start()
        try:
            yield self
        finally:
            self.kill()


class Group:
    """The members of one group of one topic. Leaving the block kills whoever is still there."""

    def __init__(self, server: Server, topic: str, folder: Path) -> None:
        folder.mkdir()
        self._server, self._folder = server, folder
        self.topic, self.name = topic, f"g-{topic}"
        self.journal = Journal(folder / "journal")
        self.members: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.members:
            self.kill(name)

    def join_rmq(self, name: str) -> None:
        """`rmq consume`, whose lines are made to look like those of the others."""
        line = f'{{"member": "{name}", "body": %v{{json}}, "queueId": %q}}\\n'
        self._start(
            name, *RMQ, "consume", self.topic, "-g", self.name, "-n", self._server.namesrv, "-f", line
        )

    def join_orderly(self, name: str) -> None:
        self._start(name, *ORDERLY_MEMBER, self._server.namesrv, self.topic, self.name, name)

    def join_foreign(self, client: Client, mode: str = "") -> None:
        with self.journal.writer() as journal:
            self.members[client.name] = client.start(
                self._home(client.name),
                *("consume", self._server.namesrv, self.topic, self.name, str(10**9), "-", mode),
                member=client.name,
                stdout=journal,
            )

    def kill(self, name: str) -> None:
        process = self.members[name]
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)

    def wait_joined(self, seconds: float = 30) -> None:
        """Until the broker knows them all."""

        def known() -> int:
            arguments = ("group", "describe", self.name, "--json")
            return len(json.loads(rmq(self._server.namesrv, *arguments, absent='{"clients": []}'))["clients"])

        wait_until(lambda: known() == len(self.members), seconds, lambda: f"{known()} members")

    def _home(self, name: str) -> Path:
        home = self._folder / name
        home.mkdir()
        return home

    def _start(self, name: str, *command: str) -> None:
        environment = os.environ | {"HOME": str(self._home(name))}
        with self.journal.writer() as journal, (self._folder / f"{name}.err").open("wb") as errors:
            self.members[name] = subprocess.Popen(
                command, stdout=journal, stderr=errors, env=environment, text=True
            )


def feed(server: Server, topic: str, lines: IO[str], rate: int, *options: str) -> subprocess.Popen[str]:
    """`rmq send` of a file's lines at a rate; its exit status is 0 when all were acknowledged."""
    command = [*RMQ, "send", topic, "-n", server.namesrv, "--rate", str(rate), *options]
    return subprocess.Popen(command, stdin=lines, stdout=subprocess.DEVNULL, text=True)
