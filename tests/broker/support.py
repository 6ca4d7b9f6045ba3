"""A broker without sockets: its real store, tables and services, and clients that talk to its handlers in
memory.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import trio
import trio.testing

from rmqcli.broker.assembly import assemble
from rmqcli.broker.config import BrokerConfig
from rmqcli.broker.context import BrokerContext
from rmqcli.broker.disk.real import RealDisk
from rmqcli.broker.errors import NotReady, Refusal, RemoteTimeout
from rmqcli.broker.handlers import handler_table
from rmqcli.broker.net.dispatch import Handler, reply_behind
from rmqcli.broker.net.turns import Turns
from rmqcli.broker.node import listen_to_store, load_tables, save_state, start_services
from rmqcli.broker.services.delay import DelayService
from rmqcli.broker.store import AppendResult, MessageStore, StoreMessage, open_store
from rmqcli.broker.store.batches import Batch
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.supervisor import open_services
from rmqcli.broker.system import NowMs
from rmqcli.broker.testing.in_memory import RARE_FLUSHES
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.base import Header, to_ext
from rmqcli.codec.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rmqcli.codec.ids import pack_host
from rmqcli.codec.message import MessageExt
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.records.reading import decode_records
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import decode_frame, encode_frame, encode_frame_head
from rmqcli.codec.selector import parse_tags, tag_codes

T = TypeVar("T")

START_MS = 1_700_000_000_000
HOST = ("127.0.0.1", 10911)

OWN = {"CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
"""The properties that a broker adds to each message."""

SMALL_FILES: dict[str, Any] = {
    "broker_name": "broker-a",
    "mapped_file_size_commit_log": 4 << 20,
    "mapped_file_size_consume_queue": 6000,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
    # Most of the work of a broker that waits on a virtual clock would be to look whether it should flush.
    **RARE_FLUSHES,
}


def virtual_now() -> int:
    """The wall clock of tests: trio's clock, starting at START_MS."""
    return START_MS + round(trio.current_time() * 1000)


async def inline(function: Callable[..., Any], *args: Any, **_options: Any) -> Any:
    """Replaces worker threads, which a virtual clock would overtake."""
    await trio.lowlevel.checkpoint()
    return function(*args)


def done(steps: Generator[None, None, T]) -> T:
    """The result of all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


@dataclass(eq=False)
class FakeSession:
    """A connection as handlers see it. `answers`: request code → the reply of the peer."""

    nursery: trio.Nursery | None = None
    peer: tuple[str, int] = ("127.0.0.1", 40000)
    closed: bool = False
    server: str = "broker"
    in_batch: bool = False
    sent: list[tuple[RemotingCommand, bytes]] = field(default_factory=list)
    pushed: list[RemotingCommand] = field(default_factory=list)
    answers: dict[int, Callable[[RemotingCommand], RemotingCommand]] = field(default_factory=dict)
    callbacks: list[Callable[[], None]] = field(default_factory=list)
    news: trio.Event = field(default_factory=trio.Event)
    tasks: int = 0
    """The number of tasks that handlers started."""
    turns: Turns = field(default_factory=Turns)

    @property
    def packed_peer(self) -> bytes:
        return pack_host(*self.peer)

    @property
    def peer_text(self) -> str:
        return f"{self.peer[0]}:{self.peer[1]}"

    def send(self, command: RemotingCommand | bytes, views: Sequence[memoryview] = ()) -> None:
        if isinstance(command, bytes):
            command, views = decode_frame(b"".join((command, *views))[4:]), ()
        body = b"".join(views) if views else bytes(command.body)
        self.sent.append((command, body))
        self.news.set()
        self.news = trio.Event()

    def respond(
        self, request: RemotingCommand, reply: RemotingCommand | bytes, views: Sequence[memoryview] = ()
    ) -> None:
        if not request.is_oneway:
            self.send(reply, views)

    def oneway(self, command: RemotingCommand) -> None:
        self.pushed.append(command)

    async def request(self, command: RemotingCommand, timeout_s: float) -> RemotingCommand:
        self.pushed.append(command)
        if command.code not in self.answers:
            await trio.sleep(timeout_s)
            raise RemoteTimeout("no answer")
        return self.answers[command.code](command)

    def flush(self) -> None:
        """Does nothing: everything is sent at once."""

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: object) -> bool:
        assert self.nursery is not None
        self.tasks += 1
        self.nursery.start_soon(function, *args)
        return True

    def on_close(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def close(self) -> None:
        self.closed = True
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()


@dataclass(frozen=True)
class Reply:
    """A reply as a client reads it."""

    code: int
    remark: str | None
    ext: Mapping[str, str]
    body: bytes
    opaque: int


class Client:
    """One connection to the broker."""

    def __init__(self, broker: FakeBroker, port: int, *, version: int = 409, language: int = 0) -> None:
        self.broker = broker
        self.session = FakeSession(broker.nursery, ("127.0.0.1", port))
        self.version = version
        self.language = language
        self.is_behind = False
        """True when a task has the reply to the last request."""
        self._opaque = 0

    def post(
        self,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        flag: int = 0,
        then: Handler | None = None,
    ) -> int:
        """Sends a request and returns its opaque. `then` handles it in place of its handler."""
        self._opaque += then is None
        ext = to_ext(header) if isinstance(header, Header) else dict(header) if header is not None else None
        request = RemotingCommand(
            code, ext, body, self._opaque, flag, language=self.language, version=self.version
        )
        tasks = self.session.tasks
        try:
            reply = (then or self.broker.handlers[code])(self.session, request)  # type: ignore[arg-type]
        except Refusal as refusal:
            reply = request.reply(refusal.code, refusal.remark, refusal.ext_fields)
        barrier, self.broker.context.store.barrier = self.broker.context.store.barrier, None
        if reply is not None and barrier is not None:
            self.session.spawn(reply_behind, self.session, request, reply, barrier)
        elif reply is not None:
            self.session.respond(request, reply)
        self.is_behind = self.session.tasks > tasks
        return self._opaque

    def replies(self, opaque: int) -> list[Reply]:
        return [
            Reply(command.code, command.remark, command.ext_fields or {}, body, command.opaque)
            for command, body in self.session.sent
            if command.opaque == opaque
        ]

    async def ask(
        self, code: int, header: Header | Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        """Sends a request and returns its reply: at once, or after what its handler made it wait for."""
        opaque = await self.post_when_ready(code, header, body)
        if self.is_behind:
            await self.wait(opaque)
        replies = self.replies(opaque)
        assert len(replies) == 1, f"code {code}: {len(replies)} replies at once"
        return replies[0]

    async def wait(self, opaque: int) -> Reply:
        """Waits up to a minute for the reply to a request."""
        with trio.fail_after(60):
            while not self.replies(opaque):
                await self.session.news.wait()
        return self.replies(opaque)[0]

    async def post_when_ready(
        self, code: int, header: Header | Mapping[str, str] | None = None, body: bytes = b""
    ) -> int:
        """As `post`; a request that needs the disk is handled again."""
        then = None
        while True:
            try:
                return self.post(code, header, body, then=then)
            except NotReady as missing:
                await missing.ready()
                then = missing.then or then

    # what clients usually ask

    async def send(self, topic: str, body: bytes = b"hello", *, code: int = 310, **fields: Any) -> Reply:
        return await self.ask(code, send_header(topic, **fields), body)

    async def pull(self, topic: str, queue_id: int = 0, offset: int = 0, **fields: Any) -> Reply:
        return await self.ask(11, pull_header(topic, queue_id, offset, **fields))

    async def pulled(self, topic: str, queue_id: int = 0, offset: int = 0, **fields: Any) -> list[MessageExt]:
        reply = await self.pull(topic, queue_id, offset, **fields)
        return decode_records(reply.body) if reply.code == ResponseCode.SUCCESS else []

    async def heartbeat(
        self, group: str, *topics: str, expression: str = "*", version: int = 1, **fields: Any
    ) -> Reply:
        data = HeartbeatData(
            client_id=f"client-{self.session.peer[1]}",
            consumer_data_set=[
                ConsumerData(
                    group_name=group,
                    subscription_data_set=[subscription(topic, expression, version) for topic in topics],
                    **fields,
                )
            ],
        )
        return await self.ask(34, None, encode_body(data))


def written(client: Client, reply: RemotingCommand | bytes | None) -> bytes:
    """The frame of a reply, however it is sent."""
    if reply is None:
        command, body = client.session.sent[-1]
        return encode_frame_head(command, len(body)) + body
    return reply if isinstance(reply, bytes) else encode_frame(reply)


def long_header(header: SendMessageRequestHeaderV2) -> SendMessageRequestHeader:
    """The same values under the long wire names."""
    return SendMessageRequestHeader(**msgspec.structs.asdict(header))


def send_header(
    topic: str, properties: Mapping[str, str] | None = None, **fields: Any
) -> SendMessageRequestHeaderV2:
    values: dict[str, Any] = {
        "producer_group": "P",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": START_MS,
        "flag": 0,
        **fields,
    }
    return SendMessageRequestHeaderV2(
        topic=topic, properties=encode_properties(properties or {}).decode(), **values
    )


def pull_header(
    topic: str,
    queue_id: int = 0,
    offset: int = 0,
    *,
    group: str = "G",
    sys_flag: int = 4,
    expression: str = "*",
    suspend_ms: int = 0,
    count: int = 32,
    **fields: Any,
) -> dict[str, str]:
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(count),
        "sysFlag": str(sys_flag),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(suspend_ms),
        "subscription": expression,
        "subVersion": "0",
        "expressionType": "TAG",
        **{name: str(value) for name, value in fields.items()},
    }


def subscription(topic: str, expression: str = "*", version: int = 1) -> SubscriptionData:
    tags = parse_tags(expression)
    return SubscriptionData(
        topic=topic,
        sub_string=expression,
        tags_set=sorted(tags),
        code_set=sorted(tag_codes(tags)),
        sub_version=version,
    )


class SlowDisk(RealDisk):
    """The disk of this machine with slow writes, so that worker threads meet."""

    def write(self, path: Path, content: bytes, mode: int | None = None) -> None:
        super().write(path, content)
        time.sleep(0.05)


class SlowPuts:
    """Makes every put of a store need the disk first; `stored` are topic, body and properties of each.

    AssertionError when something is stored twice: a request is handled again after NotReady, which must not
    be raised once a put of it has stored something.
    """

    def __init__(self, store: MessageStore) -> None:
        self.stored: list[tuple[str, bytes, bytes]] = []
        self._is_ready = False
        setattr(store.writer, "append", partial(self._put, store.writer.append))  # noqa: B010  # mypy forbids to assign to a method
        setattr(store.writer, "append_batch", partial(self._put, store.writer.append_batch))  # noqa: B010

    def _put(self, put: Callable[[Any], AppendResult], stored: StoreMessage | Batch) -> AppendResult:
        if not self._is_ready:
            raise NotReady(self._ready)
        self._is_ready = False
        message = stored.message if isinstance(stored, Batch) else stored
        told = message.topic, bytes(message.body), message.properties_text
        assert told not in self.stored, "stored twice"
        result = put(stored)
        self.stored.append(told)
        return result

    async def _ready(self) -> None:
        self._is_ready = True


class FakeBroker:
    """The context of a broker and its handlers."""

    def __init__(self, context: BrokerContext, nursery: trio.Nursery) -> None:
        self.context = context
        self.nursery = nursery
        self.handlers = handler_table(context)
        self._ports = iter(range(40000, 65000))

    def client(self, **options: Any) -> Client:
        return Client(self, next(self._ports), **options)


@asynccontextmanager
async def fake_broker(
    root: Path, now_ms: NowMs = virtual_now, /, **settings: Any
) -> AsyncIterator[FakeBroker]:
    """A broker over the store folder `root`, on trio's clock, until the block ends (a clean stop)."""
    config = BrokerConfig(**{**SMALL_FILES, **settings, "store_path_root_dir": str(root)})
    store_host = pack_host(*HOST)
    async with open_store(
        StoreConfig.of(config), now_ms=now_ms, store_host=store_host, in_thread=inline
    ) as store:
        address = f"{HOST[0]}:{HOST[1]}"
        context, _ = assemble(config, address, store_host, now_ms, random.Random(7), store, inline)
        delays = DelayService(context)
        load_tables(context, context.pops.revival.steady_ms())
        listen_to_store(context, delays)
        async with open_services() as services:
            start_services(context, delays, services)
            yield FakeBroker(context, services.nursery)
        await save_state(context)
