"""The offset at which a group starts to consume a queue (Java `computePullFromWhereWithException`)."""

from __future__ import annotations

from codec.bodies.heartbeat import ConsumeFromWhere
from codec.message import RETRY_PREFIX
from codec.message_queue import MessageQueue
from rmqcli.client.group.offset_store import OffsetStore
from rmqcli.client.group.offsets import OffsetCalls
from rmqcli.client.instance import ClientInstance

HALF_AN_HOUR = 30 * 60 * 1000  # ms


class StartOffsets(OffsetCalls):
    """`from_timestamp` (epoch ms) is for CONSUME_FROM_TIMESTAMP; None: half an hour before `started_ms`."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        offsets: OffsetStore,
        consume_from: ConsumeFromWhere,
        from_timestamp: int | None,
    ) -> None:
        self.instance = instance
        self.group = group
        self._offsets = offsets
        self._consume_from = consume_from
        self._from_timestamp = from_timestamp
        self.started_ms = instance.now_ms()

    async def find(self, queue: MessageQueue) -> int:
        """The stored offset, else the one that the settings select; ClientError if no broker replies."""
        stored = await self._offsets.read(queue)
        return await self._first(queue) if stored is None else stored

    async def _first(self, queue: MessageQueue) -> int:
        """On a retry topic a LAST group misses nothing, and a TIMESTAMP group starts at the end."""
        is_retry = queue.topic.startswith(RETRY_PREFIX)
        if self._consume_from is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            return 0
        if self._consume_from is not ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
            return 0 if is_retry else await self.max_offset(queue)
        if is_retry:
            return await self.max_offset(queue)
        given = self._from_timestamp
        return await self.search_offset(queue, self.started_ms - HALF_AN_HOUR if given is None else given)
