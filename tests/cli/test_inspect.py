"""`rmq inspect` as typed, on the store that Java wrote."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.reading import decode_record
from tests.cli.conftest import Run
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]


@pytest.fixture
def commitlog(cli: Run, store_clean: JavaStore) -> Run:
    return lambda *arguments: cli("inspect", "commitlog", str(store_clean.root), *arguments)


@pytest.fixture
def consumequeue(cli: Run, store_clean: JavaStore) -> Run:
    return lambda *arguments: cli("inspect", "consumequeue", str(store_clean.root), *arguments)


def message_at(store: JavaStore, number: int) -> MessageExt:
    return decode_record(store.commit_log, store.of_kind("msg")[number]["phy"], decompress=True)


def test_rows(commitlog: Run, store_clean: JavaStore) -> None:
    result = commitlog()
    assert len(result.lines) == 3090
    first = message_at(store_clean, 0)
    expected = [0, first.store_size, first.topic, first.queue_id, 0, first.store_timestamp, first.tags]
    assert result.lines[0] == [*map(str, expected), ",".join(first.keys)]


def test_message_lines(commitlog: Run, store_clean: JavaStore) -> None:
    lines = commitlog("--json", "-c", "20").json_lines
    for number, line in enumerate(lines):
        message = message_at(store_clean, number)
        assert (line["msgId"], line["queueOffset"], line["properties"], line["body"].encode()) == (
            message.msg_id,
            message.queue_offset,
            message.properties,
            message.body,
        )
    assert len(lines) == 20


def test_ranges(commitlog: Run, store_clean: JavaStore) -> None:
    offsets = [line["phy"] for line in store_clean.of_kind("msg")]
    times = [message_at(store_clean, number).store_timestamp for number in range(len(offsets))]

    def shown(*arguments: str) -> list[int]:
        return [int(line[0]) for line in commitlog(*arguments).lines]

    assert shown("-o", str(offsets[7] - 3), "-c", "2") == offsets[7:9]
    assert shown("-o", f"{offsets[2]}:{offsets[5]}") == offsets[2:5]
    assert shown("-o", "-4") == offsets[-4:]
    assert shown("-o", "-0") == shown("-o", "end") == []
    middle = times[1500]
    assert shown("-o", f"@{middle}") == [
        offset for offset, time in zip(offsets, times, strict=True) if time >= middle
    ]
    tagged = [line["phy"] for line in store_clean.of_kind("msg") if line["topic"] == "SeedTx"]
    assert shown("--topic", "SeedTx", "-o", "-3") == tagged[-3:]


def test_format(commitlog: Run) -> None:
    assert commitlog("-c", "2", "-f", r"%o/%t\n").out == b"0/SeedNormal\n0/SeedNormal\n"


def test_statistics(commitlog: Run, store_clean: JavaStore) -> None:
    said = commitlog("--stats", "--json").json
    of_topic = [line for line in store_clean.of_kind("msg") if line["topic"] == "SeedTags"]
    (found,) = [topic for topic in said["topics"] if topic["topic"] == "SeedTags"]
    assert (found["messages"], found["queues"]) == (len(of_topic), 4)
    assert said["total"]["messages"] == 3090
    assert len(commitlog("--stats").lines) == len(said["topics"])


def test_a_record_explained(commitlog: Run, store_clean: JavaStore) -> None:
    said = commitlog("--explain", "-o", "-1", "--json").json
    last = message_at(store_clean, -1)
    assert said["position"] == last.commit_log_offset % 524288
    raw = bytes.fromhex("".join(field["hex"] for field in said["fields"]))
    assert raw == store_clean.commit_log[last.commit_log_offset :][: last.store_size]
    values = {field["field"]: field["value"] for field in said["fields"]}
    assert (values["magic"], values["topic"], values["store_host"]) == (
        "0xDAA320A7",
        last.topic,
        last.store_host,
    )


def test_an_explanation_to_read(commitlog: Run) -> None:
    text = commitlog("--explain").out.decode()
    assert "    48  born_host                    7f 00 00 01 00 00 d7 c4  127.0.0.1:55236\n" in text
    assert "    88  body                         530 bytes\n" in text
    assert "        … 466 more bytes (-v shows all)\n" in text
    assert "        KEYS=key-0 grp-0\n" in text
    assert max(map(len, text.splitlines()[1:])) <= 80
    assert "-v shows" not in commitlog("--explain", "-v").out.decode()


def test_a_damaged_record_is_explained_as_far_as_it_goes(cli: Run, copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    path, second = store.commit_logs[0], store.of_kind("msg")[1]["phy"]
    data = bytearray(path.read_bytes())
    data[second + 84] = 0x7F
    path.write_bytes(data)
    result = cli("inspect", "commitlog", str(store.root), "-o", str(second), "--explain")
    assert result.code == ExitCode.CORRUPT
    assert "  body_length  " in result.out.decode()
    assert "topic" not in result.out.decode()
    explained, named = result.err.splitlines()
    assert explained.startswith("rmq: body at byte 88: ")
    assert named.startswith(f"rmq: {path}: byte {second}: ")


def test_verify(commitlog: Run, consumequeue: Run) -> None:
    assert commitlog("--verify").out == b"sound: 3,090 records in 4 files, 2.0 MiB\n"
    assert commitlog("--verify", "--json").json == {
        "sound": True,
        "files": 4,
        "records": 3090,
        "bytes": 2097152,
        "damaged": 0,
        "findings": [],
    }
    assert consumequeue("--verify").out.startswith(b"sound: 3,090 entries in 127 files, ")


def test_verify_of_a_queue_without_its_log(cli: Run, store_clean: JavaStore, tmp_path: Path) -> None:
    """A part that is not checked is reported."""
    copy = shutil.copytree(store_clean.root / "consumequeue/SeedTx/1", tmp_path / "SeedTx/1")
    alone = cli("inspect", "consumequeue", str(copy), "--verify")
    assert (alone.code, alone.out[:6]) == (ExitCode.DONE, b"sound:")
    assert alone.err.startswith(f"rmq: {copy} is not in a store folder: records are not checked")
    log = str(store_clean.root / "commitlog")
    assert cli("inspect", "consumequeue", str(copy), "--verify", "--commit-log", log).err == ""


def test_verify_finds_damage(cli: Run, copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    path, second = store.commit_logs[0], store.of_kind("msg")[1]["phy"]
    data = bytearray(path.read_bytes())
    data[second + 100] ^= 1
    path.write_bytes(data)
    result = cli("inspect", "commitlog", str(store.root), "--verify")
    assert (result.code, result.err) == (ExitCode.CORRUPT, "")
    finding, verdict = result.out.decode().splitlines()
    assert finding.startswith(f"{path}: byte {second}: the CRC of a body is wrong (")
    assert verdict == "damaged in 1 place: 3,089 records in 4 files, 2.0 MiB"
    said = cli("inspect", "commitlog", str(path), "--verify", "--json")
    assert (said.code, said.json["sound"], said.json["findings"][0]["position"]) == (8, False, second)
    queues = cli("inspect", "consumequeue", str(store.root), "--verify")
    assert queues.code == ExitCode.CORRUPT
    assert f"its record at commit-log offset {second}: the CRC" in queues.out.decode()


def test_queue_entries(cli: Run, store_clean: JavaStore) -> None:
    folder = str(store_clean.root / "consumequeue" / "SeedNormal")
    assert len(cli("inspect", "consumequeue", folder).lines) == 1500
    assert [line[:3] for line in cli("inspect", "consumequeue", f"{folder}/2", "-o", "-2").lines] == [
        ["SeedNormal", "2", "373"],
        ["SeedNormal", "2", "374"],
    ]
    (entry,) = cli("inspect", "consumequeue", f"{folder}/0", "-o", "5:6", "--json").json_lines
    assert list(entry) == ["topic", "queueId", "queueOffset", "commitLogOffset", "size", "tagsCode"]
    explained = cli("inspect", "consumequeue", f"{folder}/0", "-o", "5", "--explain", "--json").json
    assert [field["value"] for field in explained["fields"]] == [
        str(entry[name]) for name in ("commitLogOffset", "size", "tagsCode")
    ]


def test_entries_are_chosen(consumequeue: Run) -> None:
    def shown(*arguments: str) -> list[list[str]]:
        return consumequeue(*arguments).lines

    everything = shown()
    tagged = shown("--tag", "TagA || TagB")
    assert {line[5] for line in tagged} == {"2598919", "2598920"}
    assert shown("--topic", "SeedNormal", "--queue", "2") == [
        line for line in everything if line[:2] == ["SeedNormal", "2"]
    ]
    great = shown("--where", "size > 700 AND topic = 'SeedNormal'")
    assert great == [line for line in everything if line[0] == "SeedNormal" and int(line[4]) > 700]
    assert 0 < len(great) < 1500
    last = shown("--topic", "SeedNormal", "--queue", "2", "--where", "size > 700", "-o", "-3")
    assert last == [line for line in great if line[1] == "2"][-3:]


def test_queue_statistics(consumequeue: Run) -> None:
    found = {(line["topic"], line["queueId"]): line for line in consumequeue("--stats", "--json").json}
    line = found["SeedNormal", 0]
    assert (line["entries"], line["firstQueueOffset"], line["lastQueueOffset"]) == (375, 0, 374)
    limited = consumequeue("--topic", "SeedNormal", "--stats", "-c", "400", "--json").json
    assert [line["entries"] for line in limited][:3] == [375, 25, 0]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["commitlog"], ExitCode.USAGE, "Missing argument 'PATH'"),
        (["commitlog", "/nonexistent"], ExitCode.NOT_FOUND, "/nonexistent: No such file or directory"),
        (["consumequeue", "/nonexistent"], ExitCode.NOT_FOUND, "/nonexistent: No such file or directory"),
        (["commitlog", "{store}/config"], ExitCode.NOT_FOUND, "no file named by an offset (20 digits)"),
        (["commitlog", "{store}", "-o", "x"], ExitCode.USAGE, "range 'x'"),
        (
            ["commitlog", "{store}", "--verify", "--stats"],
            ExitCode.USAGE,
            "--verify and --stats cannot be combined",
        ),
        (
            ["commitlog", "{store}", "--verify", "--topic", "a"],
            ExitCode.USAGE,
            "every record: remove --topic",
        ),
        (
            ["consumequeue", "{store}", "--verify", "--key", "a", "-o", "5"],
            ExitCode.USAGE,
            "every entry: remove --offset and --key",
        ),
        (
            ["consumequeue", "{store}", "--verify", "--commit-log", "/nonexistent"],
            ExitCode.NOT_FOUND,
            "/nonexistent: No such file or directory",
        ),
        (["nothing"], ExitCode.USAGE, "No such command 'nothing'"),
    ],
)
def test_wrong_command_lines(
    cli: Run, store_clean: JavaStore, arguments: list[str], code: ExitCode, said: str
) -> None:
    result = cli("inspect", *(argument.format(store=store_clean.root) for argument in arguments))
    assert (result.code, result.out) == (code, b"")
    assert said in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--json",),
        ("-f", "%o %t %v\\n"),
        ("--where", "store_size > 0"),
        ("-o", "-4000"),
        ("-o", "-4000", "--json"),
        ("--explain", "-c", "4000"),
    ],
)
def test_a_body_that_cannot_be_decompressed(
    cli: Run, copy_java_store: Copy, arguments: tuple[str, ...]
) -> None:
    """It is shown as it is stored, what is behind it is shown, and the exit code tells."""
    store = copy_java_store("store-clean")
    whole = cli("inspect", "commitlog", str(store.root), *arguments)
    path = store.commit_logs[0]
    places = [line["phy"] for line in store.of_kind("msg") if line["topic"] == "SeedNormal"][5:7]
    flag_compressed(path, places)
    result = cli("inspect", "commitlog", str(store.root), *arguments)
    assert result.code == ExitCode.CORRUPT
    told = result.err.splitlines()[:-1] if "--json" in arguments else result.err.splitlines()
    assert [line.partition(": zlib")[0] for line in told] == [
        f"rmq: {path}: byte {place}" for place in places
    ]
    assert "it is shown as stored" in result.err
    flags = re.compile(rb'"sysFlag": ?[01]|sys_flag +[0-9a-f ]+|"msg[A-Za-z]*": ?"[^"]*"')
    assert flags.sub(b"", result.out) == flags.sub(b"", whole.out)


def test_bodies_that_cannot_be_decompressed_are_counted_as_stored(cli: Run, copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    stats = ("inspect", "commitlog", str(store.root), "--stats", "--json")
    whole = [cli(*stats, *more).json for more in ((), ("-o", "-4000"))]
    flag_compressed(store.commit_logs[0], [0])
    damaged = [cli(*stats, *more) for more in ((), ("-o", "-4000"))]
    assert [one.code for one in damaged] == [ExitCode.CORRUPT] * 2
    assert [one.err.count("byte 0: zlib") for one in damaged] == [1, 1]
    assert [one.json for one in damaged] == whole
    assert cli(*stats, "--topic", "SeedTx").code == ExitCode.DONE


def test_many_bodies_that_cannot_be_decompressed(cli: Run, copy_java_store: Copy) -> None:
    store = copy_java_store("store-clean")
    places = [line["phy"] for line in store.of_kind("msg")][:150]
    flag_compressed(store.commit_logs[0], places)
    said = cli("inspect", "commitlog", str(store.root)).err.splitlines()
    assert (len(said), said[-1]) == (101, "rmq: … and 50 more")


def flag_compressed(path: Path, places: list[int]) -> None:
    with path.open("r+b") as file:
        for place in places:
            file.seek(place + 36)
            file.write((1).to_bytes(4, "big"))


def test_a_reader_that_goes_away(store_clean: JavaStore) -> None:
    """`| head -1`: no word, no traceback."""
    command = f"{sys.executable} -m rmqcli inspect commitlog {store_clean.root} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


def test_a_table_of_eighty_columns(store_clean: JavaStore, tmp_path: Path) -> None:
    command = f"COLUMNS=80 {sys.executable} -m rmqcli inspect commitlog {store_clean.root} "
    for arguments in ("-c 30", "--stats"):
        shell = ["script", "-qec", f"{command}{arguments} 2> /dev/null", "/dev/null"]  # without the bar
        text = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
        lines = [line.rstrip() for line in text.replace("\r", "").splitlines()[1:]]
        assert max(map(len, lines)) <= 80
        # No time is broken over two lines.
        assert not [line for line in lines if line.strip().startswith(("01:", "2026"))]
