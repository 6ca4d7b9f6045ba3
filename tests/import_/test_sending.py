"""The pace of an import, and when it gives a queue up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from rmqcli.client import ConnectionLost, SendResult, SendStatus
from rmqcli.codec.message import Message
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.import_.progress import Progress
from rmqcli.import_.rows import ImportRow
from rmqcli.import_.sending import GIVE_UP, Importer, Router

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(2)]


class Target:
    """Accepts messages, except for lost queues; records when and how many."""

    def __init__(self, lost: Sequence[MessageQueue] = ()) -> None:
        self.lost = lost
        self.sent: list[tuple[float, int]] = []
        self.refused = 0

    async def send(self, message: Message, *, queue: MessageQueue | None = None) -> SendResult:
        return await self.send_batch([message], queue=queue)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None
    ) -> SendResult:
        assert queue is not None
        if queue in self.lost:
            self.refused += 1
            raise ConnectionLost("10.0.0.1:10911")
        self.sent.append((trio.current_time(), len(messages)))
        return SendResult(SendStatus.SEND_OK, "", "", queue, 0)


def rows(count: int) -> list[ImportRow]:
    return [ImportRow("f", number, Message.of("T", b"x")) for number in range(count)]


def importer(target: Target, rate: float | None = None) -> Importer:
    progress = Progress(None, "f", "T", resume=False)
    return Importer(target, Router(QUEUES, "round-robin"), progress, rate=rate)


async def test_a_rate_is_kept(autojump_clock: Any) -> None:
    start, target = trio.current_time(), Target()
    tally = await importer(target, rate=4).run(iter(rows(21)))
    assert tally.sent == 21
    for number in range(1, 6):
        by_then = sum(count for time, count in target.sent if time - start < number)
        assert 4 * (number - 1) < by_then <= 4 * number
    assert target.sent[-1][0] - start == 5


async def test_a_queue_that_is_lost_is_given_up_alone(autojump_clock: Any) -> None:
    target = Target(lost=QUEUES[:1])
    tally = await importer(target, rate=10).run(iter(rows(40)))
    assert (tally.sent, len(tally.failed), tally.stopped) == (20, 20, False)
    assert target.refused == GIVE_UP
    reasons = [str(failure.error) for failure in tally.failed]
    assert sum("lost" in reason for reason in reasons) == GIVE_UP
    assert sum(reason == f"not tried: queue {QUEUES[0]} is given up" for reason in reasons) == 20 - GIVE_UP


async def test_it_stops_when_every_queue_is_lost(autojump_clock: Any) -> None:
    target = Target(lost=QUEUES)
    tally = await importer(target, rate=10).run(iter(rows(40)))
    assert tally.stopped
    assert target.refused == 2 * GIVE_UP
    assert len(tally.failed) < 40
