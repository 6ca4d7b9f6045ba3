"""Sends every message in a transaction with a given outcome, for `rmq send --transaction`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from codec.message import Message, MessageExt
from codec.properties import PropertyName
from rmqcli.client import ClientError, SendResult, TransactionProducer, TransactionState
from rmqcli.flows.errors import HalfInDoubt, InvalidInput, OutcomeNotDelivered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.message_queue import MessageQueue

GROUP = "rmq_transaction"
OUTCOMES = {
    "commit": TransactionState.COMMIT_MESSAGE,
    "rollback": TransactionState.ROLLBACK_MESSAGE,
    "unknown": TransactionState.UNKNOW,
}


class Answered(NamedTuple):
    """A check of our half message. `delivered`: the broker has the answer, else it checks again."""

    msg_id: str
    times: str
    delivered: bool


class Transacting:
    """A producer of transactions. Checks of our half messages are answered with `answer`, others with
    UNKNOWN.

    Brokers also send our checks to other members of the group, which answer UNKNOWN, so a message may be
    checked several times.
    """

    def __init__(
        self, outcome: TransactionState, answer: TransactionState | None = None, **options: Any
    ) -> None:
        self._outcome = outcome
        self._answer = answer or outcome
        self._ours: set[str] = set()
        self._undecided: set[str] = set()
        self._checks: list[Answered] = []
        self._checked = trio.Event()
        self.producer = TransactionProducer(GROUP, self._check, on_answered=self._on_answered, **options)

    @property
    def undecided(self) -> int:
        """Number of messages whose outcome the broker has not received."""
        return len(self._undecided)

    async def settle(self, seconds: float | None, on_answered: Callable[[Answered], object]) -> None:
        """Wait at most `seconds` until checks have decided every message; report all checks."""
        with trio.move_on_after(float("inf") if seconds is None else seconds):
            while self._undecided or self._checks:
                if not self._checks:
                    await self._checked.wait()
                self._checked = trio.Event()
                checks, self._checks = self._checks, []
                for check in checks:
                    on_answered(check)

    async def send(self, message: Message, *, queue: MessageQueue | None = None) -> SendResult:
        try:
            result = await self.producer.send_in_transaction(message, self._local)
        except ClientError as error:
            if not error.maybe_stored:
                raise
            why = "the broker discards a half message that nobody ends"
            raise HalfInDoubt(f"{error}; {why}") from error
        if result.state is TransactionState.UNKNOW:
            return result.sent
        if not result.outcome_sent:
            raise OutcomeNotDelivered(result.sent.msg_id)
        self._undecided.discard(result.sent.msg_id)
        return result.sent

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None
    ) -> SendResult:
        raise InvalidInput("a transaction holds one message: batches are not possible")

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> object:
        raise InvalidInput("a transaction requires the reply of the broker")

    async def _local(self, message: Message) -> TransactionState:
        self._ours.add(message.uniq_key or "")
        self._undecided.add(message.uniq_key or "")
        return self._outcome

    async def _check(self, half: MessageExt) -> TransactionState:
        return self._answer if half.msg_id in self._ours else TransactionState.UNKNOW

    def _on_answered(self, half: MessageExt, state: TransactionState, delivered: bool) -> None:
        if half.msg_id not in self._ours:
            return
        times = half.properties.get(PropertyName.TRANSACTION_CHECK_TIMES, "")
        self._checks.append(Answered(half.msg_id, times, delivered))
        if delivered and state is not TransactionState.UNKNOW:
            self._undecided.discard(half.msg_id)
        self._checked.set()
