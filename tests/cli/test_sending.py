"""Streams of messages, sent by a real producer to a scripted broker on the virtual clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli.cli.errors import report as end
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.settings import Given, Settings
from rmqcli.client import BrokerRefused, ConnectionFailed, Producer
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import decode_batch
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.commands.send.report import SendReport
from rmqcli.flows.errors import InvalidInput, NotAttempted
from rmqcli.flows.reading import queues_to_send_to
from rmqcli.flows.sending import Acknowledged, Job, Sender, SendPlan, Tally
from rmqcli.grammar.values import GrammarError
from tests.cli.conftest import Run
from tests.client.scripted import HEARTBEATS, Network, route

REFUSED = BrokerRefused(13, "too large", "127.0.0.1:1", "SEND_MESSAGE_V2")
TOPIC, NAMESRV, BROKER = "orders", "ns:9876", "a:10911"


class Broker:
    """Stores messages in `seconds`, many requests at once; refuses `refused` bodies, and ends with `fatal`.

    `sent` holds the bodies, message ids and queue of each request, `times` when they came.
    """

    def __init__(self, nursery: trio.Nursery, refused: Collection[bytes], fatal: bytes | None) -> None:
        self._nursery = nursery
        self._refused, self._fatal = refused, fatal
        network = Network(nursery)
        topics, brokers = {TOPIC: {"broker-a": 4}}, {"broker-a": {0: BROKER}}
        network.server(NAMESRV, {RequestCode.GET_ROUTEINFO_BY_TOPIC: route(topics, brokers)})
        sends = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
        self._server = network.server(BROKER, {**HEARTBEATS, **dict.fromkeys(sends, self._receive)})
        self.open_stream = network.open_stream
        self.seconds = 1.0
        self.sent: list[tuple[list[bytes], list[str], MessageQueue]] = []
        self.times: list[float] = []
        self.in_flight = self.most_in_flight = 0

    def _receive(self, command: RemotingCommand) -> None:
        self.times.append(trio.current_time())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self._nursery.start_soon(self._store, command)

    async def _store(self, command: RemotingCommand) -> None:
        await trio.sleep(self.seconds)
        self.in_flight -= 1
        header = command.ext_fields or {}
        queue = MessageQueue(TOPIC, "broker-a", int(header["e"]))
        if command.code == RequestCode.SEND_BATCH_MESSAGE:
            items = decode_batch(command.body)
            stored = [(bytes(item.body), decode_properties(item.properties)["UNIQ_KEY"]) for item in items]
        else:
            stored = [(bytes(command.body), decode_properties(header["i"])["UNIQ_KEY"])]
        bodies, ids = map(list, zip(*stored, strict=True))
        if self._fatal in bodies:
            self._server.refuses = True
            await self._server.drop()
        elif any(body in self._refused for body in bodies):
            await self._answer(command, command.reply(ResponseCode.MESSAGE_ILLEGAL, "too large"))
        else:
            offset = sum(len(known) for known, _, _ in self.sent)
            self.sent.append((bodies, ids, queue))
            place = {"msgId": f"stored-{offset}", "queueId": header["e"], "queueOffset": str(offset)}
            await self._answer(command, command.reply(0, None, place))

    async def _answer(self, command: RemotingCommand, reply: RemotingCommand) -> None:
        if command.is_oneway:
            return
        with suppress(trio.ClosedResourceError, IndexError):  # the connection ended meanwhile
            await self._server.push(reply)

    @property
    def bodies(self) -> list[list[bytes]]:
        return [bodies for bodies, _, _ in self.sent]


@asynccontextmanager
async def broker(
    refused: Collection[bytes] = (), fatal: bytes | None = None, seconds: float = 1.0
) -> AsyncIterator[tuple[Broker, Producer]]:
    async with trio.open_nursery() as nursery:
        found = Broker(nursery, refused, fatal)
        found.seconds = seconds
        async with Producer(
            "PG", namesrv=NAMESRV, open_stream=found.open_stream, send_timeout=100, retries=0
        ) as producer:
            yield found, producer
        nursery.cancel_scope.cancel()


async def jobs_of(bodies: Sequence[bytes | GrammarError], pause: float = 0) -> AsyncIterator[Job]:
    for number, body in enumerate(bodies, 1):
        await trio.sleep(pause)
        yield Job(number, body if isinstance(body, GrammarError) else Message(topic=TOPIC, body=body))


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(1, count + 1)]


async def send(
    producer: Producer, plan: SendPlan, bodies: Sequence[bytes | GrammarError], pause: float = 0
) -> tuple[Tally, list[Acknowledged]]:
    heard: list[Acknowledged] = []
    return await Sender(producer, plan, heard.append).run(jobs_of(bodies, pause)), heard


def reasons(tally: Tally) -> list[tuple[int, str]]:
    return [(number, str(error)) for number, error in tally.failed]


async def test_one_in_flight_keeps_the_order(autojump_clock: MockClock) -> None:
    async with broker() as (peer, producer):
        tally, heard = await send(producer, SendPlan(), numbers(5))
    assert peer.bodies == [[body] for body in numbers(5)]
    assert (tally.read, tally.sent, tally.size, tally.failed) == (5, 5, 5, [])
    assert peer.most_in_flight == 1
    _, ids, queue = peer.sent[0]
    assert heard[0] == Acknowledged(1, ids[0], queue, 0, "stored-0", "SEND_OK")


async def test_many_in_flight_but_not_more_than_asked_for(autojump_clock: MockClock) -> None:
    async with broker() as (peer, producer):
        start = trio.current_time()
        tally, heard = await send(producer, SendPlan(concurrency=8), numbers(81))
        assert trio.current_time() - start == pytest.approx(11)
    assert tally.sent == len(heard) == 81
    assert peer.most_in_flight == 8


@pytest.mark.parametrize("batch", [1, 2])
async def test_the_first_goes_alone_for_it_finds_the_way(autojump_clock: MockClock, batch: int) -> None:
    async with broker() as (peer, producer), trio.open_nursery() as nursery:
        nursery.start_soon(send, producer, SendPlan(concurrency=8, batch=batch), numbers(80))
        await trio.sleep(0.9)
        assert peer.most_in_flight == 1
        await trio.sleep(0.9)
        assert peer.most_in_flight == 8


async def test_input_is_read_no_faster_than_it_is_sent(autojump_clock: MockClock) -> None:
    async with broker(seconds=10) as (_, producer):
        sender = Sender(producer, SendPlan(concurrency=2), lambda item: None)
        with trio.move_on_after(5):
            await sender.run(jobs_of(numbers(1000)))
        assert sender.tally.read <= 4


async def test_batches(autojump_clock: MockClock) -> None:
    async with broker() as (peer, producer):
        tally, heard = await send(producer, SendPlan(batch=4), numbers(10))
    assert peer.bodies == [numbers(4), numbers(8)[4:], numbers(10)[8:]]
    ids = [one for _, several, _ in peer.sent for one in several]
    assert [(item.number, item.msg_id, item.queue_offset) for item in heard] == [
        (n, ids[n - 1], n - 1) for n in range(1, 11)
    ]
    assert tally.sent == 10


async def test_a_batch_does_not_wait_for_ever(autojump_clock: MockClock) -> None:
    async with broker(seconds=0) as (peer, producer):
        await send(producer, SendPlan(batch=100), numbers(3), pause=10)
    assert len(peer.sent) == 3


async def test_a_rate(autojump_clock: MockClock) -> None:
    async with broker(seconds=0) as (peer, producer):
        start = trio.current_time()
        await send(producer, SendPlan(concurrency=4, rate=10), numbers(50))
    assert [round(time - start, 1) for time in peer.times] == [n / 10 for n in range(50)]


async def test_chosen_queues_take_turns(autojump_clock: MockClock) -> None:
    queues = [MessageQueue(TOPIC, "broker-a", number) for number in (0, 3)]
    async with broker() as (peer, producer):
        await send(producer, SendPlan(queues=queues), numbers(4))
    assert [queue for _, _, queue in peer.sent] == [*queues, *queues]


def test_a_queue_that_several_brokers_have() -> None:
    queues = [MessageQueue(TOPIC, name, number) for name in ("broker-a", "broker-b") for number in (0, 1)]
    with pytest.raises(InvalidInput, match=r"--queue 1: broker-a and broker-b have this queue; .* --broker"):
        queues_to_send_to(queues, TOPIC, None, 1)
    assert queues_to_send_to(queues, TOPIC, "broker-b", 1) == queues[3:]
    assert queues_to_send_to(queues, TOPIC, "broker-b", None) == queues[2:]
    assert queues_to_send_to(queues[:2], TOPIC, None, 1) == queues[1:2]


async def test_one_way(autojump_clock: MockClock) -> None:
    async with broker() as (peer, producer):
        tally, heard = await send(producer, SendPlan(oneway=True), numbers(3))
        await trio.sleep(1.1)
    assert (tally.sent, heard, sorted(peer.bodies)) == (3, [], [[b"1"], [b"2"], [b"3"]])


async def test_a_refused_message_does_not_stop_the_rest(autojump_clock: MockClock) -> None:
    async with broker(refused=[b"2", b"4"]) as (_, producer):
        tally, heard = await send(producer, SendPlan(), numbers(5))
    assert [item.number for item in heard] == [1, 3, 5]
    refusal = str(BrokerRefused(13, "too large", BROKER, "SEND_MESSAGE_V2"))
    assert reasons(tally) == [(2, refusal), (4, refusal)]
    assert not tally.stopped


async def test_a_line_that_is_no_message_does_not_stop_the_rest(autojump_clock: MockClock) -> None:
    error = GrammarError("not a message")
    async with broker() as (_, producer):
        tally, _ = await send(producer, SendPlan(batch=2), [b"1", error, b"3"])
    assert (tally.read, tally.sent, tally.failed) == (3, 2, [(2, error)])


async def test_without_a_connection_the_rest_is_not_read(autojump_clock: MockClock) -> None:
    async with broker(fatal=b"3") as (_, producer):
        tally, heard = await send(producer, SendPlan(), numbers(1000))
    assert tally.stopped
    assert [item.number for item in heard] == [1, 2]
    assert [item.number for item in tally.unknown] == [3]
    assert any(isinstance(error, ConnectionFailed) for _, error in tally.failed)
    assert tally.read < 6
    assert sorted(number for number, _ in tally.failed) == list(range(4, tally.last + 1))


@pytest.mark.parametrize(
    "plan", [SendPlan(concurrency=5), SendPlan(batch=7), SendPlan(concurrency=3, batch=4)]
)
async def test_nothing_that_was_read_is_forgotten(autojump_clock: MockClock, plan: SendPlan) -> None:
    async with broker(fatal=b"40") as (_, producer):
        tally, heard = await send(producer, plan, numbers(1000))
    assert tally.stopped
    told = [item.number for item in heard] + [number for number, _ in tally.failed]
    told += [item.number for item in tally.unknown]
    assert sorted(told) == list(range(1, tally.last + 1))


async def test_too_many_refusals_in_a_row_stop(autojump_clock: MockClock) -> None:
    async with broker(refused=numbers(1000)) as (_, producer):
        tally, _ = await send(producer, SendPlan(), numbers(1000))
    assert tally.stopped
    assert 20 <= len(tally.failed) <= 23


def test_one_message_has_no_line(capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = report(Tally(read=1, last=1, failed=[(1, REFUSED)]), capfd, unit=None)
    assert code is ExitCode.FAILED
    assert err.startswith("rmq: not sent: 127.0.0.1:1 refused")


def report(
    tally: Tally, capfd: pytest.CaptureFixture[str], *, unit: str | None = "line", **given: Any
) -> tuple[ExitCode, str, str]:
    settings = Settings(Given(**given))
    shown = SendReport(settings, "orders", unit)
    code = end(shown.ended(shown.finish(tally, 2.0, oneway=False)), settings)
    out, err = capfd.readouterr()
    return code, out, err


def test_all_sent(capfd: pytest.CaptureFixture[str]) -> None:
    assert report(Tally(read=3, sent=3), capfd) == (ExitCode.DONE, "", "")
    assert (
        report(Tally(read=3, sent=3, size=9), capfd, verbose=True)[2]
        == "rmq: 3 messages sent (9 B) in 2 s, 2/s\n"
    )


def test_some_sent(capfd: pytest.CaptureFixture[str]) -> None:
    failed: list[tuple[int, Exception]] = [(3, REFUSED), (2, REFUSED), (9, GrammarError("bad"))]
    code, _, err = report(Tally(read=10, sent=7, failed=failed), capfd)
    assert code is ExitCode.PARTLY
    assert "rmq: not sent: lines 2-3: 127.0.0.1:1 refused SEND_MESSAGE_V2" in err
    assert "rmq: not sent: line 9: bad\n" in err
    assert err.endswith("rmq: 7 sent, 3 failed\n")


def test_none_sent(capfd: pytest.CaptureFixture[str]) -> None:
    failed: list[tuple[int, Exception]] = [
        (2, NotAttempted("not attempted")),
        (1, ConnectionFailed("127.0.0.1:1", "refused")),
    ]
    code, _, err = report(Tally(read=2, last=2, failed=failed, stopped=True), capfd)
    assert code is ExitCode.NO_CONNECTION
    assert "input after line 2 was not sent" in err
    assert report(Tally(read=1, failed=[(1, GrammarError("x"))]), capfd)[0] is ExitCode.USAGE


def test_a_file_of_json_lines_is_named_with_an_option(rmq: Run, topic: str) -> None:
    refused = rmq("send", topic, "--jsonl", "letters.jsonl")
    assert (refused.code, refused.out) == (ExitCode.USAGE, b"")
    assert "did you mean --file letters.jsonl?" in refused.err
