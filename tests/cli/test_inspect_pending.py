"""`rmq inspect delay|transactions|offsets` down to the messages, against the records that Java wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.codec.records.reading import decode_record
from tests.cli.conftest import Run
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]
Shown = Callable[..., list[list[str]]]


@pytest.fixture
def delay(cli: Run, store_killed: JavaStore) -> Shown:
    return lambda *arguments: cli("inspect", "delay", str(store_killed.root), *arguments).lines


@pytest.fixture
def pending(store_killed: JavaStore) -> list[Any]:
    """The last 12, 32 and 40 records of the levels 1 to 3: those that are not delivered."""
    scheduled = [line for line in store_killed.of_kind("msg") if line["topic"] == "SCHEDULE_TOPIC_XXXX"]
    log = store_killed.commit_log
    found: list[Any] = []
    for queue, count in ((0, 12), (1, 32), (2, 40)):
        mine = [line for line in scheduled if line["queueId"] == queue][-count:]
        found += [decode_record(log, line["phy"], decompress=True) for line in mine]
    return found


def test_delayed_messages_as_they_will_be(delay: Shown, pending: list[Any]) -> None:
    real = [(m.properties["REAL_TOPIC"], m.properties["REAL_QID"], str(m.queue_offset)) for m in pending]
    assert [tuple(line) for line in delay("-f", r"%t\t%q\t%o\n")] == real
    assert delay("-f", r"%i\n", "-c", "3") == [[m.msg_id] for m in pending[:3]]
    assert delay("-f", r"%i\n", "--where", "level = 2") == [[m.msg_id] for m in pending[12:44]]


def test_delayed_messages_are_chosen(delay: Shown, pending: list[Any]) -> None:
    topic = pending[0].properties["REAL_TOPIC"]
    mine = [m for m in pending if m.properties["REAL_TOPIC"] == topic]
    assert [line[0] for line in delay("--topic", topic, "-f", r"%i\n")] == [m.msg_id for m in mine]
    assert sum(int(line[2]) for line in delay("--topic", topic)) == len(mine)
    assert sum(int(line[2]) for line in delay("--topic", "none")) == 0
    queue = [m for m in pending if m.properties["REAL_QID"] == "1"]
    assert [line[0] for line in delay("--queue", "1", "-f", r"%i\n")] == [m.msg_id for m in queue]
    assert [line[0] for line in delay("--key", pending[20].msg_id, "-f", r"%i\n")] == [pending[20].msg_id]
    assert delay("--key", "none", "-f", r"%i\n") == []


def test_delayed_messages_by_a_condition(delay: Shown, pending: list[Any]) -> None:
    """A condition over columns and properties of messages, level and due time, or over levels alone."""
    topic = pending[0].properties["REAL_TOPIC"]
    mine = [m.msg_id for m in pending if m.properties["REAL_TOPIC"] == topic and m.properties["DELAY"] == "2"]
    where = f"topic = '{topic}' AND level = 2"
    assert [line[0] for line in delay("--where", where, "-f", r"%i\n")] == mine
    assert [line[0] for line in delay("--where", f"topic = '{topic}' AND DELAY = 2", "-f", r"%i\n")] == mine
    assert [int(line[2]) for line in delay("--where", where)] == [0, len(mine), 0]
    last = max(int(line[6]) for line in delay())
    assert [line[2] for line in delay("--where", f"due = {last}")].count("0") == 2
    assert [line[0] for line in delay("--where", "level = 2")] == ["2"]


def test_delayed_messages_by_offsets_and_due_times(
    cli: Run, delay: Shown, store_killed: JavaStore, pending: list[Any]
) -> None:
    assert delay("-o", "-2", "-f", r"%i\n") == [[pending[place].msg_id] for place in (10, 11, 42, 43, 82, 83)]
    first = pending[0].queue_offset
    assert delay("--where", "level = 1", "-o", f"{first + 1}:{first + 3}", "-f", r"%o\n") == [
        [str(first + 1)],
        [str(first + 2)],
    ]
    second = cli("inspect", "delay", str(store_killed.root), "--json").json[1]
    due = second["firstDue"], second["lastDue"]
    (line,) = delay("--where", "level = 2 AND pending > 0", "-o", f"@{due[0]}:@{due[1]}")
    assert (line[0], int(line[5])) == ("2", due[0])
    assert 0 < int(line[2]) < 32
    (after,) = delay("-o", f"@{due[1]}:", "--where", "level = 2")
    assert int(line[2]) + int(after[2]) == 32
    assert delay("-o", "end", "-f", "%o") == []


def test_delayed_messages_counted_and_explained(
    cli: Run, store_killed: JavaStore, pending: list[Any]
) -> None:
    root = str(store_killed.root)
    said = cli("inspect", "delay", root, "--stats", "--json").json
    assert said["total"] == {"messages": 84, "bytes": sum(m.store_size for m in pending)}
    assert {topic["topic"] for topic in said["topics"]} == {m.properties["REAL_TOPIC"] for m in pending}
    several = cli("inspect", "delay", root, "--explain", "-c", "2", "--json").json_lines
    places = [
        sum(f["value"] == str(m.commit_log_offset) for f in line["fields"])
        for line, m in zip(several, pending, strict=False)
    ]
    assert (len(several), places) == (2, [1, 1])


def test_half_messages_are_chosen(cli: Run, copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    (store.root / "config/consumerOffset.json").write_text("{}")
    (store.root / "config/consumerOffset.json.bak").unlink()

    def shown(*arguments: str) -> list[Any]:
        return cli("inspect", "transactions", str(store.root), "-f", r"%j\n", *arguments).json_lines

    everything = shown()
    assert {line["topic"] for line in everything} == {line["properties"]["REAL_TOPIC"] for line in everything}
    assert shown("-o", "-2") == everything[-2:]
    assert shown("-c", "2") == everything[:2]
    second = everything[1]["queueOffset"]
    assert shown("-o", f"{second}:{second + 1}") == [everything[1]]
    time = everything[2]["storeTimestamp"]
    assert shown("-o", f"@{time}:") == [line for line in everything if line["storeTimestamp"] >= time]
    queue = everything[0]["queueId"]
    assert shown("--queue", str(queue)) == [line for line in everything if line["queueId"] == queue]
    key = everything[3]["keys"][0]
    assert shown("--key", key) == [line for line in everything if key in line["keys"]]
    assert shown("--tag", "none") == []
    said = cli("inspect", "transactions", str(store.root), "--stats", "--json").json
    assert said["total"]["messages"] == len(everything)
    explained = cli("inspect", "transactions", str(store.root), "--explain", "-o", "-1", "--json").json
    values = {field["field"]: field["value"] for field in explained["fields"]}
    assert values["physical_offset"] == str(everything[-1]["commitLogOffset"])


@pytest.fixture
def offsets(cli: Run, copy_java_store: Copy) -> Callable[..., Any]:
    """load_group lags by 81, 82, 85 and 86 messages in LoadA; here also in LoadB, at its end and beyond."""
    store = copy_java_store("store-killed")
    path = store.root / "config/consumerOffset.json"
    path.write_text(path.read_text().replace('load_group":{', 'load_group":{9:7,', 1))
    return lambda *arguments: cli("inspect", "offsets", str(store.root), *arguments)


def test_offsets_chosen_and_counted(offsets: Callable[..., Any]) -> None:
    everything = offsets("--json").json
    mine = [one for one in everything if one["group"] == "load_group" and one["topic"] == "LoadA"]
    lags = {one["queueId"]: one["lag"] for one in mine}
    assert sum(lag or 0 for lag in lags.values()) == 334 and lags[9] is None
    common = ("--group", "load_group", "--topic", "LoadA")

    def queues(*arguments: str) -> list[int]:
        return [one["queueId"] for one in offsets(*common, *arguments, "--json").json]

    least = min(lag for lag in lags.values() if lag)
    assert queues("-o", f"-{least}") == [queue for queue, lag in lags.items() if lag == least]
    assert queues("-o", f"-{least - 1}") == []
    assert queues("-o", "0:8") == [9]
    assert queues("-o", "end") == []
    assert queues("--queue", "2") == [2]
    assert queues("-c", "1") == [0]
    (summed,) = offsets(*common, "--stats", "--json").json
    greatest = max(lag for lag in lags.values() if lag)
    assert summed == {
        "group": "load_group",
        "topic": "LoadA",
        "queues": 5,
        "behind": 4,
        "lag": 334,
        "greatest": greatest,
    }


def test_the_message_that_comes_next(offsets: Callable[..., Any], store_killed: JavaStore) -> None:
    common = ("--group", "load_group", "--topic", "LoadA")
    positions = {one["queueId"]: one["offset"] for one in offsets(*common, "--json").json if one["lag"]}
    lines = [json.loads(line) for line in offsets(*common, "-f", r"%j\n").out.splitlines()]
    assert {line["queueId"]: line["queueOffset"] for line in lines} == positions
    log = {
        (one["topic"], one["queueId"], one["queueOffset"]): one["phy"] for one in store_killed.of_kind("msg")
    }
    assert [line["commitLogOffset"] for line in lines] == [
        log["LoadA", line["queueId"], line["queueOffset"]] for line in lines
    ]
    latest = max(line["storeTimestamp"] for line in lines)
    late = offsets(*common, "-o", f"@{latest}:", "--json").json
    assert [one["queueId"] for one in late] == [
        line["queueId"] for line in lines if line["storeTimestamp"] == latest
    ]


def test_a_table_alone_has_no_messages(cli: Run, store_killed: JavaStore) -> None:
    file = str(store_killed.root / "config/consumerOffset.json")
    for arguments in (["-f", "%t"], ["-o", "@-1h"], ["-o", "-5"]):
        result = cli("inspect", "offsets", file, *arguments)
        assert (result.code, result.out) == (ExitCode.USAGE, b"")
        assert result.err == f"rmq: {file} holds no messages: specify the store folder\n"
    assert cli("inspect", "offsets", file, "-o", "0:").code == ExitCode.DONE
