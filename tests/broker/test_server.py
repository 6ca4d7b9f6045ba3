"""The server over in-memory streams and, where the kernel's buffers matter, over real sockets."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from rmqcli.broker.errors import Refusal, RemoteClosed, RemoteTimeout
from rmqcli.broker.net.dispatch import Handler, Handlers, reply_behind, unsupported
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import Session
from rmqcli.codec.codes import RPC_ONEWAY, ResponseCode, SerializeType
from rmqcli.codec.errors import BodyError, HeaderError
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import encode_frame
from tests.broker.serving import (
    ECHO,
    FAIL,
    LATER,
    SILENT,
    VIEWS,
    Client,
    Wire,
    echo,
    in_memory,
    over_tcp,
    raising,
    request,
)


async def test_requests_are_answered_in_order_whatever_the_chunks(nursery: trio.Nursery) -> None:
    client, _ = await in_memory(nursery, {ECHO: echo})
    frames = b"".join(encode_frame(request(opaque=n, body=bytes([n]) * n)) for n in range(20))
    for start in range(0, len(frames), 97):
        await client.stream.send_all(frames[start : start + 97])
    replies = [await client.next() for _ in range(20)]
    assert [(reply.opaque, reply.body) for reply in replies] == [(n, bytes([n]) * n) for n in range(20)]
    assert all(reply.is_response for reply in replies)


@pytest.mark.parametrize(
    ("error", "code", "remark"),
    [
        (
            HeaderError("topic is missing", "topic"),
            ResponseCode.SYSTEM_ERROR,
            "HeaderError: topic is missing",
        ),
        (BodyError("not JSON"), ResponseCode.SYSTEM_ERROR, "BodyError: not JSON"),
        (ZeroDivisionError("oh"), ResponseCode.SYSTEM_ERROR, "ZeroDivisionError: oh"),
        (Refusal(17, "no such topic"), ResponseCode.TOPIC_NOT_EXIST, "no such topic"),
    ],
)
async def test_an_error_in_a_handler_becomes_a_reply(
    nursery: trio.Nursery, error: Exception, code: int, remark: str
) -> None:
    client, _ = await in_memory(nursery, {ECHO: echo, FAIL: raising(error)})
    await client.send(request(FAIL, 1), request(ECHO, 2, body=b"still here"))
    failure, success = await client.next(), await client.next()
    assert (failure.code, failure.remark, failure.opaque) == (code, remark, 1)
    assert (success.body, success.opaque) == (b"still here", 2)


async def test_only_unexpected_errors_are_logged_with_a_traceback(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    client, _ = await in_memory(
        nursery, {FAIL: raising(ZeroDivisionError("oh")), SILENT: raising(Refusal(16, "no"))}
    )
    await client.ask(request(SILENT))
    assert not caplog.records
    await client.ask(request(FAIL))
    (record,) = caplog.records
    assert record.name.startswith("rmqcli.broker")
    assert record.exc_info is not None


async def test_a_reply_that_cannot_be_encoded_becomes_an_error(nursery: trio.Nursery) -> None:
    client, _ = await in_memory(nursery, {ECHO: lambda _session, r: r.reply(0, body=bytes(16 << 20))})
    reply = await client.ask(request())
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "limit" in str(reply.remark)


async def test_a_late_reply_that_cannot_be_encoded_becomes_an_error(nursery: trio.Nursery) -> None:
    """Its client would wait for it in vain."""

    def handler(session: Session, request: RemotingCommand) -> None:
        reply = request.reply(0, body=bytes(16 << 20))
        session.spawn(reply_behind, session, request, reply, trio.lowlevel.checkpoint)

    client, _ = await in_memory(nursery, {LATER: handler})
    with trio.fail_after(5):
        reply = await client.ask(request(LATER))
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "the reply cannot be encoded")


async def test_one_way_requests_are_handled_but_never_answered(nursery: trio.Nursery) -> None:
    seen: list[int] = []

    def note(_session: Session, command: RemotingCommand) -> RemotingCommand:
        seen.append(command.opaque)
        return command.reply(0)

    client, _ = await in_memory(nursery, {ECHO: note, FAIL: raising(ZeroDivisionError())})
    await client.send(
        request(ECHO, 1, flag=RPC_ONEWAY),
        request(FAIL, 2, flag=RPC_ONEWAY),
        request(9999, 3, flag=RPC_ONEWAY),
        request(ECHO, 4),
    )
    assert (await client.next()).opaque == 4
    assert seen == [1, 4]
    assert not client.received


@pytest.mark.parametrize("kind", list(SerializeType))
async def test_an_unknown_code_is_refused_in_the_callers_serialization(
    nursery: trio.Nursery, kind: SerializeType
) -> None:
    client, _ = await in_memory(nursery, {})
    reply = await client.ask(request(9999, serialize_type=kind))
    assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert reply.remark == " request type 9999 not supported"
    assert reply.serialize_type is kind


def test_handlers_are_bound_once_and_unknown_codes_are_not_kept() -> None:
    bound = []

    def bind(code: int) -> Handler | None:
        bound.append(code)
        return echo if code == ECHO else None

    handlers = Handlers(bind)
    assert all(handlers[code] is unsupported for code in range(-500, 500) if code != ECHO)
    bound.clear()
    assert handlers[ECHO] is handlers[ECHO] is echo and bound == [ECHO]
    assert handlers.keys() == {ECHO}


async def test_a_bad_frame_closes_its_own_connection_only_after_what_came_before(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rmqcli.broker")
    connect, _ = await over_tcp(nursery, {ECHO: echo})
    good, bad = Client(connect()), Client(connect())
    await bad.stream.send_all(encode_frame(request(opaque=5)) + b"\x7f\xff\xff\xff")
    assert (await bad.next()).opaque == 5
    assert await bad.is_closed()
    assert (await good.ask(request(body=b"x"))).body == b"x"
    assert any("frame" in record.getMessage() for record in caplog.records)


async def test_a_tls_handshake_is_refused_with_the_reason(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rmqcli.broker")
    client, _ = await in_memory(nursery, {ECHO: echo})
    await client.stream.send_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert await client.is_closed()
    assert "TLS" in caplog.text


@pytest.mark.parametrize("carrier", [in_memory, over_tcp])
async def test_bodies_sent_as_views_arrive_whole(nursery: trio.Nursery, carrier: object) -> None:
    store = memoryview(bytes(range(256)) * 4096)
    views = [store[start : start + 700] for start in range(0, 700_000, 700)]

    def pull(session: Session, command: RemotingCommand) -> None:
        session.send(command.reply(0), [*views, *views])

    if carrier is in_memory:
        client, _ = await in_memory(nursery, {VIEWS: pull})
    else:
        client = Client((await over_tcp(nursery, {VIEWS: pull}))[0]())
    await client.send(*(request(VIEWS, n) for n in range(3)))
    for n in range(3):
        reply = await client.next()
        assert reply.opaque == n
        assert reply.body == bytes(store[:700_000]) * 2


async def test_requests_to_the_peer_return_time_out_or_lose_the_connection(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    outcomes: list[object] = []

    async def relay(session: Session, command: RemotingCommand) -> None:
        for code, wait in ((1, 5.0), (2, 5.0), (3, 50.0)):
            try:
                answer = await session.request(request(code, 0), wait)
                outcomes.append(answer.body)
            except (RemoteTimeout, RemoteClosed) as error:
                outcomes.append(type(error))
                if isinstance(error, RemoteClosed):
                    raise
        session.respond(command, command.reply(0))

    def handler(session: Session, command: RemotingCommand) -> None:
        session.spawn(relay, session, command)

    client, server = await in_memory(nursery, {LATER: handler, ECHO: echo})
    await client.send(request(LATER))
    first = await client.next()
    assert (first.code, first.is_response) == (1, False)
    await client.send(first.reply(0, body=b"one"))
    second = await client.next()
    await trio.sleep(6)
    await client.send(second.reply(0, body=b"late"))
    assert (await client.next()).code == 3
    (session,) = server.sessions
    lost = trio.Event()
    session.on_close(lost.set)
    await client.stream.aclose()
    await lost.wait()
    assert outcomes == [b"one", RemoteTimeout]
    assert session.closed
    with pytest.raises(RemoteClosed):
        await session.request(request(), 1)


async def test_an_error_in_deferred_work_ends_only_this_work(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError("in deferred work")

    def handler(session: Session, _command: RemotingCommand) -> None:
        session.spawn(fail)

    client, _ = await in_memory(nursery, {LATER: handler, ECHO: echo})
    await client.send(request(LATER))
    assert (await client.ask(request(body=b"on"))).body == b"on"
    await trio.testing.wait_all_tasks_blocked()
    assert "in deferred work" in caplog.text


async def test_close_callbacks_run_once_each_even_when_one_fails(nursery: trio.Nursery) -> None:
    calls: list[str] = []
    sessions: list[Session] = []

    def handler(session: Session, command: RemotingCommand) -> RemotingCommand:
        sessions.append(session)
        session.on_close(lambda: calls.append("first"))
        session.on_close(raising_callback)
        session.on_close(lambda: calls.append("second"))
        return command.reply(0)

    def raising_callback() -> None:
        raise ZeroDivisionError

    client, _ = await in_memory(nursery, {ECHO: handler})
    await client.ask(request())
    sessions[0].close()
    assert await client.is_closed()
    await trio.testing.wait_all_tasks_blocked()
    assert calls == ["first", "second"]
    sessions[0].on_close(lambda: calls.append("late"))
    assert calls[-1] == "late"
    sessions[0].send(request())
    sessions[0].oneway(request())
    assert sessions[0].outgoing_bytes == 0


async def test_pushes_are_sent_at_once_and_together(nursery: trio.Nursery) -> None:
    connect, server = await over_tcp(nursery, {ECHO: echo})
    client = Client(connect())
    await client.ask(request())
    (session,) = server.sessions
    for _ in range(3):
        session.oneway(request(40, body=b"changed"))
    pushes = [await client.next() for _ in range(3)]
    assert all(push.is_oneway and push.code == 40 for push in pushes)
    assert session.peer_text == f"127.0.0.1:{session.peer[1]}"
    assert session.outgoing_bytes == 0


async def test_adopting_a_connection_needs_a_running_server_or_closes_it() -> None:
    near, _ = trio.testing.memory_stream_pair()
    with pytest.raises(RemoteClosed):
        await Server({}).adopt(near, ("127.0.0.1", 1))
    with pytest.raises(trio.ClosedResourceError):
        await near.send_all(b"x")


async def test_a_programming_error_ends_one_connection(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    class Faulty(Wire):
        async def receive(self, pace: object = None) -> bytes:
            raise KeyError("x")

    client, server = await in_memory(nursery, {ECHO: echo})
    await server.serve_transport(Faulty(b""))
    assert "broker: 127.0.0.1:1 closed" in caplog.text
    assert "KeyError: 'x'" in caplog.text
    assert (await client.ask(request())).code == 0
    assert len(server.sessions) == 1
