"""Official clients of RocketMQ 5 with `rmq up --grpc`, and with `rmq proxy` in front of it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.foreign.install import CLIENTS, INSTALLED, NODE, install_grpc, install_node
from tests.foreign.official import lines_of, start
from tests.processes import running, up
from tests.support import PATIENCE, RMQ

SETTINGS = {"transactionCheckInterval": 1000, "transactionTimeOut": 1000}


@pytest.fixture(scope="module", params=["up", "proxy"])
def cluster(
    online: None, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[dict[str, str]]:
    install_grpc()
    with ExitStack() as stack:
        command = [*up(tmp_path_factory.mktemp("store"), SETTINGS), "--grpc", "0"]
        process, words = stack.enter_context(running(command))
        processes = [process]
        if request.param == "proxy":
            command = ["proxy", "--port", "0", "-n", words["namesrv"]]
            process, told = stack.enter_context(running(command))
            processes.insert(0, process)
            words |= {"grpc": told["grpc"]}
        yield words
        for process in processes:
            process.terminate()
            assert process.wait(PATIENCE) == 0


def pulled(cluster: dict[str, str], topic: str) -> dict[str, dict[str, Any]]:
    """The messages of a topic by their bodies, as a client of remoting sees them."""
    command = [*RMQ, "pull", topic, "--json", "-n", cluster["namesrv"]]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return {one["body"]: one for one in map(json.loads, done.stdout.splitlines())}


def test_python_sends_messages_of_each_kind(cluster: dict[str, str], tmp_path: Path) -> None:
    sent = {
        one["sent"]: one["id"]
        for one in lines_of(start(cluster, "send", "kinds", "20", "8"))
        if "sent" in one
    }
    assert len(sent) == 43
    deadline = time.monotonic() + PATIENCE
    while "delayed-0" not in (found := pulled(cluster, "kinds")):
        assert time.monotonic() < deadline
    assert found.keys() == sent.keys() - {"recalled-0"}
    for body, one in found.items():
        name, _, number = body.partition("-")
        assert (one["msgId"], one["tags"], one["keys"], one["properties"]["number"]) == (
            sent[body],
            f"tag{int(number) % 3}",
            [f"key-{number}"],
            number,
        )
        assert one["properties"].get("__SHARDINGKEY") == (
            f"group-{int(number) % 4}" if name == "fifo" else None
        )
    queues = {
        (one["properties"]["__SHARDINGKEY"], one["queueId"]) for body, one in found.items() if "fifo" in body
    }
    assert len(queues) == 4


def test_python_ends_transactions_also_orphans(cluster: dict[str, str]) -> None:
    lines = lines_of(start(cluster, "transactions", "transactions", "0", "8"))
    assert {one["checked"] for one in lines if "checked" in one} == {"orphan-2"}
    assert pulled(cluster, "transactions").keys() == {"commit-0", "orphan-2"}


def test_the_simple_consumer_of_python_receives_what_remoting_sent(cluster: dict[str, str]) -> None:
    send = [*RMQ, "send", "simple", "-t", "t", "-k", "key", "-n", cluster["namesrv"]]
    bodies = [f"m-{n}" for n in range(40)]
    subprocess.run(send, input="\n".join(bodies), text=True, check=True, timeout=PATIENCE)
    got = [one for one in lines_of(start(cluster, "simple", "simple", "40")) if "body" in one]
    assert sorted(one["body"] for one in got) == sorted(bodies)
    assert {(one["tag"], *one["keys"], one["attempt"], one["corrupted"]) for one in got} == {
        ("t", "key", 1, False)
    }


def test_the_push_consumer_of_python_gets_again_what_failed(cluster: dict[str, str]) -> None:
    consumer = start(cluster, "push", "pushed", "41", "1")
    assert consumer.stdout is not None
    while "ready" not in consumer.stdout.readline():
        assert consumer.poll() is None
    sent = {one["sent"] for one in lines_of(start(cluster, "send", "pushed", "20")) if "sent" in one}
    got = [one for one in lines_of(consumer) if "body" in one]
    failed = {one["body"] for one in got if one["failed"]}
    done = [one for one in got if not one["failed"]]
    assert failed == {one["body"] for one in done} == sent
    assert {one["attempt"] for one in done} == {2}


def test_node_sends_and_receives_by_both_consumers(cluster: dict[str, str], tmp_path: Path) -> None:
    """It starts with three topics, gets its settings, and gets failed messages again at once."""
    install_node()
    process = subprocess.Popen(
        [NODE, str(CLIENTS / "grpc_node.js"), cluster["grpc"], "by-node", "10"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"HOME": str(tmp_path), "NODE_PATH": str(INSTALLED / "node/node_modules")},
    )
    lines = lines_of(process)
    sent = set(lines[0]["sent"])
    got = [one for one in lines if "by" in one]
    assert {one["body"] for one in got if one["by"] == "simple"} == sent and len(sent) == 21
    assert not [one for one in got if one["corrupted"]]
    done = {one["body"]: one["attempt"] for one in got if one["by"] == "push" and not one["fails"]}
    assert done == {body: 2 if body.startswith("normal") else 1 for body in sent}
