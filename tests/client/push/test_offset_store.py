"""Offset stores: the file of a broadcasting client in Java's format, and the commits of clustering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.client import ClientInstance
from rmqcli.client.group.offset_store import (
    LocalFileOffsetStore,
    OffsetFileDamaged,
    OffsetFileUnwritable,
    offsets_file,
)
from rmqcli.codec.bodies.heartbeat import MessageModel
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.message_queue import MessageQueue
from tests.client.push.consuming import GROUP, TOPIC, Taken, consumer
from tests.client.watched_cluster import NAMESRV, WatchedCluster, now_ms, open_cluster

QUEUE = MessageQueue("T", "b", 1)
WRITTEN_BY_JAVA = (
    '{\n\t"offsetTable":{{\n\t\t\t"brokerName":"b",\n\t\t\t"queueId":1,\n\t\t\t"topic":"T"\n\t\t}:3\n\t}\n}'
)


def temporary_files(folder: Path) -> list[Path]:
    return list(folder.glob("*.tmp"))


def folders(path: Path) -> list[str]:
    return [folder.name for folder in path.iterdir()]


def test_where_java_looks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    path = offsets_file(None, "10.0.0.1@DEFAULT", "G")
    assert path == Path("/home/somebody/.rocketmq_offsets/10.0.0.1@DEFAULT/G/offsets.json")


async def test_a_file_that_java_wrote_is_read_and_written_alike(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(WRITTEN_BY_JAVA)
    store = LocalFileOffsetStore(path)
    await store.load()
    assert await store.read(QUEUE) == 3
    store.update(QUEUE, 4)
    await store.persist([QUEUE])
    assert path.read_text() == WRITTEN_BY_JAVA.replace(":3", ":4")
    assert (tmp_path / "offsets.json.bak").read_text() == WRITTEN_BY_JAVA
    assert not temporary_files(tmp_path)


async def test_the_backup_helps_when_the_file_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text("{")
    (tmp_path / "offsets.json.bak").write_text(WRITTEN_BY_JAVA)
    store = LocalFileOffsetStore(path)
    await store.load()
    assert await store.read(QUEUE) == 3
    (tmp_path / "offsets.json.bak").write_text("")
    with pytest.raises(OffsetFileDamaged):
        await LocalFileOffsetStore(path).load()


async def test_members_on_one_machine_write_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"

    async def member() -> None:
        store = LocalFileOffsetStore(path)
        for offset in range(1, 40):
            await LocalFileOffsetStore(path).load()
            store.update(QUEUE, offset)
            await store.persist([QUEUE])

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(member)
    store = LocalFileOffsetStore(path)
    await store.load()
    assert await store.read(QUEUE) == 39
    assert not temporary_files(tmp_path)


async def test_members_that_consume_other_topics_keep_each_others_offsets(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    one, other = LocalFileOffsetStore(path), LocalFileOffsetStore(path)
    theirs = MessageQueue("U", "b", 0)
    for store in (one, other):
        await store.load()
    for offset in (5, 6):
        one.update(QUEUE, offset)
        await one.persist([QUEUE])
        other.update(theirs, offset + 2)
        await other.persist([theirs])
    one.update(QUEUE, 3, increase_only=False)
    await one.persist([QUEUE])
    again = LocalFileOffsetStore(path)
    await again.load()
    assert (await again.read(QUEUE), await again.read(theirs)) == (3, 8)


async def test_a_file_damaged_meanwhile_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(WRITTEN_BY_JAVA)
    store = LocalFileOffsetStore(path)
    await store.load()
    for damaged in (path, tmp_path / "offsets.json.bak"):
        damaged.write_text("{")
    theirs = MessageQueue("U", "b", 0)
    store.update(theirs, 1)
    await store.persist([theirs])
    again = LocalFileOffsetStore(path)
    await again.load()
    assert (await again.read(QUEUE), await again.read(theirs)) == (3, 1)


async def test_a_file_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "group"
    store = LocalFileOffsetStore(folder / "offsets.json")
    folder.write_text("in the way")
    store.update(QUEUE, 1)
    with pytest.raises(OffsetFileUnwritable, match=r"cannot be written to .*offsets\.json: "):
        await store.persist([QUEUE])
    folder.unlink()
    await store.persist([QUEUE])
    assert store.path.exists()


async def test_a_queue_is_given_up_though_its_offset_cannot_be_written(
    cluster: WatchedCluster, autojump_clock: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    taken, folder = Taken(), tmp_path / "offsets"
    async with consumer(
        cluster, taken, message_model=MessageModel.BROADCASTING, offsets_folder=folder
    ) as member:
        cluster.put(cluster.queue(TOPIC, 3), b"x")
        await trio.sleep(1)
        folder.write_text("in the way")
        cluster.create_topic(TOPIC, 3)
        await trio.sleep(70)
        assert [queue.queue_id for queue in member.queues] == [0, 1, 2]
        cluster.put(cluster.queue(TOPIC, 0), b"y")
        await trio.sleep(1)
    assert taken.bodies == [b"x", b"y"]
    assert "cannot be written to" in caplog.text


async def test_a_file_that_comes_while_it_is_looked_for_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "offsets.json"
    read = Path.read_bytes

    def late(self: Path) -> bytes:
        try:
            return read(self)
        finally:
            path.write_text(WRITTEN_BY_JAVA)

    monkeypatch.setattr(Path, "read_bytes", late)
    await LocalFileOffsetStore(path).load()


async def test_without_a_file_there_are_no_offsets(tmp_path: Path) -> None:
    store = LocalFileOffsetStore(tmp_path / "new" / "offsets.json")
    await store.load()
    assert await store.read(QUEUE) is None
    store.update(QUEUE, 1)
    await store.persist([])
    assert store.path.exists()


async def test_offsets_only_increase_unless_forced(tmp_path: Path) -> None:
    store = LocalFileOffsetStore(tmp_path / "offsets.json")
    for offset in (5, 3, 5):
        store.update(QUEUE, offset)
    assert store.memory(QUEUE) == 5
    store.update(QUEUE, 2, increase_only=False)
    assert store.table("T") == {QUEUE: 2}


async def test_clustering_sends_changed_offsets_within_5_s_and_all_each_minute(
    cluster: WatchedCluster, autojump_clock: Any
) -> None:
    async with consumer(cluster, Taken()):
        await trio.sleep(4)
        cluster.put(cluster.queue(TOPIC, 1), b"x")
        await trio.sleep(2)
        assert cluster.committed(GROUP, TOPIC)[1] == 1
        await trio.sleep(116)
        sent = [fields["queueId"] for fields in cluster.fields(RequestCode.UPDATE_CONSUMER_OFFSET)]
        assert sent.count("1") == 3
    assert cluster.commits[-1][2] in (0, 1)


async def test_a_broker_away_does_not_keep_offsets_from_another(autojump_clock: Any) -> None:
    away = False
    async with open_cluster({TOPIC: 1}, ["a", "b"]) as cluster:
        reachable = cluster.open_stream

        async def open_stream(host: str, port: int) -> Any:
            if away and cluster.nodes["a"].address == f"{host}:{port}":
                raise ConnectionRefusedError(111, "Connection refused")
            return await reachable(host, port)

        cluster.open_stream = open_stream
        async with consumer(cluster, taken := Taken()):
            await trio.sleep(1)
            for broker in "ab":
                cluster.put(MessageQueue(TOPIC, broker, 0), b"x")
            await trio.sleep(0.1)
            assert len(taken.messages) == 2
            away = True
            cluster.cut()
            await trio.sleep(5)
            sent = [f for f in cluster.fields(RequestCode.UPDATE_CONSUMER_OFFSET) if f["topic"] == TOPIC]
            assert [(fields["bname"], fields["commitOffset"]) for fields in sent] == [("b", "1")]


async def test_broadcasting_in_a_shared_instance_resumes_too(
    cluster: WatchedCluster, autojump_clock: Any, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"message_model": MessageModel.BROADCASTING, "offsets_folder": tmp_path}
    for round_number in range(2):
        cluster.put(cluster.queue(TOPIC), b"%d" % round_number)
        taken = Taken()
        async with (
            ClientInstance(NAMESRV, open_stream=cluster.open_stream, now_ms=now_ms) as instance,
            consumer(cluster, taken, instance=instance, **options),
        ):
            await trio.sleep(7)
        assert taken.bodies == [b"%d" % round_number]
    assert folders(tmp_path)[0].endswith("@DEFAULT")


async def test_a_broadcasting_consumer_resumes_from_its_file(
    cluster: WatchedCluster, autojump_clock: Any, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"message_model": MessageModel.BROADCASTING, "offsets_folder": tmp_path}
    for round_number in range(3):
        cluster.put(cluster.queue(TOPIC), b"%d" % round_number)
        taken = Taken()
        async with consumer(cluster, taken, **options):
            await trio.sleep(7)
        assert taken.bodies == [b"%d" % round_number]
