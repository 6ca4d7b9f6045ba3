from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from codec.message import Message
from codec.message_queue import MessageQueue
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.settings import Given, Settings
from rmqcli.client import BrokerRefused, ConnectionFailed
from rmqcli.commands.send.report import SendReport
from rmqcli.flows.errors import NotAttempted
from rmqcli.flows.sending import Acknowledged, Job, Sender, SendPlan, Tally
from rmqcli.grammar.errors import GrammarError
from tests.cli.fakes import FakeProducer

REFUSED = BrokerRefused(13, "too large", "127.0.0.1:1", "SEND_MESSAGE_V2")


async def jobs_of(bodies: Sequence[bytes | GrammarError], pause: float = 0) -> AsyncIterator[Job]:
    for number, body in enumerate(bodies, 1):
        await trio.sleep(pause)
        yield Job(number, body if isinstance(body, GrammarError) else Message(topic="orders", body=body))


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(1, count + 1)]


async def send(
    producer: FakeProducer, plan: SendPlan, bodies: Sequence[bytes | GrammarError], pause: float = 0
) -> tuple[Tally, list[Acknowledged]]:
    heard: list[Acknowledged] = []
    return await Sender(producer, plan, heard.append).run(jobs_of(bodies, pause)), heard


async def test_one_in_flight_keeps_the_order(autojump_clock: MockClock) -> None:
    producer = FakeProducer()
    tally, heard = await send(producer, SendPlan(), numbers(5))
    assert [bodies for bodies, _ in producer.sent] == [[body] for body in numbers(5)]
    assert (tally.read, tally.sent, tally.size, tally.failed) == (5, 5, 5, [])
    assert producer.most_in_flight == 1
    first = Acknowledged(1, "id-1", MessageQueue("orders", "broker-a", 0), 0, "stored-0", "SEND_OK")
    assert heard[0] == first


async def test_many_in_flight_but_not_more_than_asked_for(autojump_clock: MockClock) -> None:
    producer = FakeProducer()
    start = trio.current_time()
    tally, heard = await send(producer, SendPlan(concurrency=8), numbers(81))
    assert tally.sent == len(heard) == 81
    assert producer.most_in_flight == 8
    assert trio.current_time() - start == pytest.approx(11)


@pytest.mark.parametrize("batch", [1, 2])
async def test_the_first_goes_alone_for_it_finds_the_way(autojump_clock: MockClock, batch: int) -> None:
    producer = FakeProducer(seconds=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, producer, SendPlan(concurrency=8, batch=batch), numbers(80))
        await trio.sleep(0.9)
        assert producer.most_in_flight == 1
        await trio.sleep(0.9)
        assert producer.most_in_flight == 8


async def test_input_is_read_no_faster_than_it_is_sent(autojump_clock: MockClock) -> None:
    producer = FakeProducer(seconds=10)
    sender = Sender(producer, SendPlan(concurrency=2), lambda item: None)
    with trio.move_on_after(5):
        await sender.run(jobs_of(numbers(1000)))
    assert sender.tally.read <= 4


async def test_batches(autojump_clock: MockClock) -> None:
    producer = FakeProducer()
    tally, heard = await send(producer, SendPlan(batch=4), numbers(10))
    assert [bodies for bodies, _ in producer.sent] == [numbers(4), numbers(8)[4:], numbers(10)[8:]]
    assert [(item.number, item.msg_id, item.queue_offset) for item in heard] == [
        (n, f"id-{n}", n - 1) for n in range(1, 11)
    ]
    assert tally.sent == 10


async def test_a_batch_does_not_wait_for_ever(autojump_clock: MockClock) -> None:
    producer = FakeProducer(seconds=0)
    await send(producer, SendPlan(batch=100), numbers(3), pause=10)
    assert len(producer.sent) == 3


async def test_a_rate(autojump_clock: MockClock) -> None:
    producer = FakeProducer(seconds=0)
    start = trio.current_time()
    await send(producer, SendPlan(concurrency=4, rate=10), numbers(50))
    assert [round(time - start, 1) for time in producer.times] == [n / 10 for n in range(50)]


async def test_chosen_queues_take_turns(autojump_clock: MockClock) -> None:
    queues = [MessageQueue("orders", "broker-a", number) for number in (0, 3)]
    producer = FakeProducer()
    await send(producer, SendPlan(queues=queues), numbers(4))
    assert [queue for _, queue in producer.sent] == [*queues, *queues]


async def test_one_way(autojump_clock: MockClock) -> None:
    producer = FakeProducer()
    tally, heard = await send(producer, SendPlan(oneway=True), numbers(3))
    assert (tally.sent, heard) == (3, [])


async def test_a_refused_message_does_not_stop_the_rest(autojump_clock: MockClock) -> None:
    producer = FakeProducer({b"2": REFUSED, b"4": REFUSED})
    tally, heard = await send(producer, SendPlan(), numbers(5))
    assert [item.number for item in heard] == [1, 3, 5]
    assert tally.failed == [(2, REFUSED), (4, REFUSED)]
    assert not tally.stopped


async def test_a_line_that_is_no_message_does_not_stop_the_rest(autojump_clock: MockClock) -> None:
    error = GrammarError("not a message")
    tally, _ = await send(FakeProducer(), SendPlan(batch=2), [b"1", error, b"3"])
    assert (tally.read, tally.sent, tally.failed) == (3, 2, [(2, error)])


async def test_without_a_connection_the_rest_is_not_read(autojump_clock: MockClock) -> None:
    lost = ConnectionFailed("127.0.0.1:1", "refused")
    producer = FakeProducer({b"3": lost})
    tally, heard = await send(producer, SendPlan(), numbers(1000))
    assert tally.stopped
    assert [item.number for item in heard] == [1, 2]
    assert tally.failed[0] == (3, lost)
    assert tally.read < 6
    assert sorted(number for number, _ in tally.failed) == list(range(3, tally.last + 1))


async def test_nothing_that_was_read_is_forgotten(autojump_clock: MockClock) -> None:
    lost = ConnectionFailed("127.0.0.1:1", "refused")
    for plan in (SendPlan(concurrency=5), SendPlan(batch=7), SendPlan(concurrency=3, batch=4)):
        tally, heard = await send(FakeProducer({b"40": lost}), plan, numbers(1000))
        told = [item.number for item in heard] + [number for number, _ in tally.failed]
        assert sorted(told) == list(range(1, tally.last + 1))


def test_one_message_has_no_line(capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = report(Tally(read=1, last=1, failed=[(1, REFUSED)]), capfd, unit=None)
    assert code is ExitCode.FAILED
    assert err.startswith("rmq: not sent: 127.0.0.1:1 refused")


async def test_too_many_refusals_in_a_row_stop(autojump_clock: MockClock) -> None:
    tally, _ = await send(FakeProducer(dict.fromkeys(numbers(1000), REFUSED)), SendPlan(), numbers(1000))
    assert tally.stopped
    assert 20 <= len(tally.failed) <= 23


def report(
    tally: Tally, capfd: pytest.CaptureFixture[str], *, unit: str | None = "line", **given: Any
) -> tuple[ExitCode, str, str]:
    code = SendReport(Settings(Given(**given))).finish(tally, 2.0, oneway=False, unit=unit)
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
