"""Messages that entries of queues and items of the index lead to; what else chooses them."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.codec.records.reading import decode_record
from tests.cli.conftest import Run
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]


@pytest.fixture
def messages(store_clean: JavaStore) -> dict[tuple[str, int], list[Any]]:
    """(topic, queue) → its messages in the order of their offsets."""
    found: dict[tuple[str, int], list[Any]] = {}
    for line in sorted(store_clean.of_kind("msg"), key=lambda line: line["queueOffset"]):
        message = decode_record(store_clean.commit_log, line["phy"], decompress=True)
        found.setdefault((line["topic"], line["queueId"]), []).append(message)
    return found


@pytest.fixture
def queue(cli: Run, store_clean: JavaStore) -> Callable[..., list[list[str]]]:
    """Lines for queue 1 of SeedNormal."""
    root = str(store_clean.root)
    return lambda *options: (
        cli("inspect", "consumequeue", root, "--topic", "SeedNormal", "-q", "1", *options).lines
    )


def test_messages_of_a_queue(queue: Callable[..., Any], messages: dict[tuple[str, int], list[Any]]) -> None:
    mine = messages["SeedNormal", 1]
    assert queue("-f", r"%o\t%i\n") == [[str(m.queue_offset), m.msg_id] for m in mine]
    assert queue("-f", r"%i\n", "-o", "-3") == [[m.msg_id] for m in mine[-3:]]
    assert queue("-f", r"%i\n", "-c", "2") == [[m.msg_id] for m in mine[:2]]
    keyed = [m for m in mine if mine[7].keys[0] in m.keys]
    assert [line[2] for line in queue("--key", mine[7].keys[0])] == [str(m.queue_offset) for m in keyed]
    assert queue("--key", "none") == []


def test_a_queue_by_store_times(
    queue: Callable[..., Any], messages: dict[tuple[str, int], list[Any]]
) -> None:
    mine = messages["SeedNormal", 1]
    times = sorted({m.store_timestamp for m in mine})
    for begin, end in ((times[0], times[5]), (times[7], times[-1]), (times[3] + 1, times[4] + 1)):
        inside = [str(m.queue_offset) for m in mine if begin <= m.store_timestamp < end]
        assert [line[2] for line in queue("-o", f"@{begin}:@{end}")] == inside
    assert [line[2] for line in queue("-o", f"@{times[-1]}")][-1] == str(mine[-1].queue_offset)
    assert queue("-o", f"@{times[-1] + 1}") == []
    (counted,) = queue("-o", f"@{times[4]}", "--stats")
    assert int(counted[2]) == sum(m.store_timestamp >= times[4] for m in mine)


def test_a_queue_that_lies_in_no_store(cli: Run, store_clean: JavaStore, tmp_path: Path) -> None:
    lonely = tmp_path / "lonely"
    shutil.copytree(store_clean.root / "consumequeue/SeedNormal/1", lonely)
    result = cli("inspect", "consumequeue", str(lonely), "-f", "%v")
    assert (result.code, result.out) == (ExitCode.NOT_FOUND, b"")
    assert result.err == f"rmq: {lonely} is not in a store folder: specify its commit log with --commit-log\n"
    log = str(store_clean.root / "commitlog")
    with_log = cli("inspect", "consumequeue", str(lonely), "-f", r"%t %o\n", "-c", "1", "--commit-log", log)
    assert with_log.out == b"SeedNormal 0\n"


def test_entries_whose_records_are_gone_or_damaged(cli: Run, copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    first, *others = store.commit_logs
    arguments = (
        "inspect",
        "consumequeue",
        str(store.root),
        "--topic",
        "SeedNormal",
        "-q",
        "1",
        "-f",
        r"%p\n",
    )
    everything = [int(line[0]) for line in cli(*arguments).lines]
    with others[0].open("r+b") as file:
        place = next(offset for offset in everything if offset >= 524288) - 524288
        file.seek(place + 4)
        file.write(b"none")
    damaged = cli(*arguments)
    assert damaged.code == ExitCode.CORRUPT
    assert f"{others[0]}: byte {place}: " in damaged.err
    first.unlink()
    others[0].unlink()
    kept = [int(line[0]) for line in cli(*arguments).lines]
    assert kept == [offset for offset in everything if offset >= 2 * 524288]


@pytest.fixture
def index(cli: Run, store_clean: JavaStore) -> Callable[..., list[list[str]]]:
    return lambda *options: cli("inspect", "index", str(store_clean.root), *options).lines


def test_messages_of_a_key(index: Callable[..., Any], messages: dict[tuple[str, int], list[Any]]) -> None:
    everything = [m for (topic, _), several in messages.items() for m in several if topic == "SeedNormal"]
    key = Counter(key for m in everything for key in m.keys).most_common(1)[0][0]
    mine = sorted((m for m in everything if key in m.keys), key=lambda m: -m.commit_log_offset)
    of_key = ("--topic", "SeedNormal", "--key", key)
    assert len(mine) > 5
    assert index(*of_key, "-f", r"%i\n") == [[m.msg_id] for m in mine]
    assert index(*of_key, "-f", r"%i\n", "-o", "-2") == [[m.msg_id] for m in mine[:2]]
    assert index(*of_key, "-f", r"%i\n", "-c", "3") == [[m.msg_id] for m in mine[:3]]
    begin, end = mine[4].commit_log_offset, mine[1].commit_log_offset
    assert index(*of_key, "-f", r"%i\n", "-o", f"{begin}:{end}") == [[m.msg_id] for m in mine[2:5]]
    rows = [line for line in index(*of_key, "-o", f"{begin}:{end}") if line[-1] == "true"]
    assert [int(line[4]) for line in rows] == [m.commit_log_offset for m in mine[2:5]]
    id_ = ("--topic", "SeedNormal", "--key", mine[0].msg_id)
    assert index(*id_, "-f", r"%p\n") == [[str(mine[0].commit_log_offset)]]


def test_index_files_by_range(index: Callable[..., Any]) -> None:
    files = index()
    assert index("-o", "-1") == files[-1:]
    assert index("-c", "1") == files[:1]
    begins = [int(line[9]) for line in files]
    assert [line[0] for line in index("-o", f"{begins[-1]}:")] == [
        line[0] for line in files if int(line[10]) >= begins[-1]
    ]
    first, last = int(files[0][7]), int(files[-1][8])
    assert index("-o", f"@{first}:@{first + 1}") == files[:1]
    assert index("-o", f"@{last + 1}") == index("-o", "end") == []


def test_how_items_spread(cli: Run, index: Callable[..., Any], store_clean: JavaStore) -> None:
    files = index()
    chains = [(int(length), int(slots)) for length, slots in index("--stats")]
    assert sum(length * slots for length, slots in chains) == sum(int(line[1]) for line in files)
    assert sum(slots for _, slots in chains) == sum(int(line[4]) for line in files)
    assert max(length for length, _ in chains) == max(int(line[6]) for line in files)
    said = cli("inspect", "index", str(store_clean.root), "--stats", "-o", "-1", "--json").json
    assert (said["files"], said["items"]) == (1, int(files[-1][1])) == (1, sum(said["rate"]["items"]))


def test_the_overview_of_some_queues(cli: Run, store_killed: JavaStore) -> None:
    root = str(store_killed.root)
    everything = cli("inspect", "store", root).lines
    assert cli("inspect", "store", root, "--topic", "LoadA", "--queue", "2").lines == [
        line for line in everything if line[:2] == ["LoadA", "2"]
    ]
    great = cli("inspect", "store", root, "--where", "messages > 400").lines
    assert great == [line for line in everything if int(line[2]) > 400] != everything
    other = cli("inspect", "store", root, "--topic", "LoadB", "--json").json
    assert [topic["topic"] for topic in other["topics"]] == ["LoadB"]
    assert other["groups"] == []
    assert cli("inspect", "store", root, "--group", "load_group", "--json").json["groups"] != []
