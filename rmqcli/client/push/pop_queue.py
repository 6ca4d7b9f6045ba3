"""The popped and unacknowledged messages of one queue, or of all queues of a broker (Java `PopProcessQueue`).

Times are seconds on trio's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import trio

from rmqcli.client.push.process_queue import NOTHING, Held, ProcessQueue
from rmqcli.codec.message import MessageExt, PropertyName
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.receipt_handle import ReceiptHandle


class Loan:
    """One delivery: a message, or those of an inner batch, which are acknowledged together.

    `left`: the number of messages that the listener has not finished yet. `until`: the end of the invisible
    time. `begun`: when a listener began; None before that. `level`: the delay level of a failure; None if no
    message failed. `busy`: set while the handle is being replaced.
    """

    __slots__ = ("begun", "busy", "handle", "is_abandoned", "left", "level", "messages", "topic", "until")

    def __init__(self, topic: str, handle: ReceiptHandle, until: float) -> None:
        self.topic = topic
        self.handle = handle
        self.until = until
        self.messages: list[MessageExt] = []
        self.left = 0
        self.begun: float | None = None
        self.level: int | None = None
        self.busy: trio.Event | None = None
        self.is_abandoned = False

    @property
    def is_over(self) -> bool:
        return trio.current_time() >= self.until

    def renew(self, handle: ReceiptHandle, until: float) -> None:
        self.handle, self.until = handle, until
        for message in self.messages:
            message.properties[PropertyName.POP_CK] = handle.encode()


class PopQueue(Held):
    """An assigned queue. `settled` is called with each loan whose messages the listener has finished.

    `rest`: the number of messages on the broker that are not lent. `size`: bytes of bodies. `lanes`: in an
    orderly consumer, the messages of each queue.
    """

    def __init__(self, queue: MessageQueue, now_ms: int, settled: Callable[[Loan], None]) -> None:
        super().__init__(queue, now_ms)
        self._settled = settled
        self._loans: dict[int, Loan] = {}  # by the identity of the message
        self.rest = 0
        self.size = 0
        self.lanes: dict[int, Lane] = {}

    @property
    def count(self) -> int:
        return len(self._loans)

    @property
    def loans(self) -> list[Loan]:
        return list(dict.fromkeys(self._loans.values()))

    def add(self, messages: Sequence[MessageExt], until: float) -> None:
        known: dict[str, Loan] = {}
        for message in messages:
            text = message.properties[PropertyName.POP_CK]
            loan = known.get(text)
            if loan is None:
                known[text] = loan = Loan(self.queue.topic, ReceiptHandle.decode(text), until)
            loan.messages.append(message)
            loan.left += 1
            self._loans[id(message)] = loan
            self.size += len(message.body)

    def lane(self, queue_id: int) -> tuple[Lane, bool]:
        """Return the lane of a queue, and True if it is new."""
        lane = self.lanes.get(queue_id)
        if lane is not None:
            return lane, False
        queue = MessageQueue(self.queue.topic, self.queue.broker_name, queue_id)
        self.lanes[queue_id] = lane = Lane(self, queue, self.last_pull_ms)
        return lane, True

    def begin(self, batch: list[MessageExt]) -> list[MessageExt]:
        """Return the messages of a batch whose time is not over; the others will be lent again."""
        mine: list[MessageExt] = []
        for message in batch:
            loan = self._loans.get(id(message))
            if loan is None:
                continue
            if loan.is_over:
                self.forget(loan)
                continue
            loan.begun = trio.current_time() if loan.begun is None else loan.begun
            mine.append(message)
        return mine

    def queue_of(self, batch: list[MessageExt]) -> MessageQueue:
        return MessageQueue(self.queue.topic, self.queue.broker_name, batch[0].queue_id)

    def remove(self, messages: Iterable[MessageExt]) -> int:
        """Remove consumed messages. There is no offset to commit: they are acknowledged."""
        for message in messages:
            self._finish(message)
        return NOTHING

    def fail(self, messages: Iterable[MessageExt], level: int) -> None:
        """Remove messages that were not consumed."""
        for message in messages:
            loan = self._loans.get(id(message))
            if loan is not None:
                loan.level = level
                self._finish(message)

    def _finish(self, message: MessageExt) -> None:
        loan = self._loans.pop(id(message), None)
        if loan is None:
            return
        self.size -= len(message.body)
        loan.left -= 1
        if not loan.left:
            self._settled(loan)

    def leave(self, messages: Iterable[MessageExt]) -> list[Loan]:
        """Forget messages, and return their loans; they are lent again after their time."""
        found = [loan for message in messages if (loan := self._loans.get(id(message))) is not None]
        for loan in found:
            self.forget(loan)
        return list(dict.fromkeys(found))

    def forget(self, loan: Loan) -> None:
        for message in loan.messages:
            if self._loans.pop(id(message), None) is not None:
                self.size -= len(message.body)

    def unbegun(self) -> list[Loan]:
        """Forget and return the loans on which no listener has started."""
        return self.leave(one for loan in self.loans if loan.begun is None for one in loan.messages)

    def drop(self) -> None:
        super().drop()
        for lane in self.lanes.values():
            lane.drop()

    async def wait_quiet(self) -> None:
        await super().wait_quiet()
        for lane in list(self.lanes.values()):
            await lane.wait_quiet()

    def is_over(self, messages: Iterable[MessageExt]) -> bool:
        """Return True if a message is no longer lent."""
        loans = [self._loans.get(id(message)) for message in messages]
        return any(loan is None or loan.is_over for loan in loans)

    def wait_again(self, messages: Iterable[MessageExt]) -> None:
        """Let messages wait for another call of the listener."""
        for message in messages:
            loan = self._loans.get(id(message))
            if loan is not None:
                loan.begun = None


class Lane(ProcessQueue):
    """The popped messages of one queue, in order, for an orderly listener. Commits acknowledge them."""

    def __init__(self, popped: PopQueue, queue: MessageQueue, now_ms: int) -> None:
        super().__init__(queue, 0, now_ms)
        self._popped = popped

    def take(self, count: int) -> list[MessageExt]:
        """Return the first messages; none if the time of any is over, because all are then redelivered in
        order.
        """
        waiting = [*self.taken.values(), *self.messages.values()]
        if self._popped.is_over(waiting):
            self.messages.clear()
            self.taken.clear()
            self._popped.leave(waiting)
            return []
        return self._popped.begin(super().take(count))

    def commit(self) -> int:
        consumed = list(self.taken.values())
        super().commit()
        return self._popped.remove(consumed)

    def put_back(self, batch: Iterable[MessageExt] | None = None) -> None:
        chosen = list(self.taken.values() if batch is None else batch)
        super().put_back(chosen)
        self._popped.wait_again(chosen)
