"""Bounds on what peers cost that are silent, do not read, or are too many, while others are served."""

from __future__ import annotations

import os
import resource
import socket
from pathlib import Path

import pytest
import trio
import trio.testing

from rmqcli.broker.errors import Refusal
from rmqcli.broker.net.limits import ServerLimits, SessionLimits
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import Session
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import encode_frame
from tests.broker.serving import ECHO, LATER, VIEWS, Client, echo, in_memory, over_tcp, request
from tests.support import PATIENCE


async def test_too_much_deferred_work_pauses_reading(nursery: trio.Nursery) -> None:
    gate = trio.Event()
    started: list[int] = []

    async def wait(session: Session, command: RemotingCommand) -> None:
        await gate.wait()
        session.send(command.reply(0))

    def handler(session: Session, command: RemotingCommand) -> None:
        started.append(command.opaque)
        session.spawn(wait, session, command)

    limits = ServerLimits(session=SessionLimits(max_deferred=3))
    client, _ = await in_memory(nursery, {LATER: handler}, limits)
    await client.send(*(request(LATER, n) for n in range(10)))
    await trio.testing.wait_all_tasks_blocked()
    assert started == [0, 1, 2, 3]
    gate.set()
    assert sorted([(await client.next()).opaque for _ in range(10)]) == list(range(10))


async def test_silence_ends_a_connection_and_traffic_keeps_it(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    client, server = await in_memory(nursery, {ECHO: echo})
    for _ in range(5):
        await trio.sleep(100)
        await client.ask(request())
    start = trio.current_time()
    assert await client.is_closed()
    assert 120 <= trio.current_time() - start <= 131
    assert not server.sessions


async def test_connections_over_the_limit_are_closed_and_the_others_served(nursery: trio.Nursery) -> None:
    connect, server = await over_tcp(nursery, {ECHO: echo}, ServerLimits(max_connections=2))
    clients = [Client(connect()) for _ in range(2)]
    for client in clients:
        await client.ask(request())
    assert await Client(connect()).is_closed()
    await clients[0].stream.aclose()
    while len(server.sessions) > 1:
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert (await Client(connect()).ask(request(body=b"in"))).body == b"in"
    assert (await clients[1].ask(request())).code == 0


async def test_those_who_say_nothing_keep_nobody_out(nursery: trio.Nursery) -> None:
    """Each new connection takes the place of the oldest that has sent no request; a half one is none."""
    connect, server = await over_tcp(nursery, {ECHO: echo}, ServerLimits(max_connections=4))
    known = Client(connect())
    await known.ask(request())
    silent = [Client(connect()) for _ in range(40)]
    await silent[-1].stream.send_all(encode_frame(request())[:9])
    late = [Client(connect()) for _ in range(3)]
    for client in late:
        assert (await client.ask(request(body=b"in"))).body == b"in"
    assert await silent[0].is_closed() and await silent[-1].is_closed()
    assert (await known.ask(request())).code == 0
    assert await Client(connect()).is_closed(), "four have said who they are"
    assert len(server.sessions) <= 5


async def test_who_is_refused_by_the_gate_is_not_known(nursery: trio.Nursery) -> None:
    def gate(session: Session, command: RemotingCommand) -> None:
        if command.opaque:
            raise Refusal(1, "no account")

    connect, _ = await over_tcp(nursery, {ECHO: echo}, ServerLimits(max_connections=2), gate=gate)
    strangers = [Client(connect()) for _ in range(2)]
    for stranger in strangers:
        assert (await stranger.ask(request(opaque=7))).code == 1
    known = Client(connect())
    assert (await known.ask(request(opaque=0))).code == 0
    assert await strangers[0].is_closed()


def open_descriptors() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


async def test_connections_leave_descriptors_to_the_store(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that came first are served, and so is a new one as soon as there is room."""
    highest = max(open_descriptors()) + 12
    connect, server = await over_tcp(nursery, {ECHO: echo}, ServerLimits(max_descriptor=highest))
    clients = [Client(connect()) for _ in range(3)]
    for client in clients:
        assert (await client.ask(request())).code == 0
    held: list[int] = []
    others: list[Client] = []
    is_refused = False
    # Other threads may close files between the last one that is opened here and the connection: then it is served.
    while not is_refused and len(others) < 100:
        while not held or held[-1] <= highest:
            held.append(os.open(os.devnull, os.O_RDONLY))
        others.append(Client(connect()))
        try:
            await others[-1].ask(request())
        except (AssertionError, trio.BrokenResourceError):
            is_refused = True
    for descriptor in held:
        os.close(descriptor)
    assert is_refused and "ulimit -n" in caplog.text
    for client in [*clients[1:], *others]:
        await client.stream.aclose()
    while len(server.sessions) > 1:
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert (await Client(connect()).ask(request(body=b"in"))).body == b"in"
    assert (await clients[0].ask(request())).code == 0


async def test_a_peer_that_does_not_read_pushes_is_closed_at_the_bound(nursery: trio.Nursery) -> None:
    limits = ServerLimits(session=SessionLimits(max_outgoing_bytes=4 << 20))
    connect, server = await over_tcp(nursery, {ECHO: echo}, limits)
    client = Client(connect())
    await client.ask(request())
    (session,) = server.sessions
    highest = 0
    for _ in range(1000):
        session.oneway(request(40, body=bytes(64 << 10)))
        highest = max(highest, session.outgoing_bytes)
        await trio.lowlevel.checkpoint()
        if session.closed:
            break
    assert session.closed
    assert highest < 5 << 20


async def test_peers_that_do_not_read_and_idle_peers_do_not_slow_others(
    nursery: trio.Nursery,
) -> None:
    block = memoryview(bytes(256 << 10))
    asked = 0

    def pull(session: Session, command: RemotingCommand) -> None:
        nonlocal asked
        asked += 1
        session.send(command.reply(0), [block])

    connect, server = await over_tcp(nursery, {VIEWS: pull, ECHO: echo})
    idle = [connect() for _ in range(500)]
    stuck = [Client(connect()) for _ in range(20)]
    for client in stuck:
        await client.send(*(request(VIEWS, n) for n in range(200)))
    while len(server.sessions) < 520:
        await trio.testing.wait_all_tasks_blocked(0.01)
    other = Client(connect())
    with trio.fail_after(PATIENCE):
        for n in range(200):
            assert (await other.ask(request(opaque=n, body=b"served"))).body == b"served"
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert sum(session.outgoing_bytes for session in server.sessions) <= 20 * ((1 << 20) + (300 << 10))
    assert asked < 20 * 200
    # one that starts to read again gets everything
    for n in range(200):
        reply = await stuck[0].next()
        assert (reply.opaque, len(reply.body)) == (n, 256 << 10)
    for stream in idle:
        await stream.aclose()


async def test_a_process_without_descriptors_serves_open_connections_and_recovers(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    connect, _ = await over_tcp(nursery, {ECHO: echo})
    first = Client(connect())
    assert (await first.ask(request(body=b"before"))).body == b"before"
    waiting = socket.socket()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (waiting.fileno() + 1, limits[1]))
    try:
        waiting.connect(first.stream.socket.getpeername())  # type: ignore[attr-defined]
        with trio.fail_after(PATIENCE):
            while "cannot accept" not in caplog.text:
                assert (await first.ask(request(body=b"meanwhile"))).body == b"meanwhile"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    late = Client(trio.SocketStream(trio.socket.from_stdlib_socket(waiting)))
    assert (await late.ask(request(body=b"after"))).body == b"after"


async def test_pushes_beyond_the_bound_are_sent_when_the_kernel_accepts_them(
    nursery: trio.Nursery,
) -> None:
    limits = ServerLimits(session=SessionLimits(max_outgoing_bytes=64 << 10))
    connect, server = await over_tcp(nursery, {ECHO: echo}, limits)
    client = Client(connect())
    await client.ask(request())
    (session,) = server.sessions
    for _ in range(20):
        session.oneway(request(40, body=bytes(10 << 10)))
    assert session.outgoing_bytes <= 64 << 10
    assert [(await client.next()).code for _ in range(20)] == [40] * 20
    for _ in range(2000):
        session.oneway(request(40, body=bytes(10 << 10)))
    assert await client.is_closed_after_reading()


def beginning(size: int) -> bytes:
    """The first bytes of a frame of 64 KiB."""
    return encode_frame(request(body=bytes(65536)))[:size]


def buffered(server: Server) -> int:
    return sum(session.connection.buffered for session in server.sessions)


async def begin(client: Client, server: Server, size: int) -> None:
    """Sends a part of a frame and waits until the server has it."""
    wanted = buffered(server) + size
    await client.stream.send_all(beginning(size))
    while buffered(server) < wanted:
        await trio.testing.wait_all_tasks_blocked(0.01)


async def test_of_many_partial_frames_the_one_that_rested_longest_is_closed(nursery: trio.Nursery) -> None:
    """However little it holds: who sends a long message over a slow line is not in its way."""
    connect, server = await over_tcp(nursery, {ECHO: echo}, ServerLimits(max_partial_bytes=115_000))
    large, small, last = (Client(connect()) for _ in range(3))
    await begin(large, server, 20_000)
    await begin(small, server, 30_000)
    await large.stream.send_all(encode_frame(request(body=bytes(65536)))[20_000:50_000])
    while buffered(server) < 80_000:
        await trio.testing.wait_all_tasks_blocked(0.01)
    await last.stream.send_all(beginning(40_000))
    assert await small.is_closed()
    for client, size in ((large, 50_000), (last, 40_000)):
        await client.stream.send_all(encode_frame(request(body=bytes(65536)))[size:])
        assert len((await client.next()).body) == 65536
    assert len(server.sessions) == 2


async def test_a_frame_that_does_not_grow_ends_its_connection(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    client, _ = await in_memory(nursery, {ECHO: echo})
    frame = encode_frame(request(body=bytes(100)))
    for byte in range(50):
        await client.stream.send_all(frame[byte : byte + 1])
        await trio.sleep(25)
    start = trio.current_time()
    assert await client.is_closed()
    assert 0 <= trio.current_time() - start <= 20


async def test_a_pause_of_the_process_makes_no_frame_late(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    client, _ = await in_memory(nursery, {ECHO: echo})
    frame = encode_frame(request(body=bytes(100)))
    await client.stream.send_all(frame[:50])
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(100)
    await trio.testing.wait_all_tasks_blocked()
    await client.stream.send_all(frame[50:])
    assert (await client.next()).code == 0


async def test_bytes_of_a_frame_are_released_when_it_is_complete_or_its_connection_ends(
    nursery: trio.Nursery,
) -> None:
    connect, server = await over_tcp(nursery, {ECHO: echo}, ServerLimits(max_partial_bytes=100_000))
    patient = Client(connect())
    await begin(patient, server, 60_000)
    for size in (30_000, 35_000, 39_000):
        passing = Client(connect())
        await begin(passing, server, size)
        await passing.stream.aclose()
        while len(server.sessions) > 1:
            await trio.testing.wait_all_tasks_blocked(0.01)
    for _ in range(3):
        await patient.stream.send_all(encode_frame(request(body=bytes(65536)))[60_000:])
        assert len((await patient.next()).body) == 65536
        await begin(patient, server, 60_000)
    assert len(server.sessions) == 1
