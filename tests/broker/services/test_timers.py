"""Timer messages: their time, their content, recalls, and what happens to them at a stop or a kill."""

from __future__ import annotations

import json
import random
import shutil
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from rmqcli.broker.services.timers import LONGEST_SLEEP_SECONDS
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.message import MessageExt
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.store.timer_files import CHECK_POINT, WHEEL_SIZE
from rmqcli.store.read.commit_log import CommitLogFiles
from tests.broker.support import OWN, START_MS, Client, FakeBroker, fake_broker, virtual_now
from tests.support import CONSUME_QUEUE_FILE_SIZE, INDEX_ITEMS, INDEX_SLOTS, JavaStore

TIMER_TOPIC = "rmq_sys_wheel_timer"
SHORT_WAITS = {"file_reserved_time": 0}
"""No message waits longer than a minute in one slot."""


async def all_of(client: Client, topic: str = "T", queue_id: int = 0) -> list[MessageExt]:
    found: list[MessageExt] = []
    while more := await client.pulled(topic, queue_id, len(found)):
        found += more
    return found


def files(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


async def bodies(client: Client, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    return [bytes(message.body) for message in await all_of(client, topic, queue_id)]


@pytest.mark.parametrize(("ms", "due"), [(5300, 6), (5000, 5), (1, 1), (1000, 1), (100_000, 100)])
async def test_a_message_is_never_early_and_less_than_a_second_late(
    tmp_path: Path, autojump_clock: trio.abc.Clock, ms: int, due: float
) -> None:
    async with fake_broker(tmp_path, **SHORT_WAITS) as broker:
        client = broker.client()
        start = trio.current_time()
        properties = {"TIMER_DELAY_MS": str(ms), "KEYS": "k", "WAIT": "true"}
        await client.send("T", b"later", queue_id=3, properties=properties)
        await trio.sleep_until(start + due - 0.001)
        assert await client.pulled("T", 3) == []
        await trio.sleep_until(start + due + 0.001)
        (message,) = await client.pulled("T", 3)
        assert message.body == b"later"
        out = START_MS + (ms - 1) // 1000 * 1000
        # 99 s are 30 s, then 30 s, and then the rest.
        rolls = {"TIMER_ROLL_TIMES": "1"} if due > 60 else {}
        assert message.properties == {
            **properties,
            **OWN,
            **rolls,
            "REAL_TOPIC": "T",
            "REAL_QID": "3",
            "TIMER_OUT_MS": str(out),
            "TIMER_ENQUEUE_MS": str(START_MS + (61_000 if rolls else 0)),
            "TIMER_DEQUEUE_MS": str(out + 1000),
        }


async def test_messages_of_many_seconds(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path, mapped_file_size_timer_log=1024) as broker:
        client = broker.client()
        for number in range(300):
            delay = 1 + number * 7919 % 400
            await client.send("T", str(number).encode(), properties={"TIMER_DELAY_SEC": str(delay)})
        assert broker.context.timers.waiting == 300
        await trio.sleep(200.5)
        half = await all_of(client)
        assert {int(m.body) for m in half} == {n for n in range(300) if 1 + n * 7919 % 400 <= 200}
        await trio.sleep(201)
        everything = await all_of(client)
        assert Counter(int(m.body) for m in everything) == Counter(range(300))
        for message in everything:
            late = message.store_timestamp - START_MS - int(message.properties["TIMER_DELAY_SEC"]) * 1000
            assert 0 <= late < 1000
        assert broker.context.timers.waiting == 0
        await trio.sleep(31)
        assert len(files(tmp_path / "timerlog")) == 300 * 52 // 1024 + 1, "their records are there"


MINUTE_MS = 60_000


@pytest.mark.parametrize(("count", "minutes"), [(600, 15), (1_000_000, 24 * 60)])
async def test_many_timers(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch, count: int, minutes: int
) -> None:
    """Sent for some minutes, they are due within so many minutes: none is lost, early or repeated."""
    for name in ("_sync", "_sync_content"):  # a save each second would take minutes, and prove nothing here
        monkeypatch.setattr(f"rmqcli.broker.disk.real.{name}", lambda fd: None)
    chance, due, seen = random.Random(count), array("q"), bytearray(count)
    async with fake_broker(tmp_path, mapped_file_size_commit_log=64 << 20) as broker:
        client = broker.client()
        for number in range(count):
            delay = chance.randrange(1, minutes * MINUTE_MS)
            due.append(virtual_now() + delay)
            await client.send("T", b"%d" % number, properties={"TIMER_DELAY_MS": str(delay)})
            client.session.sent.clear()  # each reply is looked for among all of them
            if number % (count // 300) == 0:
                await trio.sleep(1)
        await trio.sleep(minutes * MINUTE_MS / 1000 + 1)
        assert broker.context.timers.waiting == 0
    for place, data in CommitLogFiles(tmp_path).records():
        message = decode_record(data, place.position)
        if message.topic == "T":
            number = int(message.body)
            assert 0 <= message.store_timestamp - due[number] < 1000
            assert not seen[number]
            seen[number] = True
    assert all(seen)


async def test_a_broker_without_timers_makes_no_files(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        await broker.client().send("T")
        await trio.sleep(100)
    assert not [path for path in files(tmp_path) if "timer" in path.name]


async def test_a_restart_loses_and_repeats_nothing(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for delay in (1, 1, 3, 200):
            await client.send("T", b"%d" % delay, properties={"TIMER_DELAY_SEC": str(delay)})
        await trio.sleep(2)
    assert (tmp_path / "timerwheel").stat().st_size == WHEEL_SIZE
    assert json.loads((tmp_path / "config" / "timermetrics").read_text())["timingCount"]["T"]["count"] == 2
    await trio.sleep(100)
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        assert broker.context.timers.waiting == 2
        await trio.sleep(0.1)
        assert await bodies(client) == [b"1", b"1", b"3"]
        await trio.sleep(100)
        assert await bodies(client) == [b"1", b"1", b"3", b"200"]


def lose(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


KILLS: dict[str, Callable[[Path], object]] = {
    "kill": lambda root: None,
    "the wheel is gone": lambda root: lose(root, "timerwheel"),
    "the log is gone": lambda root: lose(root, "timerlog"),
    "the log is zeros": lambda root: (root / "timerlog" / f"{0:020d}").write_bytes(bytes(4096)),
    "wheel and log are gone": lambda root: lose(root, "timerwheel", "timerlog"),
}


@pytest.mark.parametrize("damage", KILLS)
@pytest.mark.parametrize("is_clean", [True, False])
async def test_the_wheel_is_made_again(
    tmp_path: Path, autojump_clock: trio.abc.Clock, damage: str, is_clean: bool
) -> None:
    """A copy of the folder of a running broker is what a kill leaves."""
    root, copy = tmp_path / "store", tmp_path / "copy"
    async with fake_broker(root, **SHORT_WAITS) as broker:
        client = broker.client()
        for delay in (1, 200, 200, 201):
            await client.send("T", b"%d" % delay, properties={"TIMER_DELAY_SEC": str(delay)})
        await trio.sleep(3.5)
        # Not yet saved.
        await client.send("T", b"30", properties={"TIMER_DELAY_SEC": "30"})
        await trio.sleep(0.01)
        if not is_clean:
            shutil.copytree(root, copy)
    if is_clean:
        shutil.copytree(root, copy)
    KILLS[damage](copy)
    async with fake_broker(copy, **SHORT_WAITS) as broker:
        client = broker.client()
        await trio.sleep(60)
        assert await bodies(client) == [b"1", b"30"]
        await trio.sleep(200)
        assert await bodies(client) == [b"1", b"30", b"200", b"200", b"201"]
        assert broker.context.timers.waiting == 0


async def test_without_a_check_point_everything_is_delivered(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        await broker.client().send("T", b"1", properties={"TIMER_DELAY_SEC": "10"})
        await trio.sleep(1)
    for path in (tmp_path / "config").glob("timer*"):
        path.unlink()
    async with fake_broker(tmp_path) as broker:
        await trio.sleep(10)
        assert await bodies(broker.client()) == [b"1"]


@pytest.mark.parametrize("step", [-3600, 3600])
async def test_the_clock_is_set(tmp_path: Path, autojump_clock: trio.abc.Clock, step: int) -> None:
    """The time of the wall clock counts: nothing is early by it, or twice."""
    async with fake_broker(tmp_path) as broker:
        client = broker.client()

        def moved() -> int:
            return virtual_now() + step * 1000

        for delay in (1, 60, 120):
            await client.send("T", b"%d" % delay, properties={"TIMER_DELAY_SEC": str(delay)})
        await trio.sleep(2)
        broker.context.now_ms = moved
        await trio.sleep(LONGEST_SLEEP_SECONDS + 1)
        early = [b"1"] if step < 0 else [b"1", b"120", b"60"]
        assert sorted(await bodies(client)) == early
        await client.send("T", b"5", properties={"TIMER_DELAY_SEC": "5"})
        for wait in (7, 200):
            await trio.sleep(wait)
            assert sorted(await bodies(client)) == sorted([*early, b"5"])
        await trio.sleep(3600 + 120)
        found = await all_of(client)
        assert Counter(bytes(m.body) for m in found) == Counter([b"1", b"5", b"60", b"120"])


async def test_a_slave_goes_on_where_its_master_was(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path / "master") as broker:
        client = broker.client()
        for delay in (1, 100):
            await client.send("T", b"%d" % delay, properties={"TIMER_DELAY_SEC": str(delay)})
        await trio.sleep(10)
        shutil.copytree(tmp_path / "master", tmp_path / "slave", ignore=shutil.ignore_patterns("timer*"))
        known = broker.context.timers.check_point()
        assert (await client.ask(60)).body == CHECK_POINT.pack(*known)
    for _ in range(2):
        async with fake_broker(tmp_path / "slave", broker_role="SLAVE", broker_id=1) as broker:
            await broker.context.timers.adopt(known)
            await trio.sleep(10)
    async with fake_broker(tmp_path / "slave") as broker:
        await trio.sleep(100)
        assert await bodies(broker.client()) == [b"1", b"100"]


async def test_a_failed_delivery_is_tried_again(
    tmp_path: Path, autojump_clock: trio.abc.Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        for _ in range(3):
            await client.send("T", properties={"TIMER_DELAY_SEC": "1"})
        broker.context.store.stats.set_disk(0.95, full=True)
        await trio.sleep(20)
        assert (await client.pull("T")).code == ResponseCode.PULL_NOT_FOUND
        assert caplog.text.count("waits, because the store refuses it: SERVICE_NOT_AVAILABLE") == 1
        broker.context.store.stats.set_disk(0.5, full=False)
        await trio.sleep(1.1)
        assert len(await client.pulled("T")) == 3


# --- recalls


async def sent(client: Client, key: str, delay: float, topic: str = "T") -> str:
    properties = {"UNIQ_KEY": key, "TIMER_DELAY_SEC": str(int(delay))}
    return (await client.send(topic, key.encode(), properties=properties)).ext["recallHandle"]


@pytest.mark.parametrize("delay", [10, 100])
@pytest.mark.parametrize("kill", [False, True])
async def test_a_recalled_message_is_not_delivered(
    tmp_path: Path, autojump_clock: trio.abc.Clock, delay: float, kill: bool
) -> None:
    root = tmp_path / "store"
    async with fake_broker(root, **SHORT_WAITS) as broker:
        client = broker.client()
        await sent(client, "0A", delay)
        handle = await sent(client, "0B", delay)
        await trio.sleep(2)
        reply = await client.ask(370, {"topic": "T", "recallHandle": handle, "producerGroup": "P"})
        assert (reply.code, reply.ext["msgId"]) == (0, "0B")
        if kill:
            await trio.sleep(0.01)
            shutil.copytree(root, tmp_path / "copy")
            shutil.rmtree(tmp_path / "copy" / "timerlog")
    async with fake_broker(tmp_path / "copy" if kill else root, **SHORT_WAITS) as broker:
        await trio.sleep(delay)
        assert await bodies(broker.client()) == [b"0A"]
        assert broker.context.timers.waiting == 0


async def refused(broker: FakeBroker, topic: str, handle: str) -> tuple[int, str | None]:
    reply = await broker.client().ask(370, {"topic": topic, "recallHandle": handle})
    return reply.code, reply.remark


async def test_what_cannot_be_recalled(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        handle = await sent(client, "0A", 10)
        await client.send("U")
        illegal = ResponseCode.ILLEGAL_OPERATION
        for bad in ("", "x", "€", "djE=", "djEgVCBicm9rZXItYSB4IDBB"):
            assert await refused(broker, "T", bad) == (illegal, "recall handle is invalid")
        assert await refused(broker, "U", handle) == (illegal, "recall failed, topic not match")
        assert await refused(broker, "V", handle) == (17, "recall failed, the topic[V] not exist")
        await trio.sleep(11)
        assert await refused(broker, "T", handle) == (illegal, "recall failed, timestamp invalid")
        other = replace(broker.context.config, broker_name="other")
        broker.context.reconfigure(other)
        not_available = "recall failed, broker service not available"
        assert await refused(broker, "T", handle) == (illegal, not_available)
        broker.context.reconfigure(replace(other, broker_role="SLAVE"))
        assert await refused(broker, "T", handle) == (11, not_available)
        broker.context.reconfigure(replace(other, recall_message_enable=False))
        assert await refused(broker, "T", handle) == (16, "recall failed, operation is forbidden")
        later = replace(other, start_accept_send_request_time_stamp=virtual_now() + 1000)
        broker.context.reconfigure(later)
        assert await refused(broker, "T", handle) == (14, not_available)


async def test_no_handle_without_a_key(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        reply = await broker.client().send("T", properties={"TIMER_DELAY_SEC": "1"})
        assert "recallHandle" not in reply.ext


async def test_metrics(tmp_path: Path, autojump_clock: trio.abc.Clock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await sent(client, "0A", 10)
        await sent(client, "0B", 20, "U")
        await trio.sleep(0.1)
        body = json.loads((await client.ask(61)).body)
        assert {topic: one["count"] for topic, one in body["timingCount"].items()} == {"T": 1, "U": 1}
        await trio.sleep(11)
        body = json.loads((await client.ask(61)).body)
        assert {topic: one["count"] for topic, one in body["timingCount"].items()} == {"T": 0, "U": 1}


# --- a folder of Java

LAST = 1795345104000
"""The time up to which the broker of the folder has delivered."""


async def test_the_timers_of_a_broker_in_java_are_delivered(
    copy_java_store: Callable[[str], JavaStore], autojump_clock: trio.abc.Clock
) -> None:
    java = copy_java_store("store-five")
    settings = {
        "mapped_file_size_commit_log": 1 << 19,
        "mapped_file_size_consume_queue": CONSUME_QUEUE_FILE_SIZE,
        "max_hash_slot_num": INDEX_SLOTS,
        "max_index_num": INDEX_ITEMS,
        "ignore_unsupported": True,
        "file_reserved_time": 10_000,
    }

    hours = 0

    def now() -> int:
        return LAST + hours * 3_600_000 + round(trio.current_time() * 1000)

    before: Counter[str] = Counter()
    expected: dict[str, int] = {}
    for line in java.of_kind("msg"):
        if line["topic"] == "FiveTimer":
            before[line["properties"]["KEYS"]] += 1
        elif line["topic"] == TIMER_TOPIC and line["properties"]["REAL_TOPIC"] == "FiveTimer":
            expected[line["properties"]["KEYS"]] = int(line["properties"]["TIMER_OUT_MS"])
    pending = {key: out for key, out in expected.items() if not before[key]}
    assert len(pending) == 10
    async with fake_broker(java.root, now, **settings) as broker:
        client = broker.client()
        assert broker.context.timers.waiting == 11
        for hours in range(60):  # noqa: B007  # the clock is set
            await trio.sleep(6)
        found = [m for queue in range(8) for m in await all_of(client, "FiveTimer", queue)]
        new = [m for m in found if m.store_timestamp >= LAST]
        assert Counter(m.properties["KEYS"] for m in new) == Counter(pending.keys())
        assert Counter(m.properties["KEYS"] for m in found) == Counter(expected.keys())
        for message in new:
            assert 1000 <= message.store_timestamp - pending[message.properties["KEYS"]] < 3_610_000
        assert broker.context.timers.waiting == 0
