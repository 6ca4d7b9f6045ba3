"""Requests that waited for too long are refused, so that their senders go elsewhere."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import trio
import trio.testing

from rmqcli.broker.config import BrokerConfig
from rmqcli.broker.errors import NotReady
from rmqcli.broker.net.dispatch import REPLIES_PER_WRITE
from rmqcli.broker.net.fast_failure import FastFailure, limits_of
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import Session
from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import Producer, SendStatus
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.message import Message
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.serving import ECHO, Client, echo, request
from tests.broker.support import fake_broker

SEND, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE
LIMITS: dict[int, float] = {SEND: 0.2, PULL: 5.0}
FOR_DISK: dict[int, float] = {SEND: 1.0, PULL: 5.0}
OK, BUSY = 0, ResponseCode.SYSTEM_BUSY


class Disk:
    """A disk that every request with a body waits for, until `works`."""

    def __init__(self) -> None:
        self.works = trio.Event()
        self.stored: list[int] = []

    def handler(self, _session: Session, command: RemotingCommand) -> RemotingCommand:
        if command.body and not self.works.is_set():
            raise NotReady(self.works.wait, in_order=True)
        self.stored.append(command.opaque)
        return command.reply(0)


async def connected(server: Server) -> Client:
    near, far = trio.testing.memory_stream_pair()
    await server.adopt(far, ("127.0.0.1", 1))
    return Client(near)


async def codes_after(
    nursery: trio.Nursery, clock: trio.testing.MockClock, costs: dict[int, float], count: int
) -> list[int]:
    """The codes of replies to so many requests in one read; `costs` are the seconds that some of them take."""

    def costly(_session: Session, command: RemotingCommand) -> RemotingCommand:
        clock.jump(costs.get(command.opaque, 0))
        return command.reply(0)

    server = await nursery.start(
        Server({SEND: costly, ECHO: echo}, fast_failure=FastFailure(LIMITS, FOR_DISK)).serve
    )
    client = await connected(server)
    await client.send(*(request(SEND if n % 2 else ECHO, n) for n in range(count)))
    replies = {reply.opaque: reply for reply in [await client.next() for _ in range(count)]}
    assert all(reply.code == OK for opaque, reply in replies.items() if opaque % 2 == 0)
    return [replies[n].code for n in range(1, count, 2)]


async def test_sends_that_waited_behind_others_are_refused(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    """Each of them takes 2 ms: after 100 the limit is over."""
    count = 10 * REPLIES_PER_WRITE
    codes = await codes_after(nursery, mock_clock, dict.fromkeys(range(count), 0.002), count)
    accepted = codes.index(BUSY)
    assert accepted == 100
    assert codes == [OK] * accepted + [BUSY] * (len(codes) - accepted)


async def test_a_pause_of_the_process_refuses_nobody(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    codes = await codes_after(nursery, mock_clock, {1: 50.0, 101: 50.0}, 10 * REPLIES_PER_WRITE)
    assert set(codes) == {OK}


async def test_sends_that_wait_for_the_disk_are_refused(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """After a second with what Java says; while the disk does not answer, others are refused at once."""
    disk = Disk()
    server = await nursery.start(
        Server({SEND: disk.handler, PULL: disk.handler}, fast_failure=FastFailure(LIMITS, FOR_DISK)).serve
    )
    client, other = await connected(server), await connected(server)
    reply = await client.ask(request(SEND, 1, body=b"x"))
    assert (reply.code, reply.remark) == (
        BUSY,
        "[PCBUSY_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 1000ms, "
        "size of queue: 1",
    )
    assert trio.current_time() == pytest.approx(1.0)
    assert (await client.ask(request(SEND, 2))).code == OK, "it needs no disk"
    start = trio.current_time()
    reply = await other.ask(request(SEND, 3, body=b"x"))
    assert (reply.code, (reply.remark or "").partition("]")[0]) == (BUSY, "[PCBUSY_CLEAN_QUEUE")
    assert trio.current_time() == start
    reply = await other.ask(request(PULL, 3, body=b"x"))
    assert (reply.code, (reply.remark or "").partition("]")[0]) == (BUSY, "[TIMEOUT_CLEAN_QUEUE")
    assert trio.current_time() == pytest.approx(start + 5)
    disk.works.set()
    await trio.testing.wait_all_tasks_blocked()
    assert (await other.ask(request(SEND, 4, body=b"x"))).code == OK
    assert disk.stored == [2, 4]


async def test_a_disk_that_is_back_in_time_refuses_nobody(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    """Nor does one that was away while the process was paused."""
    disk = Disk()
    server = await nursery.start(
        Server({SEND: disk.handler}, fast_failure=FastFailure(LIMITS, FOR_DISK)).serve
    )
    client = await connected(server)
    await client.send(request(SEND, 1, body=b"x"))
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(3600)
    await trio.testing.wait_all_tasks_blocked()
    disk.works.set()
    assert (await client.next()).code == OK


async def test_an_error_of_the_disk_is_the_reply(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    async def refuse() -> None:
        await trio.lowlevel.checkpoint()
        raise OSError(5, "Input/output error")

    def handler(_session: Session, _command: RemotingCommand) -> RemotingCommand:
        raise NotReady(refuse, in_order=True)

    server = await nursery.start(Server({SEND: handler}, fast_failure=FastFailure(LIMITS, FOR_DISK)).serve)
    reply = await (await connected(server)).ask(request(SEND, 1))
    assert (reply.code, "Input/output error" in (reply.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)


async def test_the_limits_are_those_of_the_configuration(tmp_path: Path) -> None:
    async with fake_broker(tmp_path, wait_time_mills_in_send_queue=300) as broker:
        assert broker.context.fast_failure.shortest == 0.3
        broker.context.reconfigure(BrokerConfig(broker_fast_failure_enable=False))
        assert broker.context.fast_failure.shortest == math.inf
    limits, for_disk = limits_of(BrokerConfig())
    assert (for_disk[SEND], for_disk[PULL]) == (1.0, 5.0)
    assert [limits.get(code) for code in (10, 310, 320, 36, 11, 34, 37, 15)] == [
        *[0.2] * 4,
        5.0,
        31.0,
        3.0,
        None,
    ]


async def test_an_embedded_cluster_refuses_nobody_for_a_slow_disk(
    autojump_clock: trio.testing.MockClock,
) -> None:
    _, for_disk = limits_of(BrokerConfig())
    async with (
        embedded_in_memory(disk_seconds=2.0) as cluster,
        Producer(**cluster.client(), send_timeout=60) as producer,
    ):
        begun = trio.current_time()
        result = await producer.send(Message.of("T", b"creates the topic, and the file of a queue"))
        assert result.status is SendStatus.SEND_OK
        assert trio.current_time() - begun > for_disk[SEND]
