"""`rmq inspect store|index|…|verify|rebuild|salvage` as typed, on the stores that Java wrote."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.render.store_view import disk_line
from rmqcli.store.read.lock import is_locked
from tests.cli.conftest import Run
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]

_HOLD = (
    "import fcntl,sys; f=open(sys.argv[1],'r+'); fcntl.lockf(f,fcntl.LOCK_EX,1,0); print(flush=True); input()"
)


@pytest.fixture
def held_store(copy_java_store: Copy) -> Iterator[JavaStore]:
    """A store whose lock another process holds."""
    store = copy_java_store("store-clean")
    lock = store.root / "lock"
    lock.chmod(0o644)
    command = [sys.executable, "-c", _HOLD, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        holder.stdout.readline()
        yield store
        holder.communicate(b"\n")


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_overview(cli: Run, store_killed: JavaStore) -> None:
    said = cli("inspect", "store", str(store_killed.root), "--json").json
    assert sum(topic["messages"] for topic in said["topics"]) == 6104
    assert (said["abort"], said["locked"], said["pendingDelayed"], said["pendingHalf"]) == (
        True,
        False,
        84,
        0,
    )
    assert said["groups"] == [{"group": "load_group", "topic": "LoadA", "queues": 4, "lag": 334}]
    assert len(cli("inspect", "store", str(store_killed.root)).lines) == len(said["queues"])


def test_an_overview_of_a_5x_store(cli: Run, store_five: JavaStore) -> None:
    """An inner batch counts as its messages."""
    said = cli("inspect", "store", str(store_five.root), "--topic", "FiveBatchCQ", "--json").json
    assert [(one["queueId"], one["messages"], one["maxOffset"]) for one in said["queues"]] == [
        (0, 29, 29),
        (1, 21, 21),
    ]
    assert {"batchconsumequeue", "compaction", "timerlog"} <= {one["name"] for one in said["folders"]}


def test_an_overview_to_read(store_killed: JavaStore) -> None:
    command = f"COLUMNS=80 {sys.executable} -m rmqcli inspect store {store_killed.root}"
    shell = ["script", "-qec", command, "/dev/null"]
    text = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
    assert "6,104 messages in 15 queues, commit log from 0 to 3238148" in text
    assert "pending: 84 delayed messages, 0 half messages" in text
    assert "abort file present" in text
    assert "SCHEDULE_TOPIC_XXXX " in text, "a name of twenty letters has room"


def test_figures_of_a_disk_add_up() -> None:
    """Of a file system that keeps a part for the system, as ext4 does."""
    gib = 1 << 30
    told = "disk: 33.0 GiB of 101.0 GiB used (32%), 68.0 GiB free; 151.0 GiB reserved"
    assert disk_line(252 * gib, 33 * gib, 68 * gib) == told
    assert disk_line(4 * gib, gib, 3 * gib) == "disk: 1.0 GiB of 4.0 GiB used (25%), 3.0 GiB free"


def test_a_table_that_is_another(cli: Run, store_killed: JavaStore) -> None:
    """It would look like one without rows."""
    config = store_killed.root / "config"
    assert cli("inspect", "offsets", str(config / "consumerOffset.json")).lines
    for command, name in (
        ("topics", "consumerOffset.json"),
        ("groups", "topics.json.bak"),
        ("offsets", "topics.json"),
    ):
        result = cli("inspect", command, str(config / name))
        assert result.code == ExitCode.NOT_FOUND
        assert f"{name}: this is not " in result.err


def test_index(cli: Run, store_clean: JavaStore) -> None:
    lines = cli("inspect", "index", str(store_clean.root)).lines
    assert [line[1:5] for line in lines][:1] == [["1999", "1999", "500", "475"]]
    chain = cli(
        "inspect", "index", str(store_clean.root), "--topic", "SeedNormal", "--key", "key-0", "--json"
    ).json
    assert 0 in [link["commitLogOffset"] for link in chain if link["matches"]]
    none = cli("inspect", "index", str(store_clean.root), "--topic", "SeedNormal", "--key", "nothing")
    assert none.code == ExitCode.NOT_FOUND
    assert cli("inspect", "index", str(store_clean.root), "--key", "x").code == ExitCode.USAGE


def test_tables(cli: Run, store_killed: JavaStore) -> None:
    root = str(store_killed.root)
    found = cli("inspect", "checkpoint", root, "--json").json
    assert found["physicMsgTimestamp"] == 1795224853577
    assert cli("inspect", "offsets", root, "--group", "load_group").lines[0] == [
        *("load_group", "LoadA", "0", "420", "501", "81")
    ]
    assert cli("inspect", "offsets", root, "--topic", "none").lines == []
    assert "LoadA" in [line[0] for line in cli("inspect", "topics", root).lines]
    assert "load_group" in [line[0] for line in cli("inspect", "groups", root).lines]
    assert [line["pending"] for line in cli("inspect", "delay", root, "--json").json] == [12, 32, 40]
    assert cli("inspect", "transactions", root, "--json").json == []
    file = str(store_killed.root / "config" / "topics.json")
    assert cli("inspect", "topics", file).lines == cli("inspect", "topics", root).lines


def test_filters_of_the_commit_log(cli: Run, store_clean: JavaStore) -> None:
    def shown(*arguments: str) -> list[list[str]]:
        return cli("inspect", "commitlog", str(store_clean.root), *arguments).lines

    assert [line[0] for line in shown("--key", "key-0", "--topic", "SeedNormal")] == ["0"]
    assert {line[3] for line in shown("--queue", "2")} == {"2"}
    tags = {line[6] for line in shown("--tag", "TagA || TagB")}
    assert tags <= {"TagA", "TagB"} and tags
    everything = shown("--where", "queue_id = 1 AND topic = 'SeedNormal'")
    assert len(everything) == 375
    assert shown("--where", "queue_id = 1 AND topic = 'SeedNormal'", "-o", "-7") == everything[-7:]
    wrong = cli("inspect", "commitlog", str(store_clean.root), "--where", "queue_id =")
    assert wrong.code == ExitCode.USAGE


def test_statistics(cli: Run, store_clean: JavaStore) -> None:
    said = cli("inspect", "commitlog", str(store_clean.root), "--stats", "--json").json
    assert sum(line["records"] for line in said["sizes"]) == sum(said["rate"]["records"]) == 3090
    assert said["topKeys"][0] == {"key": "grp-0", "records": 150}


def test_verify(cli: Run, store_clean: JavaStore, copy_java_store: Copy) -> None:
    assert cli("inspect", "verify", str(store_clean.root)).code == ExitCode.DONE
    store = copy_java_store("store-clean")
    path, second = store.commit_logs[0], store.of_kind("msg")[1]["phy"]
    data = bytearray(path.read_bytes())
    data[second + 100] ^= 1
    path.write_bytes(data)
    result = cli("inspect", "verify", str(store.root), "--json")
    assert result.code == ExitCode.CORRUPT
    assert (result.json["findings"][0]["file"], result.json["findings"][0]["position"]) == (str(path), second)
    assert result.json["parts"]["commitlog"] == {
        "sound": False,
        "files": 4,
        "items": 3089,
        "bytes": 2097152,
        "damaged": 1,
    }
    rebuilt = cli("inspect", "rebuild", str(store.root), "--dry-run")
    assert rebuilt.code == ExitCode.CORRUPT
    assert "salvage the store first" in rebuilt.err


def test_rebuild(cli: Run, copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    root = str(store.root)
    path = store.root / "consumequeue/SeedNormal/1/00000000000000000000"
    good = path.read_bytes()
    path.write_bytes(bytes(6000))
    before = snapshot(store.root)
    dry = cli("inspect", "rebuild", root, "--dry-run", "--json").json
    assert (dry["written"], [change["file"] for change in dry["changes"]]) == (
        False,
        ["consumequeue/SeedNormal/1/00000000000000000000"],
    )
    out = cli("inspect", "rebuild", root, "--out", str(tmp_path / "out")).out.decode()
    assert "built: 3,090 entries of 123 queues, 7,293 items in 4 index files" in out
    assert (tmp_path / "out/consumequeue/SeedNormal/1/00000000000000000000").read_bytes() == good
    assert cli("inspect", "rebuild", root, "--in-place", stdin=b"n\n").code != ExitCode.DONE
    assert snapshot(store.root) == before
    done = cli("inspect", "rebuild", root, "--in-place", "--yes", "--json").json
    assert (done["written"], len(done["kept"])) == (True, 2)
    assert path.read_bytes() == good
    assert not list(store.root.glob("rebuild*"))
    assert cli("inspect", "verify", root).code == ExitCode.DONE
    again = cli("inspect", "rebuild", root, "--in-place", "--yes", "--json").json
    assert (again["written"], again["changes"]) == (False, [])


def test_a_rebuild_assumes_no_size(cli: Run, copy_java_store: Copy, tmp_path: Path) -> None:
    """A broker refuses, or misreads, files of another size."""
    store = copy_java_store("store-clean")
    shutil.rmtree(store.root / "consumequeue")
    dry = ("inspect", "rebuild", str(store.root), "--dry-run", "--json")
    refused = cli(*dry)
    assert refused.code == ExitCode.USAGE
    assert "name the broker.conf with --config, or --set mappedFileSizeConsumeQueue=N" in refused.err
    config = tmp_path / "broker.conf"
    config.write_text("mappedFileSizeConsumeQueue=6000\nbrokerName=a\n")
    assert (
        cli(*dry, "--config", str(config)).json["changes"]
        == (cli(*dry, "--set", "mappedFileSizeConsumeQueue=6000").json["changes"])
    )
    assert cli(*dry, "--set", "mappedFileSizeConsumeQueue=x").code == ExitCode.USAGE


def test_properties_that_do_not_parse_hinder_no_rebuild(
    cli: Run, copy_java_store: Copy, tmp_path: Path
) -> None:
    """A broker dispatches such a message, too."""
    store = copy_java_store("store-clean")
    line = store.of_kind("msg")[5]
    data = bytearray(store.commit_logs[0].read_bytes())
    data[data.rindex(b"\x01", line["phy"], line["phy"] + line["size"]) - 1] = 2
    store.commit_logs[0].write_bytes(data)
    assert cli("inspect", "verify", str(store.root)).code == ExitCode.CORRUPT
    built = cli("inspect", "rebuild", str(store.root), "--out", str(tmp_path / "out"))
    assert built.code == ExitCode.DONE
    assert "built: 3,090 entries of 123 queues" in built.out.decode()


def test_salvage(cli: Run, copy_java_store: Copy, tmp_path: Path) -> None:
    store = copy_java_store("store-clean")
    line = store.of_kind("msg")[700]
    path = store.commit_logs[line["phy"] // 524288]
    data = bytearray(path.read_bytes())
    data[line["phy"] % 524288 + 95] ^= 1
    path.write_bytes(data)
    before = snapshot(store.root)
    out = str(tmp_path / "out")
    said = cli("inspect", "salvage", str(store.root), "--out", out).out.decode()
    assert f"lost: bytes {line['phy']} to {line['phy'] + line['size']} (" in said
    assert f"gone: {line['topic']} queue {line['queueId']} offset {line['queueOffset']}\n" in said
    assert "kept 3,089 records" in said
    assert cli("inspect", "verify", out).code == ExitCode.DONE
    assert snapshot(store.root) == before
    assert cli("inspect", "salvage", str(store.root), "--out", out).code != ExitCode.DONE


@pytest.mark.parametrize("command", [["rebuild", "--in-place", "--yes"], ["salvage", "--out", "{out}"]])
def test_a_folder_that_a_broker_holds(
    cli: Run, held_store: JavaStore, tmp_path: Path, command: list[str]
) -> None:
    before = snapshot(held_store.root)
    arguments = [argument.format(out=tmp_path / "out") for argument in command[1:]]
    result = cli("inspect", command[0], str(held_store.root), *arguments)
    assert result.code == ExitCode.NOT_PERMITTED
    assert "a broker runs on this folder" in result.err
    assert snapshot(held_store.root) == before
    assert is_locked(held_store.root)
    assert cli("inspect", "store", str(held_store.root), "--json").json["locked"] is True


def test_conditions_over_the_columns_of_tables(cli: Run, store_killed: JavaStore) -> None:
    root = str(store_killed.root)

    def shown(*arguments: str) -> list[list[str]]:
        return cli("inspect", arguments[0], root, *arguments[1:]).lines

    behind = shown("offsets", "--where", "lag > 82 AND topic = 'LoadA'")
    assert behind == [line for line in shown("offsets") if line[1] == "LoadA" and int(line[5]) > 82]
    assert 0 < len(behind) < len(shown("offsets"))
    assert [line[0] for line in shown("topics", "--where", "topic STARTSWITH 'Load'")] == [
        "LoadA",
        "LoadB",
        "LoadC",
    ]
    assert shown("topics", "--topic", "LoadB") == [line for line in shown("topics") if line[0] == "LoadB"]
    assert [line[0] for line in shown("groups", "--where", "consume_enable = FALSE")] == []
    assert [line[0] for line in shown("groups", "--group", "load_group")] == ["load_group"]
    assert [line[0] for line in shown("delay", "--where", "pending > 20")] == ["2", "3"]
    assert len(shown("index", "--where", "items < 1999")) == 1 < len(shown("index"))
    assert shown("transactions", "--topic", "none") == []


_UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


@pytest.mark.parametrize(
    ("hidden", "command"),
    [
        ("consumequeue/SeedNormal/1", ["verify"]),
        ("consumequeue/SeedNormal", ["consumequeue"]),
        ("consumequeue/SeedNormal/1", ["store"]),
        ("config/topics.json", ["salvage", "--out", "{out}"]),
        ("config", ["salvage", "--out", "{out}"]),
    ],
)
def test_what_may_not_be_read_is_named(
    copy_java_store: Copy, tmp_path: Path, hidden: str, command: list[str]
) -> None:
    """A queue was passed over, and the rest sound."""
    store = copy_java_store("store-clean")
    path = store.root / hidden
    mode = path.stat().st_mode
    path.chmod(0)
    arguments = [argument.format(out=tmp_path / "out") for argument in command[1:]]
    line = [
        *_UNPRIVILEGED,
        sys.executable,
        "-m",
        "rmqcli",
        "inspect",
        command[0],
        str(store.root),
        *arguments,
    ]
    result = subprocess.run(line, capture_output=True, text=True, check=False)
    path.chmod(mode)
    assert result.returncode == ExitCode.NOT_PERMITTED
    assert result.stderr == f"rmq: {path}: Permission denied\n"


def test_pending_transactions_as_messages(cli: Run, copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    (store.root / "config/consumerOffset.json").write_text("{}")
    (store.root / "config/consumerOffset.json.bak").unlink()

    def shown(*arguments: str) -> list[list[str]]:
        return cli("inspect", "transactions", str(store.root), *arguments).lines

    pending = shown()
    assert len(pending) > 1
    assert [line[0] for line in shown("-f", r"%o\n")] == [line[0] for line in pending]
    last = f"queue_offset = {pending[-1][0]}"
    assert [line[0] for line in shown("-f", r"%o\n", "--where", last)] == [pending[-1][0]]
    both = cli("inspect", "transactions", str(store.root), "-f", "%o", "--json")
    assert both.code == ExitCode.USAGE


def test_index_and_checkpoint_explained(cli: Run, store_clean: JavaStore) -> None:
    root = str(store_clean.root)

    def values(line: Any) -> dict[str, str]:
        return {field["field"]: field["value"] for field in line["fields"]}

    headers = cli("inspect", "index", root, "--explain", "--json").json_lines
    assert [values(line)["index_count"] for line in headers][:1] == ["2000"]
    items = cli(
        "inspect", "index", root, "--topic", "SeedNormal", "--key", "key-0", "--explain", "--json"
    ).json_lines
    chain = cli("inspect", "index", root, "--topic", "SeedNormal", "--key", "key-0", "--json").json
    matching = [link for link in chain if link["matches"]]
    assert [values(item)["phy_offset"] for item in items] == [str(one["commitLogOffset"]) for one in matching]
    raw = (store_clean.root / "index" / Path(items[0]["file"]).name).read_bytes()
    assert raw[items[0]["position"] :].startswith(
        bytes.fromhex("".join(field["hex"] for field in items[0]["fields"]))
    )
    found = cli("inspect", "checkpoint", root, "--explain", "--json").json
    known = cli("inspect", "checkpoint", root, "--json").json
    assert values(found)["physic_msg_timestamp"] == str(known["physicMsgTimestamp"])


def test_neighbouring_fields_differ_in_colour_on_a_terminal(store_clean: JavaStore) -> None:
    command = f"{sys.executable} -m rmqcli inspect commitlog {store_clean.root} --explain"
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}

    def on_terminal(options: str) -> str:
        shell = ["script", "-qec", command + options, "/dev/null"]
        return subprocess.run(shell, capture_output=True, text=True, check=True, env=environment).stdout

    colored, plain = on_terminal(""), on_terminal(" --color never")
    assert "\x1b[36m" in colored and "\x1b[33m" in colored
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9]+m", "", colored) == plain


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["rebuild", "{store}", "--out", "{store}/x"], ExitCode.USAGE, "inside the store"),
        (["topics", "{store}", "--where", "perm >"], ExitCode.USAGE, "perm >"),
        (["index", "{store}", "--explain", "--where", "items > 1"], ExitCode.USAGE, "cannot be combined"),
        (["topics", "{store}/consumequeue"], ExitCode.NOT_FOUND, "a part of a store: name {store}\n"),
        (["groups", "{store}/consumequeue"], ExitCode.NOT_FOUND, "a part of a store: name {store}\n"),
        (["offsets", "{store}/consumequeue"], ExitCode.NOT_FOUND, "a part of a store: name {store}\n"),
        (["consumequeue", "{store}", "--topic", "none"], ExitCode.NOT_FOUND, "no such queue"),
        (["index", "{store}", "-f", "%v"], ExitCode.USAGE, "specify --topic and --key"),
        (["index", "{store}", "--topic", "a", "--key", "b", "--stats"], ExitCode.USAGE, "remove --key and"),
        (["store", "/nonexistent"], ExitCode.NOT_FOUND, "/nonexistent: No such file or directory"),
        (["store", "/"], ExitCode.NOT_FOUND, "not a store folder"),
        (["verify", "{store}/config"], ExitCode.NOT_FOUND, "a part of a store: name {store}\n"),
        (["rebuild", "{store}"], ExitCode.USAGE, "specify one of --out DIR2, --in-place and --dry-run"),
        (["salvage", "{store}"], ExitCode.USAGE, "specify --out DIR2"),
        (["salvage", "{store}", "--out", "{store}/x"], ExitCode.USAGE, "inside the store"),
        (["delay", "{store}", "--delay-levels", "1x"], ExitCode.USAGE, "'1x' is not a delay level"),
        (["checkpoint", "{store}/consumequeue"], ExitCode.NOT_FOUND, "no checkpoint"),
        (["index", "{store}/config"], ExitCode.NOT_FOUND, "no index file"),
        (
            ["consumequeue", "{store}/commitlog"],
            ExitCode.NOT_FOUND,
            "this is a commit log, not a consume queue",
        ),
        (
            ["consumequeue", "{store}/checkpoint"],
            ExitCode.NOT_FOUND,
            "4,096 bytes are not whole entries of 20",
        ),
        (["index", "{store}/commitlog/" + "0" * 20], ExitCode.NOT_FOUND, "it is named by an offset"),
        (["index", "{store}/checkpoint"], ExitCode.CORRUPT, "do not fit each other"),
        (["checkpoint", "{store}/config/topics.json"], ExitCode.CORRUPT, "a checkpoint has 4,096"),
    ],
)
def test_wrong_command_lines(
    cli: Run, store_clean: JavaStore, arguments: list[str], code: ExitCode, said: str
) -> None:
    result = cli("inspect", *(argument.format(store=store_clean.root) for argument in arguments))
    assert (result.code, result.out) == (code, b"")
    assert said.format(store=store_clean.root) in result.err
    assert result.err.count("\n") == 1
