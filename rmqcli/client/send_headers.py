"""The ext fields of send requests. Those of plain messages to the same queue differ in two only: the rest is kept."""

from __future__ import annotations

import msgspec

from codec.headers import SendMessageRequestHeaderV2, to_ext
from codec.message import SystemTopic
from codec.queue import MessageQueue
from rmqcli.client.instance import ClientInstance
from rmqcli.client.outgoing import Outgoing

__all__ = ["SendHeaders"]

MAX_KEPT = 4096  # queues whose header fields are kept
_WIRE = {field.name: field.encode_name for field in msgspec.structs.fields(SendMessageRequestHeaderV2)}
_BORN_TIMESTAMP, _PROPERTIES = _WIRE["born_timestamp"], _WIRE["properties"]


class SendHeaders:
    """Of one producer group."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._kept: dict[MessageQueue, dict[str, str]] = {}

    def ext(self, outgoing: Outgoing, queue: MessageQueue) -> dict[str, str]:
        """A new dict for every request."""
        plain = not (outgoing.sys_flag or outgoing.flag or outgoing.batch or outgoing.reconsume_times)
        kept = self._kept.get(queue) if plain and outgoing.max_reconsume_times is None else None
        if kept is None:
            ext = to_ext(self._header(outgoing, queue))
            if plain and outgoing.max_reconsume_times is None:
                if len(self._kept) >= MAX_KEPT:
                    self._kept.clear()
                self._kept[queue] = ext
            return dict(ext)
        ext = kept.copy()
        ext[_BORN_TIMESTAMP] = str(self._instance.now_ms())
        ext[_PROPERTIES] = outgoing.properties
        return ext

    def _header(self, outgoing: Outgoing, queue: MessageQueue) -> SendMessageRequestHeaderV2:
        return SendMessageRequestHeaderV2(
            producer_group=self._group,
            topic=outgoing.topic,
            default_topic=SystemTopic.AUTO_CREATE,
            default_topic_queue_nums=self._instance.default_queues,
            queue_id=queue.queue_id,
            sys_flag=outgoing.sys_flag,
            born_timestamp=self._instance.now_ms(),
            flag=outgoing.flag,
            properties=outgoing.properties,
            reconsume_times=outgoing.reconsume_times,
            unit_mode=self._instance.unit_mode,
            max_reconsume_times=outgoing.max_reconsume_times,
            batch=outgoing.batch,
            bname=queue.broker_name,
        )
