"""HTTP/2 of the gRPC front: calls of every shape over in-memory streams, and what hostile clients cost."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence

import h2.errors
import h2.settings
import pytest
import trio
import trio.testing
from hyperframe.frame import GoAwayFrame
from trio.testing import MockClock

from rmqcli.broker.net.turns import Pace, Turns
from rmqcli.broker.proxy import http2
from rmqcli.broker.proxy.http2 import (
    MOST_GRANTS,
    MOST_RESETS,
    NONE_TOGETHER,
    STALLED_SECONDS,
    TASKS_AT_ONCE,
    Call,
    Http2Session,
    Together,
)
from rmqcli.broker.proxy.server import PING_SECONDS, GrpcServer
from rmqcli.codec.proxy.framing import MAX_MESSAGE, GrpcStatus, prefixed
from rmqcli.codec.proxy.http2 import MOST_STREAMS
from tests.broker.proxy.grpc_client import GrpcClient

GOAWAY = GoAwayFrame(0, last_stream_id=0).serialize()


async def serve(call: Call) -> None:
    """Echo the first message, or all of them, or be slow, or fail: by the path."""
    if call.path in {"/echo", "/together"}:
        await call.send(await call.receive() or b"nothing")
    elif call.path == "/chat":
        await call.begin()
        while (message := await call.receive()) is not None:
            await call.send(message)
    elif call.path == "/many":
        size = int(await call.receive() or b"0")
        for _ in range(8):
            await call.send(bytes(size))
    elif call.path == "/slow":
        await http2.in_task()
        await trio.sleep(3600)
    else:
        raise ZeroDivisionError


class Served:
    def __init__(self, nursery: trio.Nursery, *, together: Together = NONE_TOGETHER) -> None:
        self.nursery = nursery
        self.server = GrpcServer(serve, together=together)

    async def start(self) -> Served:
        await self.nursery.start(self.server.serve)
        return self

    async def raw(self) -> trio.abc.Stream:
        near, far = trio.testing.memory_stream_pair()
        await self.server.adopt(far, ("127.0.0.1", 40_000))
        return near

    async def connect(self) -> GrpcClient:
        client: GrpcClient = await self.nursery.start(GrpcClient(await self.raw()).run)
        await client.settings.wait()
        return client

    def session(self) -> Http2Session:
        (session,) = self.server.sessions
        assert isinstance(session, Http2Session)
        return session


@pytest.fixture
async def served(nursery: trio.Nursery) -> Served:
    return await Served(nursery).start()


async def closed(stream: trio.abc.Stream) -> bool:
    with trio.move_on_after(1000):
        try:
            while await stream.receive_some(65536):
                pass
        except trio.BrokenResourceError:
            pass
        return True
    return False


async def test_a_client_that_leaves_first_ends_its_streams(served: Served, autojump_clock: MockClock) -> None:
    """The client of Node says GOAWAY, and ends its stream in the next frame."""
    client = await served.connect()
    stream = client.open("/chat")
    await client.flush()
    await client.send(stream, b"last")
    assert await client.message(stream) == b"last"
    client.h2.end_stream(stream)
    await client.flush(before=GOAWAY)
    answer = await client.end(stream)
    assert (answer.status, answer.reset, client.goodbye) == (0, None, None)
    await client.stream.aclose()
    await trio.testing.wait_all_tasks_blocked()
    assert not served.server.sessions


async def test_a_client_that_leaves_without_a_call_is_disconnected(
    served: Served, autojump_clock: MockClock
) -> None:
    client = await served.connect()
    await client.flush(before=GOAWAY)
    with trio.fail_after(1):
        await client.is_closed.wait()


@pytest.mark.parametrize("size", [0, 1, 65_530, 65_531, 65_536, 200_000, MAX_MESSAGE])
async def test_a_message_of_any_size_comes_back(served: Served, autojump_clock: MockClock, size: int) -> None:
    client = await served.connect()
    message = bytes(range(256)) * (size // 256) + bytes(size % 256)
    answer = await client.ask("/echo", message)
    assert (answer.next(), answer.status, answer.headers["content-type"]) == (
        message or b"nothing",
        0,
        "application/grpc",
    )
    assert answer.headers[":status"] == "200"
    assert not served.session().calls and not len(served.server._grants)


async def test_messages_of_a_stream_come_in_order_and_its_headers_at_once(
    served: Served, autojump_clock: MockClock
) -> None:
    client = await served.connect()
    stream = client.open("/chat")
    await client.flush()
    await trio.testing.wait_all_tasks_blocked()
    assert client.answers[stream].headers[":status"] == "200"
    for n in range(300):
        await client.send(stream, bytes([n % 256]) * 1000)
        assert await client.message(stream) == bytes([n % 256]) * 1000
    await trio.sleep(STALLED_SECONDS * 4)
    await client.send(stream, b"late", end=True)
    assert await client.message(stream) == b"late"
    assert (await client.end(stream)).status == 0


async def test_several_messages_in_one_frame_and_one_in_many(
    served: Served, autojump_clock: MockClock
) -> None:
    client = await served.connect()
    stream = client.open("/chat")
    data = prefixed(b"one") + prefixed(b"") + prefixed(b"three")
    client.h2.send_data(stream, data[:11])
    for byte in data[11:]:
        client.h2.send_data(stream, bytes([byte]), pad_length=3)
    await client.flush()
    assert [await client.message(stream) for _ in range(3)] == [b"one", b"", b"three"]


async def test_a_long_answer_waits_for_the_windows_of_the_client(
    served: Served, autojump_clock: MockClock
) -> None:
    client = await served.connect()
    stream = client.open("/many")
    await client.send(stream, b"300000", end=True)
    assert [len(await client.message(stream) or b"") for _ in range(8)] == [300_000] * 8
    assert (await client.end(stream)).status == 0


async def test_what_comes_before_the_task_of_a_call_begins_is_not_overlooked(
    served: Served, autojump_clock: MockClock
) -> None:
    client = await served.connect()
    session, pace = served.session(), Pace(Turns())
    client.reads = False
    client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    first, second = client.open("/echo"), client.open("/many")
    client.h2.send_data(second, prefixed(b"100000"), end_stream=True)
    await session.feed(client.h2.data_to_send(), pace)  # the first has no request yet, the second no window
    client.h2.send_data(first, prefixed(b"request"), end_stream=True)
    for stream in (None, first, second):
        client.h2.increment_flow_control_window(1_000_000, stream)
    await session.feed(client.h2.data_to_send(), pace)
    assert await client.message(first) == b"request"
    assert [len(await client.message(second) or b"") for _ in range(8)] == [100_000] * 8
    assert trio.current_time() < STALLED_SECONDS


@pytest.mark.parametrize(
    ("headers", "message", "status"),
    [
        ([("grpc-timeout", "50m")], b"", GrpcStatus.DEADLINE_EXCEEDED),
        ([("grpc-timeout", "1892160M")], b"x", None),
        ([("grpc-timeout", "12345678H")], b"x", None),
        ([("grpc-timeout", "soon")], b"", GrpcStatus.INTERNAL),
    ],
)
async def test_deadlines(
    served: Served,
    autojump_clock: MockClock,
    headers: list[tuple[str, str]],
    message: bytes,
    status: GrpcStatus | None,
) -> None:
    client = await served.connect()
    began = trio.current_time()
    if status is None:
        assert (await client.ask("/echo", message, headers)).status == 0
        return
    answer = await client.ask("/slow", message, headers)
    assert answer.status == status
    assert trio.current_time() - began < 0.1


async def test_an_error_ends_its_call_only(served: Served, autojump_clock: MockClock) -> None:
    client = await served.connect()
    answer = await client.ask("/fails", b"")
    assert (answer.status, answer.headers["grpc-message"]) == (13, "the call failed in the server")
    assert (await client.ask("/echo", b"still there")).next() == b"still there"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\1\0\0\0\1x", GrpcStatus.UNIMPLEMENTED),
        (b"\0" + (MAX_MESSAGE + 1).to_bytes(4, "big"), GrpcStatus.RESOURCE_EXHAUSTED),
        (b"\0\0\0\0\5abc", GrpcStatus.INTERNAL),
        (b"\0\0", GrpcStatus.INTERNAL),
    ],
)
async def test_a_message_that_cannot_be(
    served: Served, autojump_clock: MockClock, data: bytes, status: GrpcStatus
) -> None:
    client = await served.connect()
    stream = client.open("/echo")
    client.h2.send_data(stream, data, end_stream=True)
    await client.flush()
    assert (await client.end(stream)).status == status
    assert (await client.ask("/echo", b"still there")).next() == b"still there"


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({":method": "GET"}, "405"),
        ({"content-type": None}, "415"),
        ({"content-type": "application/grpc-web"}, "415"),
        ({"content-type": "application/json"}, "415"),
        ({"content-type": "application/grpc+proto"}, "200"),
        ({"content-type": "Application/gRPC; charset=utf-8"}, "200"),
    ],
)
@pytest.mark.parametrize("path", ["/echo", "/together"])
async def test_a_request_that_is_no_call_has_an_http_status(
    nursery: trio.Nursery, autojump_clock: MockClock, path: str, changed: dict[str, str | None], status: str
) -> None:
    def answer(calls: Sequence[Call]) -> int:
        return sum(call.answer(b"whole") for call in calls)

    served = await Served(nursery, together=Together("/together", answer)).start()
    client = await served.connect()
    client.headers |= changed
    for is_whole in (True, False):
        stream = client.open(path, end=is_whole)
        await client.flush()
        if not is_whole and status == "200":
            await client.send(stream, b"", end=True)
        refused = await client.end(stream)
        assert refused.headers[":status"] == status
        assert refused.status == (GrpcStatus.OK if status == "200" else GrpcStatus.INTERNAL)
    client.headers |= dict.fromkeys(changed, "application/grpc") | {":method": "POST"}
    assert (await client.ask("/echo", b"still there")).next() == b"still there"


async def test_a_reset_cancels_the_call(served: Served, autojump_clock: MockClock) -> None:
    client = await served.connect()
    stream = client.open("/slow", end=True)
    await client.flush()
    await trio.testing.wait_all_tasks_blocked()
    assert len(served.session().calls) == 1
    client.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
    await client.flush()
    await trio.testing.wait_all_tasks_blocked()
    assert not served.session().calls


# Hostile clients


async def test_a_reset_flood_ends_the_connection(served: Served, autojump_clock: MockClock) -> None:
    client, neighbour = await served.connect(), await served.connect()
    for _ in range(MOST_RESETS + 1):
        stream = client.open("/slow", end=True)
        client.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        await client.flush()
    await client.is_closed.wait()
    assert (await neighbour.ask("/echo", b"fine")).next() == b"fine"


async def test_resets_at_a_human_pace_do_not(served: Served, autojump_clock: MockClock) -> None:
    client = await served.connect()
    for _ in range(MOST_RESETS * 2):
        stream = client.open("/slow", end=True)
        client.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        await client.flush()
        await trio.sleep(0.5)
    assert (await client.ask("/echo", b"fine")).next() == b"fine"


@pytest.mark.parametrize("kind", ["ping", "settings", "empty data", "priority"])
async def test_floods_of_frames_that_carry_nothing_end_the_connection(
    served: Served, autojump_clock: MockClock, kind: str
) -> None:
    client = await served.connect()
    stream = client.open("/chat")
    for n in range(3000):
        if kind == "ping":
            client.h2.ping(b"12345678")
        elif kind == "settings":
            client.h2.update_settings({4: 65_535 + n})
        elif kind == "empty data":
            client.h2.send_data(stream, b"")
        else:
            client.h2.prioritize(stream, weight=n % 256 + 1)
        try:
            await client.flush()
        except trio.BrokenResourceError:
            break
    await client.is_closed.wait()


async def test_more_streams_than_allowed_end_the_connection(
    served: Served, autojump_clock: MockClock
) -> None:
    client, neighbour = await served.connect(), await served.connect()
    client.h2.remote_settings[3] = 10_000  # it knows the limit, and ignores it
    client.h2.remote_settings.acknowledge()
    for _ in range(MOST_STREAMS + 1):
        client.open("/slow", end=True)
    await client.flush()
    await client.is_closed.wait()
    assert (await neighbour.ask("/echo", b"fine")).next() == b"fine"


HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")


def frame(kind: int, flags: int, stream: int, payload: bytes, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return size.to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\0\0\0\x20\0\0\0\x18" + b'{"code":105,"version":0}',
        HELLO + frame(0, 0, 0, b"x"),
        HELLO + frame(1, 4, 2, b"\x82"),
        HELLO + frame(1, 4, 1, b"\xff" * 50),
        HELLO + frame(0, 0, 1, b"", length=2**24 - 1),
        HELLO + frame(1, 0, 1, b"\x82") + frame(9, 0, 1, b"\x40\1a\1b") * 100,
        HELLO + frame(1, 4, 1, b"\x40\1a\x7f\x81\x7f" + b"b" * 16_000 + b"\xbe" * 100),
        HELLO + frame(3, 0, 7, b"\0\0\0\0"),
        HELLO + frame(8, 0, 0, b"\0\0\0\0"),
        HELLO + frame(8, 0, 0, b"\x7f\xff\xff\xff"),
        HELLO + frame(4, 0, 0, b"\0\0\0\0\0"),
        HELLO + frame(5, 4, 1, b"\0\0\0\2\x82"),
    ],
    ids=range(13),
)
async def test_bytes_that_are_not_of_the_protocol_end_the_connection(
    served: Served, autojump_clock: MockClock, data: bytes
) -> None:
    stream = await served.raw()
    neighbour = await served.connect()
    began = trio.current_time()
    await stream.send_all(data)
    assert await closed(stream)
    assert trio.current_time() == began
    assert (await neighbour.ask("/echo", b"fine")).next() == b"fine"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HELLO[:10],
        HELLO + b"\0\0",
        HELLO + frame(0, 0, 1, b"", length=100),
        HELLO + frame(1, 0, 1, b"\x82"),
    ],
)
async def test_a_client_that_stops_halfway_is_disconnected(
    served: Served, autojump_clock: MockClock, data: bytes
) -> None:
    stream = await served.raw()
    began = trio.current_time()
    await stream.send_all(data)
    assert await closed(stream)
    assert STALLED_SECONDS <= trio.current_time() - began <= 130


async def test_half_a_message_ends_the_connection(served: Served, autojump_clock: MockClock) -> None:
    client = await served.connect()
    stream = client.open("/chat")
    client.h2.send_data(stream, prefixed(b"hello")[:7])
    await client.flush()
    with trio.fail_after(STALLED_SECONDS + 1):
        await client.is_closed.wait()


async def test_a_client_that_opens_no_window_is_disconnected(
    served: Served, autojump_clock: MockClock
) -> None:
    client = await served.connect()
    client.reads = False
    stream = client.open("/many")
    await client.send(stream, b"300000", end=True)
    began = trio.current_time()
    with trio.fail_after(1000):
        await client.is_closed.wait()
    assert trio.current_time() - began == pytest.approx(STALLED_SECONDS)


async def test_long_messages_need_a_grant_and_the_slowest_yields(
    served: Served, autojump_clock: MockClock
) -> None:
    """Each stream alone can keep 64 KiB; the longer ones are few, on a connection and in all."""
    clients = [await served.connect() for _ in range(MOST_GRANTS)]
    for client in clients:
        stream = client.open("/echo")
        client.h2.send_data(stream, b"\0" + (1_000_000).to_bytes(4, "big"))
        client.h2.send_data(stream, bytes(16_000))
        await client.flush()
        await trio.sleep(0.1)
    assert len(served.server._grants) == MOST_GRANTS
    client = await served.connect()
    assert (await client.ask("/echo", bytes(1_000_000))).status == 0
    assert clients[0].is_closed.is_set()
    assert not any(one.is_closed.is_set() for one in clients[1:])


class Rounds(trio.abc.Instrument):
    """Counts the steps of tasks in each round of the loop."""

    def __init__(self) -> None:
        self.most = self.steps = 0

    def before_io_wait(self, timeout: float) -> None:
        self.most, self.steps = max(self.most, self.steps), 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1


async def test_calls_begin_a_few_at_a_time(served: Served, autojump_clock: MockClock) -> None:
    """Their tasks run in one round of the loop, in which nobody else is served."""
    client = await served.connect()
    for _ in range(MOST_STREAMS):
        client.open("/slow")
    rounds = Rounds()
    trio.lowlevel.add_instrument(rounds)
    await client.flush()
    await trio.testing.wait_all_tasks_blocked()
    trio.lowlevel.remove_instrument(rounds)
    assert len(served.session().calls) == MOST_STREAMS
    assert TASKS_AT_ONCE <= rounds.most < 2 * TASKS_AT_ONCE


async def test_stalled_connections_end_one_after_the_other(served: Served, autojump_clock: MockClock) -> None:
    clients = [await served.connect() for _ in range(10)]
    for client in clients:
        for _ in range(20):
            client.open("/chat", end=False)
            client.h2.send_data(client.h2.highest_outbound_stream_id, b"\0")
        await client.flush()
    await trio.sleep(STALLED_SECONDS - 1)
    assert len(served.server.sessions) == 10 and len(served.server._stalls) == 200
    rounds = Rounds()
    trio.lowlevel.add_instrument(rounds)
    await trio.sleep(1.1)
    trio.lowlevel.remove_instrument(rounds)
    assert not served.server.sessions and not len(served.server._stalls)
    assert rounds.most < 60


async def test_too_many_stalled_calls_end_the_first_connection(
    served: Served, autojump_clock: MockClock
) -> None:
    served.server._stalls.most = 30
    clients = [await served.connect() for _ in range(2)]
    for client in clients:
        for _ in range(20):
            client.open("/echo")
        await client.flush()
        await trio.testing.wait_all_tasks_blocked()
    assert clients[0].is_closed.is_set() and not clients[1].is_closed.is_set()
    assert len(served.server._stalls) == 20


async def test_what_one_connection_can_keep_in_memory(served: Served, autojump_clock: MockClock) -> None:
    client = await served.connect()
    streams = [client.open("/echo") for _ in range(MOST_STREAMS)]
    for stream in streams:
        client.h2.send_data(stream, b"\0" + (4_000_000).to_bytes(4, "big"))
        for size in (16_384, 16_384, 16_384, 16_379):
            client.h2.send_data(stream, bytes(size))
        await client.flush()
    await trio.testing.wait_all_tasks_blocked()
    windows = sum(client.h2.local_flow_control_window(stream) > 0 for stream in streams)
    assert windows == http2.GRANTS_OF_CONNECTION


async def test_a_peer_that_is_gone_is_noticed(served: Served, autojump_clock: MockClock) -> None:
    stream = await served.raw()
    client = GrpcClient(stream)
    client.h2.initiate_connection()
    client.open("/slow", end=True)
    await client.flush()  # from here on, nobody answers
    with trio.fail_after(3 * PING_SECONDS):
        assert await closed(stream)


async def test_a_connection_leaves_nothing_that_only_a_garbage_collection_frees(
    served: Served, autojump_clock: MockClock
) -> None:
    client = await served.connect()
    client.open("/slow", end=True)
    stream = client.open("/chat")
    await client.send(stream, b"hello")
    await trio.testing.wait_all_tasks_blocked()
    gone = weakref.ref(served.session())
    gc.collect()
    gc.disable()
    try:
        await client.stream.aclose()
        await trio.sleep(1)
        assert gone() is None
    finally:
        gc.enable()


async def test_a_client_with_an_open_call_stays(served: Served, autojump_clock: MockClock) -> None:
    client = await served.connect()
    stream = client.open("/chat")
    await client.flush()
    await trio.sleep(3600)
    await client.send(stream, b"here")
    assert await client.message(stream) == b"here"
