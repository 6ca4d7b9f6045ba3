"""Requests to a push consumer: reset (220), consume one message (309), and those common to all consumers."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import trio

from rmqcli.client.functions import from_the_application
from rmqcli.client.group.processor import ConsumerProcessor
from rmqcli.client.group.running_info import push_info
from rmqcli.client.processor import BrokerRequest
from rmqcli.client.push.process_queue import ProcessQueue
from rmqcli.client.push.send_back import as_original
from rmqcli.client.push.state import (
    Call,
    ConsumeContext,
    ConsumeResult,
    GroupState,
    OrderlyContext,
    OrderlyResult,
    log,
)
from rmqcli.client.wire.messages import unpack
from rmqcli.codec.bodies.offsets import ResetOffsetBody
from rmqcli.codec.bodies.running import CMResult, ConsumeMessageDirectlyResult
from rmqcli.codec.headers.clients import ConsumeMessageDirectlyResultRequestHeader
from rmqcli.codec.headers.offsets import ResetOffsetRequestHeader
from rmqcli.codec.message import MessageExt, retry_topic
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.clients import CONSUME_MESSAGE_DIRECTLY
from rmqcli.codec.operations.offsets import RESET_CONSUMER_CLIENT_OFFSET
from rmqcli.codec.records.reading import decode_record

RESET_WAIT = 10.0  # seconds that running listeners get before the offsets of their queues are moved

DirectRequest = BrokerRequest[
    ConsumeMessageDirectlyResultRequestHeader, None, bytes, ConsumeMessageDirectlyResult
]

_RESULTS: dict[object, CMResult] = {
    ConsumeResult.SUCCESS: CMResult.CR_SUCCESS,
    ConsumeResult.RECONSUME_LATER: CMResult.CR_LATER,
    OrderlyResult.SUCCESS: CMResult.CR_SUCCESS,
    OrderlyResult.COMMIT: CMResult.CR_COMMIT,
    OrderlyResult.ROLLBACK: CMResult.CR_ROLLBACK,
    OrderlyResult.SUSPEND: CMResult.CR_LATER,
    None: CMResult.CR_RETURN_NULL,
}


class PushProcessor(ConsumerProcessor):
    """The handlers of one push consumer. Slow ones run in its nursery."""

    def __init__(self, state: GroupState, call: Call, nursery: trio.Nursery) -> None:
        info = partial(push_info, state)
        super().__init__(state.instance, state.group, state.rebalance_soon, state.offsets.table, info)
        self._state = state
        self._call = call
        self._nursery = nursery
        # Resets of several queues may overlap: the first saves the paused state, the last restores it.
        self._resets = 0
        self._was_paused = False

    def open(self) -> None:
        super().open()
        self._requests.register(RESET_CONSUMER_CLIENT_OFFSET, self._on_reset, self._group)
        self._requests.register(CONSUME_MESSAGE_DIRECTLY, self._on_message, self._group)

    def _on_reset(
        self, request: BrokerRequest[ResetOffsetRequestHeader, None, ResetOffsetBody, None]
    ) -> None:
        self._nursery.start_soon(self._reset, request.header.topic, request.body.offset_table)

    async def _reset(self, topic: str, table: dict[MessageQueue, int]) -> None:
        state = self._state
        if not self._resets:
            self._was_paused, state.paused = state.paused, True
        self._resets += 1
        try:
            chosen = [held for queue, held in state.queues.items() if queue.topic == topic and queue in table]
            for held in chosen:
                held.retiring = True
                held.drop()
            with trio.move_on_after(RESET_WAIT):
                for held in chosen:
                    await held.wait_quiet()
            await self._move(chosen, table)
        finally:
            self._resets -= 1
            if not self._resets:
                state.paused = self._was_paused
            state.rebalance_soon()

    async def _move(self, chosen: list[ProcessQueue], table: dict[MessageQueue, int]) -> None:
        state = self._state
        for held in chosen:
            # Closed first, so that a listener that is still running cannot overwrite the new offset.
            held.closed = True
            state.offsets.update(held.queue, table[held.queue], increase_only=False)
        await state.persist([held.queue for held in chosen], sure=True)
        for held in chosen:
            state.forget(held)

    def _on_message(self, request: DirectRequest) -> None:
        message = decode_record(request.body)
        queue = MessageQueue(message.topic, request.header.broker_name or "", message.queue_id)
        self._nursery.start_soon(self._directly, request, message, queue)

    async def _directly(self, request: DirectRequest, message: MessageExt, queue: MessageQueue) -> None:
        begun = time.monotonic()
        state, names = self._state, self._state.instance.namespace
        context: Any = (OrderlyContext if state.orderly else ConsumeContext)(names.unwrap_queue(queue))
        as_original([message], retry_topic(state.group))
        names.unwrap_messages([message])
        remark = None
        if unreadable := await unpack(message):
            request.send(request.refuse(str(unreadable)))
            return
        try:
            result = _RESULTS[await self._call([message], context)]
        except Exception as error:  # raised by the application; it is the result that was asked for
            log.warning(
                "the listener failed on %s, consumed on request",
                message.msg_id,
                exc_info=from_the_application(error),
            )
            result, remark = CMResult.CR_THROW_EXCEPTION, f"{type(error).__name__}: {error}"
        body = ConsumeMessageDirectlyResult(
            order=state.orderly,
            auto_commit=not state.orderly or context.auto_commit,
            consume_result=result,
            remark=remark,
            spent_time_mills=round((time.monotonic() - begun) * 1000),
        )
        request.send(request.reply(body))
