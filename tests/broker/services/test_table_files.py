"""The tables on disk: Java's files are read, ours are what Java writes, damage loses nothing."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rmqcli.broker.config import read_properties
from rmqcli.broker.disk import REAL, Disk
from rmqcli.broker.filters import FilterTable
from rmqcli.broker.services.table_files import TableFiles, table_text
from rmqcli.broker.store import MessageStore, StoreDamaged
from rmqcli.broker.store.readiness import MOST_READS, Readiness
from rmqcli.broker.supervisor import open_services
from rmqcli.broker.tables import DelayOffsets, GroupTable, OffsetTable, TopicTable
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.config import SubscriptionGroupWrapper, TopicConfigSerializeWrapper
from rmqcli.codec.bodies.offsets import ConsumerOffsetSerializeWrapper, DelayOffsetSerializeWrapper
from rmqcli.codec.fastjson_writer import PIECES_PER_STEP
from tests.broker.support import SlowDisk, fake_broker, send_header
from tests.support import JavaStore

PATIENCE = 20.0
TABLES = {
    "topics.json": TopicConfigSerializeWrapper,
    "subscriptionGroup.json": SubscriptionGroupWrapper,
    "consumerOffset.json": ConsumerOffsetSerializeWrapper,
    "delayOffset.json": DelayOffsetSerializeWrapper,
}


def files(
    root: Path, disk: Disk = REAL
) -> tuple[TableFiles, TopicTable, GroupTable, OffsetTable, DelayOffsets]:
    topics, groups = TopicTable(lambda: 0), GroupTable(lambda: 0)
    offsets, delays = OffsetTable(), DelayOffsets()
    filters = FilterTable(lambda: 0)
    return (
        TableFiles(
            root, topics=topics, groups=groups, offsets=offsets, delays=delays, filters=filters, disk=disk
        ),
        topics,
        groups,
        offsets,
        delays,
    )


@pytest.mark.parametrize("name", TABLES)
def test_what_is_written_is_what_java_writes(java_store: JavaStore, name: str) -> None:
    original = (java_store.root / "config" / name).read_bytes()
    assert table_text(decode_body(TABLES[name], original)) == original


def test_java_tables_are_taken_over(store_clean: JavaStore, tmp_path: Path) -> None:
    shutil.copytree(store_clean.root / "config", tmp_path / "config")
    tables, topics, groups, offsets, delays = files(tmp_path)
    tables.load(has_messages=True)
    assert topics.version.counter == 83
    seed = topics.get("SeedTags")
    assert seed is not None
    assert "seed_group" in groups
    assert offsets.query("seed_group", "%RETRY%seed_group", 0) == 0
    assert [delays.get(level) for level in (1, 2, 3, 4)] == [19, 6, 2, 1]


async def test_topics_and_groups_are_saved_on_each_change(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("Auto")
        assert '"Auto"' in (tmp_path / "config" / "topics.json").read_text()
        await client.heartbeat("G", "Auto")
        await trio.sleep(0.01)
        assert '"%RETRY%G"' in (tmp_path / "config" / "topics.json").read_text()
        assert '"G"' in (tmp_path / "config" / "subscriptionGroup.json").read_text()
        assert '"Auto"' in (tmp_path / "config" / "topics.json.bak").read_text()


async def test_offsets_are_saved_every_five_seconds_when_they_changed(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    path = tmp_path / "config" / "consumerOffset.json"
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        header = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "7"}
        broker.context.topics.ensure("T", 4)
        await client.ask(15, header)
        await trio.sleep(4.9)
        assert not path.exists()
        await trio.sleep(0.2)
        assert path.read_text() == '{\n\t"offsetTable":{\n\t\t"T@G":{0:7\n\t\t}\n\t}\n}'
        path.unlink()
        await trio.sleep(20)
        await client.ask(15, header)
        await trio.sleep(20)
        assert not path.exists(), "nothing changed"
        await client.ask(15, header | {"commitOffset": "8"})
    assert "{0:8" in path.read_text(), "saved at the stop"
    async with fake_broker(tmp_path) as broker:
        assert broker.context.offsets.query("G", "T", 0) == 8


@pytest.mark.parametrize(("save", "oldest"), [(0.3, 2.3), (1.9, 3.9), (3.0, 6.1)])
async def test_how_old_saved_offsets_can_be(
    tmp_path: Path,
    autojump_clock: trio.abc.Clock,
    caplog: pytest.LogCaptureFixture,
    save: float,
    oldest: float,
) -> None:
    """At any time, of what was committed `oldest` seconds ago nothing is missing on the disk."""
    offsets, period = OffsetTable(), 2.0
    times: list[float] = []
    late: list[float] = []
    saved = -1

    async def slow(write: Callable[[bytes], None], text: bytes) -> None:
        nonlocal saved
        await trio.sleep(save)
        late.append(trio.current_time() - times[saved + 1])  # the oldest commit that is not on the disk yet
        saved = int(text.decode().split("{0:")[1].split()[0])
        write(text)

    tables = TableFiles(
        tmp_path,
        topics=TopicTable(lambda: 0),
        groups=GroupTable(lambda: 0),
        offsets=offsets,
        delays=DelayOffsets(),
        filters=FilterTable(lambda: 0),
        in_thread=slow,
    )

    async def durable() -> bool:
        await trio.lowlevel.checkpoint()
        return True

    async with open_services() as services:
        tables.start(services, durable, offsets_ms=int(period * 1000), delays_ms=10_000)
        for number in range(1500):
            offsets.commit("G", "T", 0, number)
            times.append(trio.current_time())
            await trio.sleep(0.02)
    assert max(late) == pytest.approx(oldest, abs=0.05)
    assert caplog.text.count("the disk took") == (save > 1)


async def test_offsets_are_saved_while_readers_wait_for_the_disk(tmp_path: Path) -> None:
    """The thread of each reader waits until the save is done, which never began if all threads were theirs."""
    saved, begun = threading.Event(), threading.Semaphore(0)

    class Cold:
        size, is_mapped = 1 << 20, True

        def load_pages(self, _start: int, _length: int) -> None:
            begun.release()
            assert saved.wait(PATIENCE)

    async def read(readiness: Readiness, segment: Any) -> None:
        await readiness.loading([(segment, 0)]).ready()

    tables, _, _, offsets, _ = files(tmp_path)
    offsets.commit("G", "T", 0, 1)
    readiness = Readiness(trio.to_thread.run_sync)
    try:
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for _ in range(200):
                    nursery.start_soon(read, readiness, Cold())
                for _ in range(MOST_READS):
                    await trio.to_thread.run_sync(begun.acquire)
                await tables.save_offsets()
                saved.set()
    finally:
        saved.set()
    assert (tmp_path / "config" / "consumerOffset.json").exists()


async def test_others_go_on_while_a_large_table_is_saved(
    tmp_path: Path, mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With steps that cost a turn each, another task runs between any two of them."""
    monkeypatch.setattr("rmqcli.broker.net.turns.TURN_SECONDS", 0)
    tables, _, _, offsets, _ = files(tmp_path)
    for number in range(10_000):
        offsets.commit(f"G{number}", "T", 0, number)
    rounds = 0

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            await trio.lowlevel.checkpoint()
            rounds += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_rounds)
        before = rounds
        offsets.commit("G0", "T", 1, 0)
        await tables.save_offsets()
        assert rounds - before >= 10_000 * 4 / PIECES_PER_STEP
        nursery.cancel_scope.cancel()
    saved = (tmp_path / "config" / "consumerOffset.json").read_bytes()
    assert saved == table_text(offsets.wrapper())


async def test_what_changes_while_a_table_is_saved_is_saved_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcli.broker.net.turns.TURN_SECONDS", 0)
    tables, _, _, offsets, _ = files(tmp_path)
    for number in range(1000):
        offsets.commit(f"G{number}", "T", 0, 1)

    def offsets_are_dirty() -> bool:
        return offsets.dirty

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tables.save_offsets)
        while offsets_are_dirty():
            await trio.lowlevel.checkpoint()
        offsets.commit("G0", "T", 0, 2)
        offsets.remove_group("G999")
    assert offsets_are_dirty()
    await tables.save_offsets()
    saved = (tmp_path / "config" / "consumerOffset.json").read_bytes()
    assert saved == table_text(offsets.wrapper())
    assert not offsets_are_dirty()


async def test_a_delivery_is_on_the_disk_before_it_is_counted(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power loss must not take a message that was waiting on the disk, and count it as delivered."""
    path, seen = tmp_path / "config" / "delayOffset.json", []
    async with fake_broker(
        tmp_path, flush_disk_type="SYNC_FLUSH", flush_delay_offset_interval=2000
    ) as broker:
        client, store = broker.client(), broker.context.store

        def watched(_disk: Disk, written: Path, text: bytes) -> None:
            if written == path:
                seen.append((text.count(b"1:1"), store.flushed_offset == store.commit_log_max_offset))

        monkeypatch.setattr("rmqcli.broker.services.table_files.save_table", watched)
        assert (await client.wait(client.post(310, send_header("T", {"DELAY": "1"}), b"x"))).code == 0
        await trio.sleep(3)
        assert seen == [(1, True)]


async def test_what_was_sent_back_is_on_the_disk_before_the_offset_behind_it(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "config" / "consumerOffset.json", []
    async with fake_broker(tmp_path, flush_disk_type="SYNC_FLUSH") as broker:
        client, store = broker.client(), broker.context.store
        sent = await client.wait(client.post(310, send_header("T"), b"x"))
        offset = str(int(sent.ext["msgId"][16:], 16))

        def watched(_disk: Disk, written: Path, text: bytes) -> None:
            if written == path:
                seen.append(store.flushed_offset == store.commit_log_max_offset)

        monkeypatch.setattr("rmqcli.broker.services.table_files.save_table", watched)
        await trio.sleep(4.9)
        assert (await client.ask(36, {"offset": offset, "group": "G", "delayLevel": "0"})).code == 0
        await client.ask(15, {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"})
        await trio.sleep(0.2)
        assert seen == [True]


async def test_at_the_stop_too_messages_are_on_the_disk_before_the_offset_behind_them(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    async with fake_broker(tmp_path) as broker:
        client, store = broker.client(), broker.context.store

        def watched(_disk: Disk, written: Path, text: bytes) -> None:
            seen.append((written.name, store.flushed_offset == store.commit_log_max_offset))

        await client.send("T", b"x")
        await client.ask(15, {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"})
        monkeypatch.setattr("rmqcli.broker.services.table_files.save_table", watched)
    assert ("consumerOffset.json", True) in seen


async def test_deliveries_that_cannot_be_put_on_the_disk_are_not_counted(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config" / "delayOffset.json"
    make_durable, refuses = MessageStore.make_durable, True

    async def failing(store: MessageStore) -> bool:
        await trio.lowlevel.checkpoint()
        return False if refuses else await make_durable(store)

    monkeypatch.setattr(MessageStore, "make_durable", failing)
    async with fake_broker(tmp_path, flush_delay_offset_interval=2000) as broker:
        await broker.client().send("T", properties={"DELAY": "1"})
        await trio.sleep(9)
        assert not path.exists()
        refuses = False
        await trio.sleep(2)
        assert b"1:1" in path.read_bytes()


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("garbage", [b"", b"garbage", b'{"topicConfigTable":[', b"\x00" * 300])
def test_a_damaged_table_is_read_from_its_bak(
    copy_java_store: Callable[[str], JavaStore], name: str, garbage: bytes
) -> None:
    root = copy_java_store("store-clean").root
    (root / "config" / name).write_bytes(garbage)
    tables, topics, groups, offsets, delays = files(root)
    tables.load(has_messages=True)
    assert "SeedTags" in topics
    assert "seed_group" in groups
    assert offsets.groups_of("SeedTags") or offsets.topics_of("seed_group")
    assert delays.levels()


@pytest.mark.parametrize("name", TABLES)
def test_a_table_with_a_damaged_name_is_read_from_its_bak(
    copy_java_store: Callable[[str], JavaStore], name: str
) -> None:
    """Without the name of its table the file would be an empty one; without another version it is refused."""
    root = copy_java_store("store-clean").root
    path = root / "config" / name
    path.write_bytes(path.read_bytes().replace(b'Table":', b'Tabme":'))
    tables, topics, groups, offsets, delays = files(root)
    tables.load(has_messages=True)
    assert "SeedTags" in topics and "seed_group" in groups
    assert offsets.groups_of("SeedTags") and delays.levels()
    path.with_name(f"{name}.bak").unlink()
    path.with_name(f"{name}.damaged").rename(path)
    with pytest.raises(StoreDamaged, match=f"{name}: no table"):
        files(root)[0].load(has_messages=True)


def test_an_empty_table_without_another_version_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "config").mkdir()
    path = tmp_path / "config" / "topics.json"
    path.touch()
    files(tmp_path)[0].load(has_messages=False)
    assert f"{path} is empty" in caplog.text


BLANKS = b"", b" \n", b"{}", b"\xef\xbb\xbf{ }\n"
WITHOUT_ENTRIES = {
    "topics.json": b'{"dataVersion":{"counter":3,"timestamp":1},"topicConfigTable":{}}',
    "subscriptionGroup.json": b'{"subscriptionGroupTable":{}}',
}
"""No broker writes them: each has topics and groups of its own."""


@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_holds_nothing_is_read_from_its_bak(
    copy_java_store: Callable[[str], JavaStore], name: str, blank: bytes
) -> None:
    root = copy_java_store("store-clean").root
    (root / "config" / name).write_bytes(WITHOUT_ENTRIES.get(name, blank) if blank == b"" else blank)
    tables, topics, groups, offsets, delays = files(root)
    tables.load(has_messages=True)
    assert "SeedTags" in topics and "seed_group" in groups
    assert offsets.groups_of("SeedTags") and delays.levels()


@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize("name", TABLES)
def test_an_empty_table_beside_messages_is_damage(
    copy_java_store: Callable[[str], JavaStore], name: str, blank: bytes
) -> None:
    """Without topics all messages are hidden; without offsets all groups begin again."""
    root = copy_java_store("store-clean").root
    path = root / "config" / name
    backup = path.with_name(f"{name}.bak")
    for content in (blank, WITHOUT_ENTRIES.get(name, b"")):
        path.write_bytes(content)
        backup.write_bytes(blank)
        with pytest.raises(StoreDamaged, match=f"{name}: it is empty, beside a log with messages.* move it"):
            files(root)[0].load(has_messages=True)
        assert (path.read_bytes(), backup.read_bytes()) == (content, blank)
    backup.unlink()
    with pytest.raises(StoreDamaged, match=f"{name}: it is empty"):
        files(root)[0].load(has_messages=True)
    path.unlink()
    files(root)[0].load(has_messages=True)


async def test_the_broker_looks_whether_there_are_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "topics.json").touch()
    async with fake_broker(tmp_path) as broker:
        assert (await broker.client().send("T")).code == 0
    for name in ("topics.json", "topics.json.bak"):
        (config / name).write_bytes(b"")
    with pytest.raises(StoreDamaged, match=r"topics\.json: it is empty"):
        async with fake_broker(tmp_path):
            raise AssertionError("it started")
    for path in config.glob("topics.json*"):
        path.unlink()
    async with fake_broker(tmp_path) as broker:
        assert broker.context.topics.get("T") is None
    assert "topics.json does not exist: nobody can read the messages" in caplog.text


@pytest.mark.parametrize("content", [*BLANKS, b"\x00" * 300, b"garbage"])
def test_filters_come_again_with_the_next_heartbeat(tmp_path: Path, content: bytes) -> None:
    """Java writes them every 10 s without a sync: a power cut takes both versions, and nothing is lost."""
    config = tmp_path / "config"
    config.mkdir()
    for name in ("consumerFilter.json", "consumerFilter.json.bak"):
        (config / name).write_bytes(content)
    files(tmp_path)[0].load(has_messages=True)


@pytest.mark.parametrize("name", TABLES)
def test_two_damaged_copies_stop_the_start(copy_java_store: Callable[[str], JavaStore], name: str) -> None:
    root = copy_java_store("store-clean").root
    for path in (root / "config" / name, root / "config" / f"{name}.bak"):
        path.write_bytes(b"garbage")
    with pytest.raises(StoreDamaged, match=name) as refused:
        files(root)[0].load(has_messages=True)
    assert f"{name}.bak" in str(refused.value)


async def test_a_full_disk_keeps_the_change_for_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tables, _, _, offsets, _ = files(tmp_path)
    offsets.commit("G", "T", 0, 1)

    def refuse(_disk: Disk, _path: Path, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("rmqcli.broker.services.table_files.save_table", refuse)
        tables.topics_changed()
        await tables.save_all()
        with pytest.raises(OSError, match="No space"):
            await tables.save_changed()
    assert caplog.text.count("No space left on device") == 2
    await tables.save_offsets()
    await tables.save_changed()
    assert (tmp_path / "config" / "consumerOffset.json").exists()
    assert (tmp_path / "config" / "topics.json").exists()


async def test_changes_of_properties_that_come_together_are_all_saved(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    tables = files(tmp_path, SlowDisk())[0]
    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(tables.update_properties, path, {f"name{number}": "x"})
    assert read_properties(path) == {f"name{number}": "x" for number in range(4)}
