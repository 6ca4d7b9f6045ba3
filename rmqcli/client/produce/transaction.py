"""Transactional sends (Java `TransactionMQProducer`).

A half message is stored where consumers do not see it; then the local transaction runs, and its outcome is
sent to the broker one-way. Without an outcome, or after UNKNOW, the broker asks a producer of the group after
a few seconds (`check`), repeats this, and finally discards the half message. So the check decides every half
message, even if this process dies.

Limits: `checks_waiting` checks are queued; further ones are dropped (the broker asks again).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, NamedTuple, Unpack

import trio

from rmqcli.client.errors import ClientError
from rmqcli.client.functions import called
from rmqcli.client.identity import without_namespace
from rmqcli.client.processor import BrokerRequest
from rmqcli.client.produce.producer import Producer, ProducerOptions
from rmqcli.client.produce.targets import QueueSelector
from rmqcli.client.results import SendResult, SendStatus
from rmqcli.client.trace.records import MessageType, TransactionEnd
from rmqcli.client.wire.messages import unpack
from rmqcli.codec.errors import CodecError
from rmqcli.codec.headers.transactions import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.message import Message, MessageExt, PropertyName
from rmqcli.codec.operations.messages import CHECK_TRANSACTION_STATE, END_TRANSACTION
from rmqcli.codec.records.reading import decode_records

CHECKS_WAITING = 2000  # checkRequestHoldMax
END_TIMEOUT = 3.0  # seconds to write an outcome, even when cancelled

log = logging.getLogger("rmqcli.client.produce.transaction")


class TransactionState(Enum):
    """The outcome of a local transaction (Java `LocalTransactionState`), as sent in END_TRANSACTION.

    ```python
    async def check(half):
        return TransactionState.ROLLBACK_MESSAGE  # nothing in the database mentions it
    ```
    """

    COMMIT_MESSAGE = 8
    ROLLBACK_MESSAGE = 12
    UNKNOW = 0


Outcome = TransactionState | None
LocalTransaction = Callable[[Message], Outcome | Awaitable[Outcome]]
"""The local transaction: an async function, or a plain one, run in a worker thread.

The message has a UNIQ_KEY.

```python
async def book(message):
    return TransactionState.COMMIT_MESSAGE if message.body else TransactionState.ROLLBACK_MESSAGE

async def check(half):
    return TransactionState.UNKNOW

async with TransactionProducer("bank", check) as bank:
    await bank.send_in_transaction(Message.of("orders", b"10"), book)
```
"""
TransactionCheck = Callable[[MessageExt], Outcome | Awaitable[Outcome]]
"""Returns the outcome for a half message. An async function, or a plain one, run in a worker thread.

```python
booked = set()

async def check(half):
    return TransactionState.COMMIT_MESSAGE if half.msg_id in booked else TransactionState.UNKNOW
```
"""
CheckAnswered = Callable[[MessageExt, TransactionState, bool], object]
"""Called after a check with half message, outcome, and True if the outcome was sent.

If it was not sent, the broker asks again.

```python
async def check(half):
    return TransactionState.COMMIT_MESSAGE

def note(half, state, sent):
    print(half.msg_id, state.name, "sent" if sent else "not sent")

async with TransactionProducer("bank", check, on_answered=note) as bank:
    ...
```
"""


class TransactionResult(NamedTuple):
    """A half message and its local outcome. The broker asks for the outcome again unless `outcome_sent`.

    ```python
    async def check(half):
        return TransactionState.UNKNOW

    async with TransactionProducer("bank", check) as bank:
        result = await bank.send_in_transaction(
            Message.of("orders", b"10"), lambda message: TransactionState.ROLLBACK_MESSAGE
        )
    assert result.state is TransactionState.ROLLBACK_MESSAGE
    ```
    """

    sent: SendResult
    state: TransactionState
    outcome_sent: bool


class _Check(NamedTuple):
    address: str
    header: CheckTransactionStateRequestHeader
    message: MessageExt


class TransactionProducer(Producer):
    """A producer of transactional and plain messages.

    The broker asks any producer of the group about any half message, so `check` must decide from shared state
    (a database), not from the memory of one process. `checks` run concurrently, `checks_waiting` are queued;
    `on_answered` is called after each. For more options see Producer.

    ```python
    booked = set()

    async def book(message):
        booked.add(message.uniq_key)
        return TransactionState.COMMIT_MESSAGE

    async def check(half):
        return TransactionState.COMMIT_MESSAGE if half.msg_id in booked else TransactionState.UNKNOW

    async with TransactionProducer("bank", check) as bank:
        result = await bank.send_in_transaction(Message.of("orders", b"10"), book)
    assert result.outcome_sent
    ```
    """

    def __init__(
        self,
        group: str,
        check: TransactionCheck,
        *,
        checks: int = 1,
        checks_waiting: int = CHECKS_WAITING,
        on_answered: CheckAnswered | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(group, **options)
        self._check = check
        self._on_answered = on_answered
        self._checks = checks
        self._tasks: list[trio.CancelScope] = []
        self._asked, self._questions = trio.open_memory_channel[_Check](checks_waiting)

    async def _open(self) -> None:
        await super()._open()
        self.instance.requests.register(CHECK_TRANSACTION_STATE, self._on_check)
        for _ in range(self._checks):
            self._tasks.append(self.instance.start(self._answer, "transaction checks"))

    async def _close(self, error: BaseException | None) -> None:
        self.instance.requests.unregister(CHECK_TRANSACTION_STATE, self._on_check)
        for scope in self._tasks:
            scope.cancel()
        self._asked.close()
        self._questions.close()
        await super()._close(error)

    async def send_in_transaction(
        self,
        message: Message,
        local: LocalTransaction,
        *,
        selector: QueueSelector | None = None,
        timeout: float | None = None,
    ) -> TransactionResult:
        """Store a half message, run `local`, and send its outcome to the broker (None means UNKNOW).

        Raises the errors of `send`, without running `local`, if the half message was not stored. A half
        message whose SendStatus is not SEND_OK is rolled back without running `local`. An exception of
        `local` is raised after UNKNOW was sent, so the broker will ask. A delay level is removed from the
        message, as in Java.
        """
        half = self._preparer.identified(_half(message, self.group))
        sent = await self.send(half, selector=selector, timeout=timeout)
        if sent.status is not SendStatus.SEND_OK:
            state = TransactionState.ROLLBACK_MESSAGE
            return TransactionResult(sent, state, await self._end(half, sent, state))
        try:
            # A cancellation waits for a local transaction in a thread, so that its outcome is sent.
            state = await _outcome(local, half, abandon=False)
        except Exception as error:  # raised to the caller, whatever it is; the broker gets UNKNOW
            await self._end(
                half, sent, TransactionState.UNKNOW, f"executeLocalTransactionBranch exception: {error}"
            )
            raise
        return TransactionResult(sent, state, await self._end(half, sent, state))

    async def _end(
        self, half: Message, sent: SendResult, state: TransactionState, remark: str | None = None
    ) -> bool:
        """Send the outcome to the broker.

        Return False after a failure, in which case the broker checks later.
        """
        try:
            _, _, offset = parse_offset_msg_id(sent.offset_msg_id or sent.msg_id)
            # A cancellation must not lose an outcome that is known.
            with trio.CancelScope(shield=True):
                queue = self._namespace.wrap_queue(sent.message_queue)
                address = (await self.instance.broker_addresses(queue))[0]
        except (CodecError, ClientError) as error:
            log.warning("%s of %s was not sent: %s", state.name, sent.msg_id, error)
            return False
        header = EndTransactionRequestHeader(
            producer_group=self.group,
            tran_state_table_offset=sent.queue_offset,
            commit_log_offset=offset,
            commit_or_rollback=state.value,
            msg_id=sent.msg_id,
            transaction_id=sent.transaction_id or sent.msg_id,
            bname=sent.message_queue.broker_name,
        )
        return await self._send_end(address, header, half, sent.region_id, remark)

    async def _send_end(
        self,
        address: str,
        header: EndTransactionRequestHeader,
        message: Message | MessageExt,
        region: str | None,
        remark: str | None,
    ) -> bool:
        outcome_sent = True
        with trio.CancelScope(shield=True):
            try:
                await self.instance.send_oneway(
                    address, END_TRANSACTION, header, timeout=END_TIMEOUT, remark=remark
                )
            except ClientError as error:
                log.warning("the outcome of %s was not sent: %s", header.msg_id, error)
                outcome_sent = False
        if self._trace is not None:
            end = TransactionEnd(
                self.instance.now_ms(),
                region,
                without_namespace(self.group),
                without_namespace(message.topic),
                header.msg_id or "",
                message.tags,
                message.properties.get(PropertyName.KEYS),
                address,
                MessageType.COMMIT,
                header.transaction_id,
                TransactionState(header.commit_or_rollback).name,
                header.from_transaction_check,
            )
            self._trace.put([end])
        return outcome_sent

    def _on_check(
        self, request: BrokerRequest[CheckTransactionStateRequestHeader, None, bytes, None]
    ) -> None:
        """Queue the check of CHECK_TRANSACTION_STATE (39, one-way) if the half message is of this group."""
        header = request.header
        messages = decode_records(request.body)
        if len(messages) != 1 or messages[0].properties.get(PropertyName.PGROUP) != self.group:
            return
        self._namespace.unwrap_messages(messages)
        try:
            self._asked.send_nowait(_Check(request.address, header, messages[0]))
        except trio.WouldBlock:
            log.info("too many transaction checks wait; the broker will ask again about %s", header.msg_id)

    async def _answer(self) -> None:
        async for check in self._questions:
            remark = None
            if unreadable := await unpack(check.message):
                log.warning("the transaction check of %s: %s", check.message.msg_id, unreadable)
                continue  # the broker asks again
            try:
                state = await _outcome(self._check, check.message, abandon=True)
            except Exception as error:  # raised by the application; the broker asks again
                log.exception("the transaction check of %s failed", check.message.msg_id)
                state, remark = TransactionState.UNKNOW, f"checkLocalTransactionState Exception: {error}"
            await self._answer_check(check, state, remark)

    async def _answer_check(self, check: _Check, state: TransactionState, remark: str | None) -> None:
        asked, message = check.header, check.message
        header = EndTransactionRequestHeader(
            producer_group=self.group,
            tran_state_table_offset=asked.tran_state_table_offset,
            commit_log_offset=asked.commit_log_offset,
            commit_or_rollback=state.value,
            from_transaction_check=True,
            msg_id=message.msg_id,
            transaction_id=asked.transaction_id,
            bname=asked.bname,
        )
        region = message.properties.get(PropertyName.MSG_REGION)
        outcome_sent = await self._send_end(check.address, header, message, region, remark)
        if self._on_answered is not None:
            try:
                self._on_answered(message, state, outcome_sent)
            except Exception:  # raised by the application; it must not end other checks
                log.exception("the callback of the transaction check of %s failed", message.msg_id)


def _half(message: Message, group: str) -> Message:
    named = {PropertyName.TRAN_MSG: "true", PropertyName.PGROUP: group}
    properties = {name: value for name, value in message.properties.items() if name != PropertyName.DELAY}
    return Message(topic=message.topic, body=message.body, flag=message.flag, properties=properties | named)


async def _outcome(function: Callable[[Any], Any], argument: object, *, abandon: bool) -> TransactionState:
    said = await called(function, argument, abandon=abandon)
    if said is None:
        return TransactionState.UNKNOW
    if not isinstance(said, TransactionState):
        raise TypeError(f"a TransactionState is expected, not {said!r}")
    return said
