"""Requests about the offsets of one queue (Java `MQAdminImpl`), shared by consumers and Admin."""

from __future__ import annotations

from codec.headers.offsets import (
    GetEarliestMsgStoretimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from codec.message_queue import MessageQueue
from codec.operations.offsets import (
    GET_EARLIEST_MSG_STORETIME,
    GET_MAX_OFFSET,
    GET_MIN_OFFSET,
    QUERY_CONSUMER_OFFSET,
    SEARCH_OFFSET_BY_TIMESTAMP,
    UPDATE_CONSUMER_OFFSET,
)
from rmqcli.client.instance import ClientInstance


class OffsetCalls:
    """Mixin of consumers and Admin. Reads go to a slave if the master of a queue cannot be reached."""

    instance: ClientInstance
    group: str = ""
    zero_if_absent: bool | None = None
    """The answer wanted from brokers that know no offset: 0 where they can (None, as Java), or never."""

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the lowest offset that can still be read."""
        queue = self.instance.namespace.wrap_queue(queue)
        topic, name, number = queue.topic, queue.broker_name, queue.queue_id
        header = GetMinOffsetRequestHeader(topic=topic, queue_id=number, bname=name)
        return (await self.instance.ask_queue(queue, GET_MIN_OFFSET, header)).header.offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message will get."""
        queue = self.instance.namespace.wrap_queue(queue)
        topic, name, number = queue.topic, queue.broker_name, queue.queue_id
        header = GetMaxOffsetRequestHeader(topic=topic, queue_id=number, bname=name)
        return (await self.instance.ask_queue(queue, GET_MAX_OFFSET, header)).header.offset

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message stored at `timestamp_ms` (epoch) or later.

        Brokers of 4.9 may return any of several messages of that millisecond, or a neighbour, and the last
        message when there is none.
        """
        queue = self.instance.namespace.wrap_queue(queue)
        topic, name, number = queue.topic, queue.broker_name, queue.queue_id
        header = SearchOffsetRequestHeader(topic=topic, queue_id=number, timestamp=timestamp_ms, bname=name)
        return (await self.instance.ask_queue(queue, SEARCH_OFFSET_BY_TIMESTAMP, header)).header.offset

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """Return the time (epoch ms) at which the oldest message of the queue was stored; -1 for an empty
        queue.
        """
        queue = self.instance.namespace.wrap_queue(queue)
        topic, name, number = queue.topic, queue.broker_name, queue.queue_id
        header = GetEarliestMsgStoretimeRequestHeader(topic=topic, queue_id=number, bname=name)
        return (await self.instance.ask_queue(queue, GET_EARLIEST_MSG_STORETIME, header)).header.timestamp

    async def committed(self, queue: MessageQueue, group: str | None = None) -> int | None:
        """Return the next offset that the group will consume; None when it never committed one.

        A broker of 4.9 answers 0 for an unknown group while the queue is still wholly in memory; others do so
        unless `zero_if_absent` is False.
        """
        queue = self.instance.namespace.wrap_queue(queue)
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self.instance.namespace.wrap(group or self.group),
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=self.zero_if_absent,
            bname=queue.broker_name,
        )
        answer = await self.instance.find_in_queue(queue, QUERY_CONSUMER_OFFSET, header)
        return None if answer is None else answer.header.offset

    async def commit(
        self, queue: MessageQueue, offset: int, group: str | None = None, *, oneway: bool = False
    ) -> None:
        """Set the group's next offset. Running consumers of the group overwrite it within seconds."""
        queue = self.instance.namespace.wrap_queue(queue)
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=self.instance.namespace.wrap(group or self.group),
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker_name,
        )
        address = (await self.instance.broker_addresses(queue))[0]
        if oneway:
            await self.instance.send_oneway(address, UPDATE_CONSUMER_OFFSET, header)
        else:
            await self.instance.ask(address, UPDATE_CONSUMER_OFFSET, header, None)
