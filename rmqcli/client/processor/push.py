"""Requests to a push consumer: members changed (40), reset (220), consume one message (309), and common ones."""

from __future__ import annotations

import time
from typing import Any, Protocol

import trio

from codec.bodies.offsets import ResetOffsetBody
from codec.bodies.running import CMResult, ConsumeMessageDirectlyResult, ConsumerRunningInfo
from codec.headers.clients import ConsumeMessageDirectlyResultRequestHeader
from codec.headers.offsets import ResetOffsetRequestHeader
from codec.message import MessageExt
from codec.message_queue import MessageQueue
from codec.operations.clients import CONSUME_MESSAGE_DIRECTLY, NOTIFY_CONSUMER_IDS_CHANGED
from codec.operations.offsets import RESET_CONSUMER_CLIENT_OFFSET
from codec.store.record import decode_record
from rmqcli.client.group.rebalance import Rebalance
from rmqcli.client.processor.consumer import ConsumerProcessor
from rmqcli.client.processor.processor import BrokerRequest
from rmqcli.client.processor.running_info import push_info
from rmqcli.client.push.listener import ConsumeResult, OrderlyResult
from rmqcli.client.push.process_queue import ProcessQueue
from rmqcli.client.push.state import GroupState, log

RESET_WAIT = 10.0  # seconds that running listeners get before their queues are moved

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


class Direct(Protocol):
    """Consumption of one message on request."""

    def context_of(self, queue: MessageQueue) -> Any: ...
    async def consume_directly(self, message: MessageExt, context: Any) -> object: ...


class PushProcessor:
    """The handlers of one push consumer; slow ones run in its nursery."""

    def __init__(
        self, state: GroupState, direct: Direct, rebalance: Rebalance, nursery: trio.Nursery
    ) -> None:
        self._state = state
        self._direct = direct
        self._rebalance = rebalance
        self._nursery = nursery
        self._common = ConsumerProcessor(state.instance, state.group, state.offsets.table, self._info)
        # Resets of several queues overlap: the first saves the paused state, the last restores it
        self._resets = 0
        self._was_paused = False

    def open(self) -> None:
        """Registers the handlers; InvalidRequest when the instance has another consumer of the group."""
        self._common.open()
        requests, group = self._state.instance.requests, self._state.group
        requests.register(NOTIFY_CONSUMER_IDS_CHANGED, self._rebalance.on_members_changed, group)
        requests.register(RESET_CONSUMER_CLIENT_OFFSET, self._on_reset, group)
        requests.register(CONSUME_MESSAGE_DIRECTLY, self._on_message, group)

    def close(self) -> None:
        self._common.close()
        requests, group = self._state.instance.requests, self._state.group
        requests.unregister(NOTIFY_CONSUMER_IDS_CHANGED, self._rebalance.on_members_changed, group)
        requests.unregister(RESET_CONSUMER_CLIENT_OFFSET, self._on_reset, group)
        requests.unregister(CONSUME_MESSAGE_DIRECTLY, self._on_message, group)

    def _info(self, stacks: bool) -> ConsumerRunningInfo:
        return push_info(self._state, stacks=stacks)

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
                    await held.wait_quiet(RESET_WAIT)
            await self._move(chosen, table)
        finally:
            self._resets -= 1
            if not self._resets:
                state.paused = self._was_paused
            self._rebalance.soon()

    async def _move(self, chosen: list[ProcessQueue], table: dict[MessageQueue, int]) -> None:
        state = self._state
        for held in chosen:
            held.closed = True
            state.offsets.update(held.queue, table[held.queue], increase_only=False)
        await state.persist([held.queue for held in chosen], sure=True)
        for held in chosen:
            if state.queues.get(held.queue) is held:
                state.offsets.remove(held.queue)
                del state.queues[held.queue]

    def _on_message(self, request: DirectRequest) -> None:
        message = decode_record(request.body, decompress=True)
        queue = MessageQueue(message.topic, request.header.broker_name or "", message.queue_id)
        self._nursery.start_soon(self._directly, request, message, queue)

    async def _directly(self, request: DirectRequest, message: MessageExt, queue: MessageQueue) -> None:
        begun = time.monotonic()
        remark, context = None, self._direct.context_of(queue)
        try:
            result = _RESULTS[await self._direct.consume_directly(message, context)]
        except Exception as error:  # of the application; it is the answer that the administrator wants
            log.warning("the listener failed on %s, consumed on request", message.msg_id, exc_info=True)
            result, remark = CMResult.CR_THROW_EXCEPTION, f"{type(error).__name__}: {error}"
        body = ConsumeMessageDirectlyResult(
            order=self._state.orderly,
            auto_commit=not self._state.orderly or context.auto_commit,
            consume_result=result,
            remark=remark,
            spent_time_mills=round((time.monotonic() - begun) * 1000),
        )
        request.send(request.reply(body))
