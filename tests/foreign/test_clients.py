"""Every foreign client sends and consumes through the broker, and reads the messages of the others."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.foreign.install import ALI_ONS, ALL, CPP1_CTYPES, Client
from tests.processes import ended
from tests.support import PATIENCE

COUNT = 1000
Consuming = Callable[..., subprocess.Popen[str]]


def wait_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{") and json.loads(line).get("ready"):
            return
    raise AssertionError("the consumer ended before it was ready")


def rest_of(process: subprocess.Popen[str], timeout: float = 120) -> list[dict[str, Any]]:
    out, _ = process.communicate(timeout=timeout)
    assert '"done"' in out, f"{process.args!r} ended with {process.returncode}: {out[-300:]}"
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


@pytest.fixture
def consuming(cluster: dict[str, str], tmp_path: Path) -> Iterator[Consuming]:
    """Starts a consumer, which ends with the test: one that is left would keep a core busy."""
    with ExitStack() as stack:

        def start(client: Client, *args: str) -> subprocess.Popen[str]:
            return stack.enter_context(ended(client.start(tmp_path, "consume", cluster["namesrv"], *args)))

        yield start


def messages(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if "body" in line]


def expected(prefix: str, count: int = COUNT) -> dict[str, tuple[str, str]]:
    return {f"{prefix}-{n}": (f"tag{n % 3}", f"{prefix}-key-{n}") for n in range(count)}


def test_sends_and_consumes(
    client: Client, cluster: dict[str, str], rmq: Any, consuming: Consuming, tmp_path: Path
) -> None:
    topic = f"own-{client.name.replace('.', '-')}"
    rmq("topic", "create", topic, "--queues", "4")
    consumer = consuming(client, topic, f"g-{topic}", str(COUNT), "own")
    wait_ready(consumer)
    sent = client.lines(
        tmp_path, "send", cluster["namesrv"], topic, f"p-{topic}", str(COUNT), "own", "", "16"
    )
    assert Counter(line["n"] for line in sent if "n" in line) == Counter(range(COUNT))
    got = messages(rest_of(consumer))
    assert {line["body"]: (line["tags"], line["keys"]) for line in got} == expected("own")


@pytest.mark.parametrize("sender", ALL, ids=lambda client: client.name)
def test_reads_what_the_others_wrote(
    installed: None, sender: Client, cluster: dict[str, str], rmq: Any, consuming: Consuming, tmp_path: Path
) -> None:
    topic = f"from-{sender.name.replace('.', '-')}"
    rmq("topic", "create", topic, "--queues", "4")
    readers = {
        other.name: consuming(other, topic, f"g-{topic}-{n}", str(COUNT), "x")
        for n, other in enumerate(ALL)
        if other is not sender
    }
    for reader in readers.values():
        wait_ready(reader)
    sender.lines(tmp_path, "send", cluster["namesrv"], topic, f"p-{topic}", str(COUNT), "x", "", "16")
    for name, reader in readers.items():
        assert {line["body"] for line in messages(rest_of(reader))} == set(expected("x")), name
    pulled = [json.loads(line) for line in rmq("pull", topic, "--json")]
    assert {m["body"]: (m["tags"], " ".join(m["keys"])) for m in pulled} == expected("x")
    assert len(pulled) == COUNT


def test_rmq_writes_what_they_read(client: Client, rmq: Any, consuming: Consuming) -> None:
    topic = f"rmq-to-{client.name.replace('.', '-')}"
    rmq("topic", "create", topic, "--queues", "4")
    consumer = consuming(client, topic, f"g-{topic}", "300", "r")
    wait_ready(consumer)
    rmq("send", topic, "-t", "tagR", "-k", "a", "-k", "key", stdin="".join(f"r-{n}\n" for n in range(300)))
    got = messages(rest_of(consumer))
    assert {line["body"] for line in got} == {f"r-{n}" for n in range(300)}
    assert {(line["tags"], line["keys"]) for line in got} == {("tagR", "a key")}


def test_a_failure_brings_the_message_again(
    client: Client, cluster: dict[str, str], rmq: Any, consuming: Consuming, tmp_path: Path
) -> None:
    topic = f"again-{client.name.replace('.', '-')}"
    rmq("topic", "create", topic, "--queues", "2")
    consumer = consuming(client, topic, f"g-{topic}", "20", "f", "fail-once")
    wait_ready(consumer)
    client.lines(tmp_path, "send", cluster["namesrv"], topic, f"p-{topic}", "20", "f")
    got = messages(rest_of(consumer))
    assert {line["body"] for line in got} == {f"f-{n}" for n in range(20)}
    if client.has_reconsume_times:
        times = {line["reconsumeTimes"] for line in got}
        assert times == {1} or (client.fails_whole_pulls and min(times) == 1)


def test_two_clients_share_one_group(installed: None, rmq: Any, consuming: Consuming) -> None:
    rmq("topic", "create", "shared", "--queues", "8")
    pair = [consuming(c, "shared", "g-shared", "100000", "s") for c in (ALI_ONS, CPP1_CTYPES)]
    for process in pair:
        wait_ready(process)
    seen, came = [set[str]() for _ in pair], threading.Condition()

    def read(number: int) -> None:
        stdout = pair[number].stdout
        assert stdout is not None
        for line in stdout:
            with came:
                seen[number].add(json.loads(line)["body"])
                came.notify()

    readers = [threading.Thread(target=read, args=(number,)) for number in range(len(pair))]
    for reader in readers:
        reader.start()
    sent: list[str] = []
    deadline = time.monotonic() + PATIENCE
    try:
        while not (sent and all(seen)):  # the first has all queues until it hears of the second
            shares = [len(share) for share in seen]
            assert time.monotonic() < deadline, f"one of the two gets nothing: {shares}"
            more = [f"s-{len(sent) + n}" for n in range(400)]
            rmq("send", "shared", stdin="".join(f"{body}\n" for body in more))
            sent += more
        with came:
            assert came.wait_for(lambda: set().union(*seen) >= set(sent), PATIENCE)
    finally:
        for process, reader in zip(pair, readers, strict=True):
            process.terminate()
            process.wait(PATIENCE)
            reader.join(PATIENCE)
    assert set().union(*seen) == set(sent)
