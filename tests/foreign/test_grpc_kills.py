"""Official clients of RocketMQ 5 whose server is killed while they consume, and started again."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper
from tests.foreign.install import CLIENTS, GRPC_PYTHON, INSTALLED, NODE, install_grpc, install_node
from tests.foreign.official import lines_of, start
from tests.processes import announced, ended, launched, up
from tests.support import PATIENCE, RMQ

COMMANDS = {
    "python": (str(GRPC_PYTHON), str(CLIENTS / "grpc_members.py")),
    "node": (NODE, str(CLIENTS / "grpc_members.js")),
}
KINDS = ("simple", "push")
SETTLED_S = 7.0
"""A message that is delivered twice after all may come so long after the last one."""


class Server:
    """`rmq up --grpc` over one folder, which starts again on the same ports."""

    def __init__(self, store: Path) -> None:
        self._arguments = [*up(store), "--grpc", "0"]
        self._offsets = store / "config" / "consumerOffset.json"
        self.process = launched(self._arguments)
        self.words = announced(self.process)

    def restart(self) -> None:
        """Kill it, and start it again."""
        self.process.kill()
        self.process.wait()
        ports = {
            name: self.words[word].rpartition(":")[2]
            for name, word in (("--port", "broker"), ("--namesrv-port", "namesrv"), ("--grpc", "grpc"))
        }
        arguments = list(self._arguments)
        for name, port in ports.items():
            arguments[arguments.index(name) + 1] = port
        self.process = launched(arguments)
        assert announced(self.process)["grpc"] == self.words["grpc"]

    def saved(self, topic: str, group: str) -> int:
        """Return the number of messages that the disk knows to be acknowledged, without a gap before them."""
        try:
            table = decode_body(ConsumerOffsetSerializeWrapper, self._offsets.read_bytes()).offset_table
        except FileNotFoundError:
            return 0
        return sum(table.get(f"{topic}@{group}", {}).values())

    def rmq(self, *command: str, stdin: str = "") -> str:
        done = subprocess.run(
            [*RMQ, *command, "-n", self.words["namesrv"]],
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        return done.stdout


@pytest.fixture
def server(online: None, tmp_path: Path) -> Iterator[Server]:
    install_grpc()
    install_node()
    one = Server(tmp_path / "store")
    try:
        yield one
    finally:
        with ended(one.process):
            pass


class Members:
    """The consumers of one driver, and their deliveries so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[dict[str, Any]] = []
        self.ready = 0
        self._process = process
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            line = json.loads(text) if text.startswith("{") else {}
            self.ready += "ready" in line
            if "body" in line:
                self.lines.append(line)

    def of(self, kind: str) -> dict[str, list[dict[str, Any]]]:
        """The deliveries of each message to one kind of consumers."""
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in list(self.lines):
            if line["by"] == kind:
                found[line["body"]].append(line)
        return found

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait as long as something comes."""
        count, deadline = -1, 0.0
        while not is_so():
            if len(self.lines) > count:
                count, deadline = len(self.lines), time.monotonic() + PATIENCE
            assert time.monotonic() < deadline and self._process.poll() is None, count
            time.sleep(0.2)


@contextmanager
def members(server: Server, language: str, topic: str, failing: int, home: Path) -> Iterator[Members]:
    home.mkdir()
    process = subprocess.Popen(
        [*COMMANDS[language], server.words["grpc"], topic, language, str(failing)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=home,
        env=os.environ | {"HOME": str(home), "NODE_PATH": str(INSTALLED / "node/node_modules")},
    )
    with ended(process):
        one = Members(process)
        one.until(lambda: one.ready == (4 if failing else 8))
        yield one


def send(server: Server, bodies: Sequence[str]) -> None:
    server.rmq("send", "kills", stdin="\n".join(bodies))


@pytest.mark.parametrize(("language", "count"), [("python", 10_000), ("node", 10_000)])
def test_every_message_comes_and_none_that_was_acknowledged_before_a_kill_comes_again(
    server: Server, tmp_path: Path, language: str, count: int, show: Callable[[str], None]
) -> None:
    server.rmq("topic", "create", "kills")
    bodies = [f"m-{number}" for number in range(count)]
    part = count * 2 // 5
    with members(server, language, "kills", 0, tmp_path / "home") as found:
        send(server, bodies[:part])
        found.until(lambda: all(found.of(kind).keys() == set(bodies[:part]) for kind in KINDS))
        found.until(lambda: all(server.saved("kills", f"{language}-{kind}") == part for kind in KINDS))
        early = {kind: {body: len(lines) for body, lines in found.of(kind).items()} for kind in KINDS}
        send(server, bodies[part : 2 * part])
        server.restart()
        send(server, bodies[2 * part :])
        found.until(lambda: all(found.of(kind).keys() == set(bodies) for kind in KINDS))
        time.sleep(SETTLED_S)
    for kind in KINDS:
        deliveries = found.of(kind)
        assert deliveries.keys() == set(bodies)
        assert {body: len(deliveries[body]) for body in early[kind]} == early[kind]
    again = {kind: sum(len(lines) > 1 for lines in found.of(kind).values()) for kind in KINDS}
    show(f"{language}, {count} messages, came again: {again}")


@pytest.mark.parametrize("language", ["python", "node"])
def test_a_fifo_group_gets_each_message_group_in_order(server: Server, tmp_path: Path, language: str) -> None:
    """Every fifth message fails once, and the server is killed on the way."""
    server.rmq("topic", "create", "kills")
    server.rmq("group", "create", f"{language}-push", "--orderly")
    groups = [f"g{number}" for number in range(4)]
    bodies = {name: [f"{name}-{number}" for number in range(1, 61)] for name in groups}
    with members(server, language, "kills", 5, tmp_path / "home") as found:
        for first, last in ((0, 30), (30, 60)):
            lines_of(start(server.words, "ordered", "kills", str(last - first), str(first + 1)))
            if not first:
                found.until(lambda: len(found.of("push")) >= 60)
                server.restart()
        done = {body for name in groups for body in bodies[name]}
        found.until(
            lambda: (
                {body for body, lines in found.of("push").items() if not all(one["failed"] for one in lines)}
                == done
            )
        )
    for name in groups:
        lines = [line for line in found.lines if line["body"].startswith(f"{name}-")]
        succeeded: set[str] = set()
        for line in lines:
            before = bodies[name][: bodies[name].index(line["body"])]
            assert set(before) <= succeeded, f"{line} came before {set(before) - succeeded}"
            if not line["failed"]:
                succeeded.add(line["body"])
        assert {line["body"] for line in lines if line["failed"]} == set(bodies[name][4::5])
