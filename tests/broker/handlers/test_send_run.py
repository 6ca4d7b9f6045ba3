"""Sends that came together are answered and stored as the same sends one by one."""

from __future__ import annotations

import errno
import random
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec import structs

from rmqcli.broker.handlers import direct_readers, handler_table, run_table
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import Session
from rmqcli.broker.store import MessageStore
from rmqcli.broker.store.batches import PART_MESSAGES
from rmqcli.broker.store.segment import Segment
from rmqcli.broker.store.segment_list import SegmentList
from rmqcli.codec.bodies.config import TopicConfig
from rmqcli.codec.codes import RequestCode, ResponseCode, SerializeType
from rmqcli.codec.core.record_writer import QueueRun, Run
from rmqcli.codec.headers.base import Header, to_ext
from rmqcli.codec.headers.send import SendMessageRequestHeader
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import encode_batch
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import NO_DIRECT, encode_frame
from rmqcli.codec.remoting.signature import Signer
from tests.broker.serving import Wire
from tests.broker.support import START_MS, FakeBroker, fake_broker, pull_header, send_header

LAST = RemotingCommand(RequestCode.SEND_MESSAGE_V2, opaque=1 << 30)
PEER = ("10.0.0.7", 40000)


def frame(opaque: int, topic: str = "T", body: bytes = b"hello", *, flag: int = 0, **fields: Any) -> bytes:
    properties = fields.pop(
        "properties", {"UNIQ_KEY": f"{opaque:032X}", "WAIT": "true", "KEYS": f"k{opaque} all"}
    )
    kind = fields.pop("kind", SerializeType.JSON)
    code = fields.pop("code", RequestCode.SEND_MESSAGE_V2)
    header: Header = send_header(topic, properties, **fields)
    if code == RequestCode.SEND_MESSAGE:
        header = SendMessageRequestHeader(**structs.asdict(header))
    command = RemotingCommand(
        code, to_ext(header), body, opaque, flag, language=0, version=409, serialize_type=kind
    )
    return encode_frame(command)


async def answered(
    broker: FakeBroker, data: bytes, *, together: bool = True, sizes: Sequence[int] = ()
) -> list[RemotingCommand]:
    """The replies in the order of the requests; those that wait for the disk are overtaken.

    `sizes` are those of the first chunks. Apart, the general reader reads each request.
    """
    wire = Wire(data)
    ends = [0, *accumulate(sizes), len(data)]
    wire.incoming = [chunk for start, end in pairwise(ends) if (chunk := data[start:end])]
    wire.incoming += [encode_frame(LAST), b""]  # what is refused at once is sent with all before it
    runs = run_table(broker.context) if together else {}
    direct = direct_readers() if together else NO_DIRECT
    server = Server(handler_table(broker.context), batches=broker.context.store, direct=direct, runs=runs)
    await server.serve_transport(wire, PEER)
    replies = sorted(wire.replies(), key=lambda reply: reply.opaque)
    assert replies.pop().opaque == LAST.opaque
    return replies


BATCH = encode_batch([Message.of("T", "one"), Message.of("T", "two")])
KINDS: list[dict[str, Any]] = [
    {"properties": {"DELAY": "1", "UNIQ_KEY": "A" * 32}},
    {"properties": {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "B" * 32}},
    {"properties": {"TRAN_MSG": "true", "PGROUP": "P"}, "sys_flag": 4},
    {"properties": {"TIMER_DELAY_SEC": "5"}},
    {"properties": {"TIMER_DELIVER_MS": "9" * 13}},
    {"properties": {"CLUSTER": "told", "A": "b"}},
    {"properties": {"CLUSTER": "told", "A": "b" * 32750}},
    {"properties": {"A": "b" * 32760}},
    {"properties": {}},
    {"properties": {"TAGS": "x", "WAIT": "false", "n": "v"}},
    {"queue_id": 99},
    {"queue_id": -1},
    {"topic": "Nope", "default_topic": "Unknown"},
    {"topic": "Made"},
    {"topic": "%RETRY%G", "reconsume_times": 0, "queue_id": 0},
    {"topic": "%RETRY%G", "reconsume_times": 16, "queue_id": 0},
    {"topic": "SCHEDULE_TOPIC_XXXX"},
    {"topic": "ReadOnly"},
    {"topic": "Many"},
    {"body": BATCH, "batch": True},
    {"body": b"no batch", "batch": True},
    {"body": b""},
    {"body": bytes(5000)},
    {"flag": 2},
    {"sys_flag": 0x11},
]


def some_frames(seed: int) -> bytes:
    rng = random.Random(seed)
    frames = []
    kind, code = SerializeType.JSON, 310
    for opaque in range(400):
        fields = dict(KINDS[opaque // 4 % len(KINDS)]) if opaque % 4 == 0 else {}
        fields.setdefault("queue_id", rng.randrange(4))
        if opaque % 8 == 0:
            kind, code = rng.choice([*SerializeType]), rng.choice([10, 310, 310, 310])
        fields |= {"kind": kind, "code": code}
        frames.append(frame(opaque, **fields))
    return b"".join(frames)


async def left_behind(
    root: Path, data: bytes, *, together: bool, sizes: Sequence[int] = (), **settings: Any
) -> tuple[list[RemotingCommand], dict[str, bytes]]:
    async with fake_broker(root, lambda: START_MS, max_message_size=4096, **settings) as broker:
        context = broker.context
        context.topics.put(TopicConfig("ReadOnly", 4, 4, perm=4))
        many, _ = context.topics.ensure("Many", 4)
        context.topics.put(structs.replace(many, topic_filter_type="MULTI_TAG"))
        for topic, queue_id in (("T", 0), *(("Many", n) for n in range(4))):
            await broker.client().send(topic, queue_id=queue_id)
        replies = await answered(broker, data, together=together, sizes=sizes)
        rates = context.rates
        counted = (rates.put_messages, rates.put_bytes, rates.put_failures, rates.put_in_company)
        cells = {key: (cell.nums, cell.size, cell.times) for key, cell in context.statistics.puts.items()}
    names = ("commitlog", "consumequeue", "index")
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for name in names
        for path in (root / name).rglob("*")
        if path.is_file()
    }
    return replies, files | {"rates": repr((counted, cells)).encode()}


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("seed", range(4))
async def test_together_is_as_one_by_one(
    tmp_path: Path, seed: int, flush: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []
    make = MessageStore.__init__

    def counting(self: MessageStore, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        inner = self.writer.append_run

        def counted(run: Run, queues: Sequence[QueueRun]) -> None:
            inner(run, queues)
            runs.append(sum(len(stored.offsets) for stored in queues))

        self.writer.append_run = counted  # type: ignore[method-assign]

    monkeypatch.setattr(MessageStore, "__init__", counting)
    data = some_frames(seed)
    apart = await left_behind(tmp_path / "apart", data, together=False, flush_disk_type=flush)
    assert runs == []
    rng = random.Random(seed)
    sizes = [rng.choice((1, 500, 5000, 20000)) for _ in range(seed * 8)]
    together = await left_behind(
        tmp_path / "together", data, together=True, sizes=sizes, flush_disk_type=flush
    )
    assert sum(runs) > 200
    assert {reply.code for reply in apart[0]} >= {0, 1, 13, 16, 17}
    assert together[0] == apart[0]
    assert together[1].keys() == apart[1].keys()
    assert [name for name in apart[1] if together[1][name] != apart[1][name]] == []


async def test_a_synchronous_flush_is_waited_for(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, flush_disk_type="SYNC_FLUSH") as broker:
        broker.client().post(310, send_header("T"))
        await answered(broker, b"".join(frame(n) for n in range(8)))
        assert broker.context.rates.put_messages == 9
        assert broker.context.store.flushed_offset == broker.context.store.commit_log_max_offset


@pytest.mark.parametrize("sent", ["one", "run", "batch", "parts"])
async def test_a_flush_begins_before_the_task_that_waits_for_it(
    tmp_path: Path, sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {
        "one": frame(1),
        "run": b"".join(frame(n) for n in range(4)),
        "batch": frame(1, body=BATCH, batch=True),
        "parts": frame(1, body=encode_batch([Message.of("T", "x")] * (PART_MESSAGES + 1)), batch=True),
    }[sent]
    async with fake_broker(tmp_path, flush_disk_type="SYNC_FLUSH") as broker:
        await broker.client().send("T")
        store, seen = broker.context.store, []
        want, wait = store.want_flush, store.wait_flushed

        def wanted() -> None:
            seen.append("wanted")
            want()

        async def waited(end: int) -> bool:
            seen.append("waited for")
            return await wait(end)

        monkeypatch.setattr(store, "want_flush", wanted)
        monkeypatch.setattr(store, "wait_flushed", waited)
        replies = await answered(broker, data)
    assert {reply.code for reply in replies} == {ResponseCode.SUCCESS}
    assert seen[:2] == ["wanted", "waited for"]


@pytest.mark.parametrize("kind", SerializeType)
async def test_a_run_that_is_not_flushed_in_time(
    tmp_path: Path, kind: SerializeType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reply says so, as one that came alone; who asked for no wait has none."""

    async def never(_self: object, _end: int) -> bool:
        await trio.lowlevel.checkpoint()
        return False

    fields: dict[str, Any] = {"kind": kind}
    no_wait = {"UNIQ_KEY": "A" * 32, "WAIT": "False"}
    data = b"".join(frame(n, **fields) for n in range(4))
    data += frame(4, properties=no_wait, **fields) + b"".join(frame(n, **fields) for n in range(5, 9))
    found = []
    for together in (False, True):
        root = tmp_path / str(together)
        async with fake_broker(root, lambda: START_MS, flush_disk_type="SYNC_FLUSH") as broker:
            await broker.client().send("T")
            monkeypatch.setattr(broker.context.store, "wait_flushed", partial(never, None))
            found.append(await answered(broker, data, together=together))
    apart, together_ = found
    assert [reply.code for reply in apart] == [10, 10, 10, 10, 0, 10, 10, 10, 10]
    assert together_ == apart


@pytest.mark.parametrize(
    "settings", [{"broker_role": "SLAVE"}, {"start_accept_send_request_time_stamp": 1 << 60}]
)
async def test_a_broker_that_refuses_all_refuses_what_came_together(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    async with fake_broker(tmp_path) as broker:
        context = broker.context
        await broker.client().send("T")
        context.reconfigure(structs.replace(context.config, **settings))
        replies = await answered(broker, b"".join(frame(n) for n in range(4)))
    assert {reply.code for reply in replies} <= {
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
    }
    assert len(replies) == 4


async def test_a_held_pull_hears_of_a_run(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        await client.send("T")
        opaque = client.post(11, pull_header("T", 0, 1, sys_flag=6, suspend_ms=15000))
        assert client.replies(opaque) == []
        await answered(broker, b"".join(frame(n) for n in range(4)))
        assert (await client.wait(opaque)).code == ResponseCode.SUCCESS
        assert trio.current_time() < 1


async def test_a_topic_that_changed_is_looked_at_again(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        topics = broker.context.topics
        await answered(broker, b"".join(frame(n, queue_id=n % 4) for n in range(8)))
        known = topics.get("T")
        assert known is not None
        topics.put(structs.replace(known, read_queue_nums=2, write_queue_nums=2))
        replies = await answered(broker, b"".join(frame(n, queue_id=n) for n in range(4)))
        assert [reply.code for reply in replies] == [ResponseCode.SUCCESS] * 2 + [
            ResponseCode.SYSTEM_ERROR
        ] * 2


async def test_what_could_not_be_stored_whole_is_refused_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_broker(tmp_path) as broker:
        await broker.client().send("T")
        room = 6000 // 20 - 1

        def refuse(_segments: SegmentList, _start: int) -> Segment:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(SegmentList, "build", refuse)
        replies = await answered(broker, b"".join(frame(n) for n in range(room + 3)))
        assert [reply.code for reply in replies[:room]] == [ResponseCode.SUCCESS] * room
        assert [reply.code for reply in replies[room:]] == [ResponseCode.SYSTEM_ERROR] * 3
        rates = broker.context.rates
        assert (rates.put_messages, rates.put_failures) == (room + 1, 3)


async def test_signed_sends_are_stored_together(tmp_path: Path) -> None:
    """Without access control, a signature is read over, not in the slow way."""
    signer, frames = Signer("rocketmq2", "12345678"), []
    for opaque in range(8):
        command = RemotingCommand(310, to_ext(send_header("T", {"UNIQ_KEY": f"{opaque:032X}"})), b"x", opaque)
        signer.sign(command)
        frames.append(encode_frame(command))
    seen: list[int] = []

    def counted(session: Session, requests: Sequence[RemotingCommand]) -> int:
        seen.append(run(session, requests))
        return seen[-1]

    async with fake_broker(tmp_path) as broker:
        run = run_table(broker.context)[310]
        broker.context.topics.put(TopicConfig("T"))
        wire = Wire(b"".join(frames))
        handlers, store = handler_table(broker.context), broker.context.store
        server = Server(handlers, batches=store, direct=direct_readers(), runs={310: counted})
        await server.serve_transport(wire, PEER)
    assert [reply.code for reply in wire.replies()] == [0] * 8
    assert sum(seen) == 7  # all but the one that checks the topic first
