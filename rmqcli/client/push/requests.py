"""What brokers ask of a consumer: members changed (40), reset offsets (220), status (221), running info (307), consume one
message now (309). Java class `ClientRemotingProcessor`.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import trio

from codec.bodies.base import decode_body, encode_body
from codec.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from codec.bodies.running import CMResult, ConsumeMessageDirectlyResult
from codec.codes import RequestCode, ResponseCode
from codec.headers.base import from_ext
from codec.headers.clients import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from codec.headers.offsets import GetConsumerStatusRequestHeader, ResetOffsetRequestHeader
from codec.message import MessageExt
from codec.message_queue import MessageQueue
from codec.remoting.frame import RemotingCommand, encode_frame
from codec.store.record import decode_record
from rmqcli.client.group.broker_requests import RequestHandler
from rmqcli.client.push.listener import ConsumeResult, OrderlyResult
from rmqcli.client.push.process_queue import ProcessQueue
from rmqcli.client.push.running_info import running_info
from rmqcli.client.push.state import GroupState, log
from rmqcli.client.wire.link import Link

__all__ = ["ConsumerRequests", "Direct"]

RESET_WAIT = 10.0
"""Seconds that running listeners get before their queues are moved."""

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
    """How one message is consumed on request."""

    def context_of(self, queue: MessageQueue) -> Any: ...
    async def consume_directly(self, message: MessageExt, context: Any) -> object: ...


class ConsumerRequests:
    """The answers of one consumer; slow ones run in its nursery."""

    def __init__(self, state: GroupState, direct: Direct, nursery: trio.Nursery) -> None:
        self._state = state
        self._direct = direct
        self._nursery = nursery
        # Resets of several queues overlap: only the first knows whether the consumer was paused before, the last lets it go on.
        self._resets = 0
        self._was_paused = False
        self._handlers: dict[int, RequestHandler] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self.members_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self.reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self.status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
        }

    def open(self) -> None:
        self._state.instance.requests.join(self._state.group, self._handlers)

    def close(self) -> None:
        self._state.instance.requests.part(self._state.group, self._handlers)

    def members_changed(self, link: Link, request: RemotingCommand) -> None:
        self._state.rebalance_soon()

    def reset(self, link: Link, request: RemotingCommand) -> None:
        header = from_ext(ResetOffsetRequestHeader, request.ext_fields)
        table = decode_body(ResetOffsetBody, request.body).offset_table
        self._nursery.start_soon(self._reset, header.topic, table)

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
            state.rebalance_soon()

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

    def status(self, link: Link, request: RemotingCommand) -> RemotingCommand:
        header = from_ext(GetConsumerStatusRequestHeader, request.ext_fields)
        body = GetConsumerStatusBody(message_queue_table=self._state.offsets.table(header.topic))
        return request.reply(ResponseCode.SUCCESS, None, None, encode_body(body))

    def info(self, link: Link, request: RemotingCommand) -> RemotingCommand:
        header = from_ext(GetConsumerRunningInfoRequestHeader, request.ext_fields)
        body = running_info(self._state, stacks=header.jstack_enable)
        return request.reply(ResponseCode.SUCCESS, None, None, encode_body(body))

    def consume_directly(self, link: Link, request: RemotingCommand) -> None:
        header = from_ext(ConsumeMessageDirectlyResultRequestHeader, request.ext_fields)
        message = decode_record(request.body, decompress=True)
        queue = MessageQueue(message.topic, header.broker_name or "", message.queue_id)
        self._nursery.start_soon(self._directly, link, request, message, queue)

    async def _directly(
        self, link: Link, request: RemotingCommand, message: MessageExt, queue: MessageQueue
    ) -> None:
        begun = time.monotonic()
        remark, context = None, self._direct.context_of(queue)
        try:
            result = _RESULTS[await self._direct.consume_directly(message, context)]
        except Exception as error:  # the application's, and what the administrator wants to see
            log.warning("the listener failed on %s, consumed on request", message.msg_id, exc_info=True)
            result, remark = CMResult.CR_THROW_EXCEPTION, f"{type(error).__name__}: {error}"
        body = ConsumeMessageDirectlyResult(
            order=self._state.orderly,
            auto_commit=not self._state.orderly or context.auto_commit,
            consume_result=result,
            remark=remark,
            spent_time_mills=round((time.monotonic() - begun) * 1000),
        )
        link.send_frame(encode_frame(request.reply(ResponseCode.SUCCESS, None, None, encode_body(body))))
