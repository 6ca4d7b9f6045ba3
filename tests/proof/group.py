"""A cluster and the members of a group, each in a process of its own that a test can kill."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rmqcli.cli.exit_codes import ExitCode
from tests.foreign.install import Client
from tests.proof.journal import Journal, wait_until
from tests.support import PATIENCE, RMQ

__all__ = ["Feed", "Group", "Server", "rmq"]

ORDERLY_MEMBER = (sys.executable, "-m", "tests.proof.orderly_member")


def rmq(namesrv: str, *arguments: str, absent: str = "") -> str:
    """Runs a command and returns its output, or `absent`, if given, when it finds nothing (exit code 4)."""
    done = subprocess.run(
        [*RMQ, *arguments, "-n", namesrv], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    if done.returncode == ExitCode.NOT_FOUND and absent:
        return absent
    assert done.returncode == 0, done.stderr
    return done.stdout


class Server:
    """`rmq up` on one store and the ports of its first start, through any number of kills and starts."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._broker = self.namesrv = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        broker, namesrv = (address.rpartition(":")[2] for address in (self._broker, self.namesrv))
        command = [*RMQ, "up", "--json", "--port", broker, "--namesrv-port", namesrv]
        command += ["--store", str(self._store), "--set", "mappedFileSizeCommitLog=16777216"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        words = json.loads(self._process.stdout.readline())
        self._broker, self.namesrv = words["broker"], words["namesrv"]

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
    """The members of one group of one topic. Leaving the block kills those that still run."""

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
        """Starts `rmq consume` with the line format of the other members."""
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

    def wait_joined(self) -> None:
        """Waits until the broker knows all members."""

        def known() -> int:
            arguments = ("group", "describe", self.name, "--json")
            return len(json.loads(rmq(self._server.namesrv, *arguments, absent='{"clients": []}'))["clients"])

        wait_until(lambda: known() == len(self.members), lambda: f"{known()} members")

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


class Feed:
    """`rmq send` of lines `PREFIX-0`, `PREFIX-1`, ... at about `rate` a second, until `finish`."""

    def __init__(self, server: Server, topic: str, prefix: str, rate: int, *options: str) -> None:
        command = [*RMQ, "send", topic, "-n", server.namesrv, *options]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self._prefix, self._pause = prefix, 1 / rate
        self._end = math.inf
        self.count = 0
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError), stdin:
            while self.count < self._end:
                stdin.write(f"{self._prefix}-{self.count}\n")
                stdin.flush()
                self.count += 1
                time.sleep(self._pause)

    def finish(self, more: int) -> None:
        """Ends the feed after `more` lines from now on."""
        self._end = self.count + more

    def wait(self) -> int:
        """Waits for the end; the exit status is 0 when every line was acknowledged."""
        self._thread.join(PATIENCE)
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        self._end = 0
        self._process.kill()
        self.wait()
