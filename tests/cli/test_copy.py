"""`rmq copy` as typed: between two clusters, after kills of its process, and what it refuses."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client import Producer
from rmqcli.codec.message import Message
from tests.cli.conftest import Run
from tests.support import PATIENCE, RMQ

COUNT = 40


@pytest.fixture(scope="module")
def other() -> Iterator[Cluster]:
    """The cluster of the copies."""
    with embedded_in_thread() as running:
        yield running


@pytest.fixture
def filled(cluster: Cluster, topic: str) -> str:
    trio.run(fill, cluster, topic, COUNT)
    return topic


async def fill(cluster: Cluster, topic: str, count: int) -> None:
    async with Producer("p", namesrv=cluster.namesrv, timeout=PATIENCE, send_timeout=PATIENCE) as producer:
        queues = await producer.message_queues(topic)
        for place, queue in enumerate(queues):
            numbers = range(place, count, len(queues))
            messages = [Message.of(topic, b"%d" % one, tags="odd" if one % 2 else "even") for one in numbers]
            await producer.send_batch(messages, queue=queue)


def contents(rmq: Run, topic: str, *cluster: str) -> list[tuple[int, str, str]]:
    lines = rmq("pull", topic, "--json", *cluster).json_lines
    lines.sort(key=lambda line: (line["queueId"], line["queueOffset"]))
    return [(line["queueId"], line["msgId"], line["body"]) for line in lines]


def test_to_another_cluster(rmq: Run, filled: str, other: Cluster) -> None:
    there = ("-n", other.namesrv)
    assert rmq("topic", "create", filled, "--queues", "4", *there).code == 0
    result = rmq("copy", filled, "--to-namesrv", other.namesrv)
    assert (result.code, result.err.strip()) == (0, f"{filled} to {filled}: 40 messages copied")
    assert [line[1:] for line in result.lines] == [
        [str(queue), "0", "10", "10", "0", "0", "0", f"broker-a:{queue}", "0", "9"] for queue in range(4)
    ]
    assert contents(rmq, filled, *there) == contents(rmq, filled)
    found = rmq("copy", filled, "--to-namesrv", other.namesrv, "--resume", "--json").json
    assert (found["copied"], found["sent"], found["dryRun"]) == (COUNT, 0, False)
    assert Path(found["progress"]).parent.name == "copy"
    assert found["queues"][0]["targets"] == [
        {"brokerName": "broker-a", "queueId": 0, "messages": 10, "first": 0, "last": 9}
    ]


def test_the_account_of_the_target(rmq: Run, filled: str, other: Cluster) -> None:
    """A profile signs with its own account, not with that of the environment."""
    named = (other.namesrv, "--access-key", "own", "--secret-command", "echo of-the-target")
    assert rmq("profile", "add", "dr", *named).code == 0
    assert rmq("topic", "create", filled, "--queues", "4", "--profile", "dr").code == 0
    result = rmq("copy", filled, "--to-profile", "dr", "--verbose")
    assert result.code == 0
    accounts = [line for line in result.err.splitlines() if line.startswith("requests are signed as ")]
    assert sorted(line.rsplit(" ", 1)[1] for line in accounts) == ["account-of-tests", "own"]
    assert f"name servers {other.namesrv} (from profile dr)" in result.err


def test_filters(rmq: Run, filled: str) -> None:
    def copied(name: str, *options: str) -> list[int]:
        assert rmq("topic", "create", f"{filled}-{name}", "--queues", "4").code == 0
        found = rmq("copy", filled, f"{filled}-{name}", *options, "--json").json
        return [found["copied"], found["filtered"], len(contents(rmq, f"{filled}-{name}"))]

    assert copied("tag", "--tag", "odd") == [20, 20, 20]
    assert copied("where", "--where", "TAGS = 'even' AND queue_offset < 5") == [10, 30, 10]
    assert copied("offsets", "-o", "2:4") == [8, 0, 8]
    assert copied("later", "-o", "@now")[::2] == [0, 0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "would be copied to itself"),
        (("TOPIC",), "would be copied to itself"),
        (("x", "--queues", "round-robin"), "--queues round-robin: expected keep or hash"),
        (("x", "-o", "-5"), "--offset -5: a copy begins at offsets or times"),
        (("x", "-o", "1:5", "--follow"), "--follow has no end"),
        (("x", "-o", "end"), "nothing to copy; use --follow"),
        (("x", "--idle", "1"), "add --follow"),
        (("x", "--tag", "a", "--where", "b = 1"), "--tag and --where cannot be combined"),
        (("x", "--where", "b ="), "--where: the condition 'b ='"),
        (("--to-profile", "nowhere"), "nowhere"),
        (("--to-namesrv", ""), "the target has no name"),
        (("x y",), "x y"),
    ],
)
def test_wrong_words(rmq: Run, filled: str, words: tuple[str, ...], told: str) -> None:
    result = rmq("copy", filled, *(filled if word == "TOPIC" else word for word in words))
    assert result.code in (ExitCode.USAGE, ExitCode.NOT_FOUND) and told in result.err, result
    assert result.err.count("\n") == 1


def test_topics_that_do_not_exist(rmq: Run, filled: str) -> None:
    for words in ((filled, "no-such-topic"), ("no-such-topic", filled)):
        result = rmq("copy", *words)
        assert result.code == ExitCode.NOT_FOUND and "no-such-topic" in result.err
    assert "no-such-topic" not in rmq("topic", "list").out.decode()


def test_a_target_that_does_not_answer(rmq: Run, filled: str) -> None:
    result = rmq("copy", filled, "--to-namesrv", "127.0.0.1:1")
    assert (result.code, result.err.count("\n")) == (ExitCode.NO_CONNECTION, 1)
    assert "cannot connect to name server 127.0.0.1:1" in result.err and "address from" not in result.err


def test_the_file_of_another_copy(rmq: Run, filled: str, tmp_path: Path) -> None:
    copy = f"{filled}-copy"
    rmq("topic", "create", copy, "--queues", "4")
    file = str(tmp_path / "progress")
    assert rmq("copy", filled, copy, "--progress", file).code == 0
    again = rmq("copy", filled, copy, "--progress", file)
    assert again.code == ExitCode.USAGE and "continue with --resume" in again.err
    other = rmq("copy", filled, copy, "--progress", file, "--resume", "--tag", "odd")
    assert other.code == ExitCode.USAGE and "is of a copy with tag *, not odd" in other.err
    # The default file of a copy with another condition is another one: nothing is resumed unsaid.
    fresh = rmq("copy", filled, copy, "--resume", "--tag", "odd")
    assert fresh.code == 0 and "nothing to resume" in fresh.err and "nothing to resume" not in again.err
    assert rmq("copy", filled, copy, "--progress", str(tmp_path)).err.endswith("expected a file\n")


def test_a_message_that_is_too_large(rmq: Run, filled: str) -> None:
    """The target refuses a body; the other queues are copied to their end."""
    with embedded_in_thread(max_message_size=1000) as small:
        there = ("-n", small.namesrv)
        rmq("topic", "create", filled, "--queues", "4", *there)
        rmq("send", filled, os.urandom(800).hex(), "--queue", "1")
        rmq("send", filled, "after", "--queue", "1")
        result = rmq("copy", filled, "--to-namesrv", small.namesrv, "--json")
        assert result.code == ExitCode.PARTLY
        assert "MESSAGE_ILLEGAL" in result.error["failures"]["broker-a:1"]
        assert [queue["next"] for queue in result.json["queues"]] == [10, 10, 10, 10]
        assert len(contents(rmq, filled, *there)) == COUNT


def test_kills(rmq: Run, cluster: Cluster, topic: str, tmp_path: Path) -> None:
    """Killed again and again, a copy sends each message once, and its report says so."""
    count, copy = 1000, f"{topic}-copy"
    trio.run(fill, cluster, topic, count)
    rmq("topic", "create", copy, "--queues", "4")
    words = (*RMQ, "copy", topic, copy, "--progress", str(tmp_path / "progress"), "--resume", "--json")
    rng, file = random.Random(5), tmp_path / "progress"
    for _ in range(3):
        before = file.read_text() if file.exists() else ""
        with subprocess.Popen((*words, "--rate", "200"), stdout=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + PATIENCE
            while not file.exists() or file.read_text() == before:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            time.sleep(rng.random())
            process.kill()
        assert '"clean": false' in file.read_text()
    out = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
    found = json.loads(out)
    ids = Counter(line["msgId"] for line in rmq("pull", copy, "--json").json_lines)
    assert (found["copied"], found["twice"]) == (count, ids.total() - count)
    assert contents(rmq, copy) == contents(rmq, topic) or found["twice"]


def test_an_interrupt(rmq: Run, filled: str, tmp_path: Path) -> None:
    """Ctrl-C and SIGTERM end a followed copy with its report, and nothing in doubt."""
    copy = f"{filled}-copy"
    rmq("topic", "create", copy, "--queues", "4")
    file = tmp_path / "progress"
    for number in (signal.SIGINT, signal.SIGTERM):
        words = (*RMQ, "copy", filled, copy, "--progress", str(file), "--resume", "--follow", "--json")
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            deadline = time.monotonic() + PATIENCE
            while not (file.exists() and f'"copied": {COUNT // 4}' in file.read_text()):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            time.sleep(0.3 if number == signal.SIGTERM else 0)
            process.send_signal(number)
            out, err = process.communicate(timeout=PATIENCE)
        if number == signal.SIGINT:
            assert process.returncode == ExitCode.INTERRUPTED
            assert json.loads(out)["copied"] == COUNT
            assert b"40 messages copied; continue with --resume" in err
        assert '"clean": true' in file.read_text()
    assert contents(rmq, copy) == contents(rmq, filled)


def test_a_group_moves_with_its_topic(rmq: Run, filled: str, other: Cluster) -> None:
    group, there = f"G_{filled}", ("-n", other.namesrv)
    words = ("offsets", "clone", group, group, filled, "--by-time", "--to-namesrv", other.namesrv)
    rmq("topic", "create", filled, "--queues", "4", *there)
    assert rmq("copy", filled, "--to-namesrv", other.namesrv).code == 0
    assert rmq(*words).code == ExitCode.NOT_FOUND
    consumed = rmq("consume", filled, "-g", group, "--from", "start", "-c", "15", "-f", "%v\\n").out.split()
    plan = rmq(*words, "--dry-run", "--json").json
    assert plan["dryRun"] and sum(queue["new"] for queue in plan["queues"]) == 15
    assert {queue["by"] for queue in plan["queues"]} == {"copy"}
    assert plan["queues"][0]["source"] == f"broker-a:0 at {plan['queues'][0]['new']}"
    assert rmq(*words).code == ExitCode.USAGE  # no terminal to confirm on
    done = rmq(*words, "--create-group", "--yes", "--json").json
    assert done["moved"] == len(plan["queues"])
    rest = rmq("consume", filled, "-g", group, "-c", "25", "-f", "%v\\n", *there).out.split()
    assert sorted(map(int, consumed + rest)) == list(range(COUNT))


def test_a_group_that_runs_at_the_target(rmq: Run, filled: str) -> None:
    copy, group = f"{filled}-copy", f"G_{filled}"
    rmq("topic", "create", copy, "--queues", "4")
    rmq("copy", filled, copy)
    assert rmq("consume", filled, "-g", group, "--from", "start", "-c", "15").code == 0
    words = (*RMQ, "consume", copy, "-g", group, "--from", "start")
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        result = rmq("offsets", "clone", group, group, filled, "--by-time", "--to-topic", copy, "--yes")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert result.code == ExitCode.FAILED
    assert f"group {group} has 1 running client at " in result.err and "stop them first" in result.err


def test_offsets_elsewhere_need_a_translation(rmq: Run, filled: str) -> None:
    clone = ("offsets", "clone", "g", "h", filled)
    assert "translate them with --by-time" in rmq(*clone, "--to-topic", "x").err
    assert "name another one, or omit --by-time" in rmq(*clone, "--by-time").err
