"""Questions about offsets of one queue, and the commit. Shared by PullConsumer and Admin."""

from __future__ import annotations

from codec.codes import RequestCode, ResponseCode
from codec.headers.base import to_ext
from codec.headers.offsets import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from codec.message_queue import MessageQueue
from rmqcli.client.instance import ClientInstance, reply_header
from rmqcli.client.wire.request_headers import command

__all__ = ["OffsetCalls"]


class OffsetCalls:
    """Mixin: each call asks the master of the queue's broker, reads ask a slave when it cannot be reached."""

    instance: ClientInstance
    group: str = ""

    async def min_offset(self, queue: MessageQueue) -> int:
        """The lowest offset that can still be read."""
        queue = self.instance.namespace.wrap_queue(queue)
        header = GetMinOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name
        )
        reply = await self.instance.read_queue(queue, RequestCode.GET_MIN_OFFSET, header)
        return reply_header(
            GetMinOffsetResponseHeader, reply, queue.broker_name, RequestCode.GET_MIN_OFFSET
        ).offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        queue = self.instance.namespace.wrap_queue(queue)
        header = GetMaxOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name
        )
        reply = await self.instance.read_queue(queue, RequestCode.GET_MAX_OFFSET, header)
        return reply_header(
            GetMaxOffsetResponseHeader, reply, queue.broker_name, RequestCode.GET_MAX_OFFSET
        ).offset

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at `timestamp_ms` (epoch) or later.

        Brokers of 4.9 may answer any of several messages of that millisecond, a neighbour, and the last one when there is none.
        """
        queue = self.instance.namespace.wrap_queue(queue)
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        header = SearchOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms, bname=queue.broker_name
        )
        reply = await self.instance.read_queue(queue, code, header)
        return reply_header(SearchOffsetResponseHeader, reply, queue.broker_name, code).offset

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the oldest message of the queue was stored (epoch ms); -1 when the queue is empty."""
        queue = self.instance.namespace.wrap_queue(queue)
        code = RequestCode.GET_EARLIEST_MSG_STORETIME
        header = GetEarliestMsgStoretimeRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name
        )
        reply = await self.instance.read_queue(queue, code, header)
        return reply_header(GetEarliestMsgStoretimeResponseHeader, reply, queue.broker_name, code).timestamp

    async def committed(self, queue: MessageQueue, group: str | None = None) -> int | None:
        """The next offset the group will consume; None when it never committed there.

        A broker answers 0 for a group that it does not know on a queue that is still wholly in memory.
        """
        queue = self.instance.namespace.wrap_queue(queue)
        code = RequestCode.QUERY_CONSUMER_OFFSET
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self.instance.namespace.wrap(group or self.group),
            topic=queue.topic,
            queue_id=queue.queue_id,
            bname=queue.broker_name,
        )
        reply = await self.instance.read_queue(
            queue, code, header, ok=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        )
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return reply_header(QueryConsumerOffsetResponseHeader, reply, queue.broker_name, code).offset

    async def commit(
        self, queue: MessageQueue, offset: int, group: str | None = None, *, oneway: bool = False
    ) -> None:
        """Sets the group's next offset of the queue. Running consumers of the group overwrite it within seconds."""
        queue = self.instance.namespace.wrap_queue(queue)
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=self.instance.namespace.wrap(group or self.group),
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker_name,
        )
        address = (await self.instance.broker_addresses(queue))[0]
        if oneway:
            await self.instance.pool.oneway(address, command(code, to_ext(header)), self.instance.timeout)
        else:
            await self.instance.call(address, code, header)
