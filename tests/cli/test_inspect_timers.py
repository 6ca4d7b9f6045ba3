"""`rmq inspect timers`: folders of Java and of this broker, stopped, killed and damaged."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.codec.store.timer_files import FILE_SIZE, UNIT, WHEEL_SIZE
from tests.broker.support import START_MS, fake_broker
from tests.cli.conftest import Run
from tests.support import JavaStore

TIMER_TOPIC = "rmq_sys_wheel_timer"


def test_the_timers_of_a_broker_in_java(cli: Run, copy_java_store: Callable[[str], JavaStore]) -> None:
    """It has delivered some of the messages, and will drop one that is recalled."""
    java = copy_java_store("store-five")
    delivered: Counter[str] = Counter()
    stored: dict[str, tuple[int, int]] = {}
    for line in java.of_kind("msg"):
        properties = line["properties"]
        if line["topic"] == "FiveTimer":
            delivered[properties["KEYS"]] += 1
        elif line["topic"] == TIMER_TOPIC and properties["REAL_TOPIC"] == "FiveTimer":
            stored[properties["KEYS"]] = int(properties["TIMER_OUT_MS"]) + 1000, int(properties["REAL_QID"])
    pending = {(key, *place) for key, place in stored.items() if not delivered[key]}
    shown = cli("inspect", "timers", str(java.root), "--topic", "FiveTimer", "--json").json_lines
    assert {(one["keys"][0], one["due"], one["queueId"]) for one in shown} == pending
    assert len(shown) == len(pending) == 10


def rows(cli: Run, root: Path, *options: str) -> list[tuple[int, str, str]]:
    """Return due time in seconds after the start, topic and keys."""
    found = cli("inspect", "timers", str(root), *options)
    assert (found.code, found.err) == (ExitCode.DONE, "")
    return [((int(line[0]) - START_MS) // 1000, line[1], line[3]) for line in found.lines]


WAITING = [(60, "T", "k60"), (60, "T", "l60"), (200, "U", "m200"), (200, "T", "n200")]


@pytest.fixture
def roots(tmp_path: Path) -> dict[str, Path]:
    """Folders with the same timers: of a broker that was stopped, and copied before from one that ran."""
    return {"stopped": tmp_path / "stopped", "running": tmp_path / "running"}


async def fill(roots: dict[str, Path], pause: float) -> None:
    import trio

    async with fake_broker(roots["stopped"]) as broker:
        client = broker.client()

        async def send(topic: str, key: str, delay: int) -> str:
            properties = {"KEYS": key, "UNIQ_KEY": f"ID{key}", "TIMER_DELAY_SEC": str(delay)}
            return (await client.send(topic, b"x", properties=properties)).ext["recallHandle"]

        await send("T", "done", 1)
        for _, topic, key in WAITING:
            await send(topic, key, int(key[1:]))
        handle = await send("T", "recalled", 60)
        await trio.sleep(pause)
        await client.ask(370, {"topic": "T", "recallHandle": handle, "producerGroup": "P"})
        await trio.sleep(0.001)
        shutil.copytree(roots["stopped"], roots["running"])


@pytest.mark.parametrize("state", ["stopped", "running"])
async def test_what_waits(cli: Run, roots: dict[str, Path], autojump_clock: object, state: str) -> None:
    await fill(roots, 10)
    root = roots[state]
    assert rows(cli, root) == WAITING
    assert rows(cli, root, "--topic", "T") == [one for one in WAITING if one[1] == "T"]
    assert rows(cli, root, "-o", f"@{START_MS + 100_000}:") == WAITING[2:]
    assert rows(cli, root, "--where", "keys = 'm200'", "-c", "5") == [WAITING[2]]
    assert cli("inspect", "timers", str(root), "-f", r"%t %v %i\n").out.decode().splitlines() == [
        f"{topic} x ID{key}" for _, topic, key in WAITING
    ]
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    cli("inspect", "timers", str(root), "--stats")
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def clear_unit(root: Path) -> None:
    """Damage the units to which the wheel leads, and all after them."""
    with next((root / "timerlog").iterdir()).open("r+b") as file:
        file.seek(4 * UNIT.size)
        file.write(bytes(100 * UNIT.size))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no wheel": (lambda root: (root / "timerwheel").unlink(), "timerwheel is missing: read from timerlog"),
    "short wheel": (
        lambda root: (root / "timerwheel").write_bytes(bytes(4096)),
        f"timerwheel has 4,096 bytes instead of {WHEEL_SIZE:,}: read from timerlog",
    ),
    "no log": (
        lambda root: shutil.rmtree(root / "timerlog"),
        f"timerlog is missing: read from the queue of {TIMER_TOPIC}",
    ),
    "damaged log": (clear_unit, "timerlog ends before 364: read from the queue of"),
    "no check point": (
        lambda root: (root / "config" / "timercheck").unlink(),
        "config/timercheck is missing: messages that were delivered are listed, too",
    ),
    "short check point": (
        lambda root: (root / "config" / "timercheck").write_bytes(bytes(5)),
        "config/timercheck: a timer check point of 5 bytes; messages that were delivered are listed, too",
    ),
    "other check point": (
        lambda root: (root / "config" / "timercheck").write_bytes(bytes(FILE_SIZE)),
        "",
    ),
}


async def test_damage_is_one_line(cli: Run, roots: dict[str, Path], autojump_clock: object) -> None:
    await fill(roots, 10)
    for damage, (harm, text) in DAMAGES.items():
        root = roots["stopped"].with_name(damage)
        shutil.copytree(roots["stopped"], root)
        harm(root)
        found = cli("inspect", "timers", str(root))
        assert {line[3] for line in found.lines} >= {key for _, _, key in WAITING}, damage
        assert found.code == ExitCode.DONE, damage
        assert found.err.startswith(f"rmq: {text}" if text else ""), damage
        assert found.err.count("\n") == bool(text), damage


async def test_a_folder_without_timers(cli: Run, tmp_path: Path, autojump_clock: object) -> None:
    async with fake_broker(tmp_path / "store") as broker:
        await broker.client().send("T")
    assert rows(cli, tmp_path / "store") == []
    (tmp_path / "none").mkdir()
    refused = cli("inspect", "timers", str(tmp_path / "none"))
    assert refused.code != ExitCode.DONE and refused.err.count("\n") == 1
