"""Sends every message in a transaction whose outcome is known beforehand: what `rmq send --transaction` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.message import Message, MessageExt
from rmqcli.client import SendResult, TransactionProducer, TransactionState
from rmqcli.exit_codes import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.queue import MessageQueue

__all__ = ["OUTCOMES", "Transacting"]

GROUP = "rmq_transaction"
OUTCOMES = {
    "commit": TransactionState.COMMIT_MESSAGE,
    "rollback": TransactionState.ROLLBACK_MESSAGE,
    "unknown": TransactionState.UNKNOW,
}


class Transacting:
    """Stands where a Producer stands. A check of a half message that is not ours is answered with UNKNOW."""

    def __init__(self, outcome: TransactionState, **options: Any) -> None:
        self._outcome = outcome
        self._ours: set[str] = set()
        self.producer = TransactionProducer(GROUP, self._check, **options)

    async def send(self, message: Message, *, queue: MessageQueue | None = None) -> SendResult:
        result = await self.producer.send_in_transaction(message, self._local)
        if not result.told and self._outcome is not TransactionState.UNKNOW:
            raise CommandError(
                f"stored as {result.sent.msg_id}, but its end could not be told", ExitCode.NO_CONNECTION
            )
        return result.sent

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None
    ) -> SendResult:
        raise CommandError("messages of a transaction are sent one by one", ExitCode.USAGE)

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None) -> object:
        raise CommandError("a transaction needs the answer of the broker", ExitCode.USAGE)

    async def _local(self, message: Message) -> TransactionState:
        self._ours.add(message.uniq_key or "")
        return self._outcome

    async def _check(self, half: MessageExt) -> TransactionState:
        return self._outcome if half.msg_id in self._ours else TransactionState.UNKNOW
