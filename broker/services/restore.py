"""Stored messages on their way into the store again: sent back, or delivered after their delay."""

from __future__ import annotations

from broker.store.values import StoreMessage
from codec.hashing import tags_code
from codec.ids import pack_host_text
from codec.message import MessageExt
from codec.properties import PropertyName

__all__ = ["restored"]


def restored(original: MessageExt, properties: dict[str, str], text: bytes) -> StoreMessage:
    """The same message with these properties: body, flags, birth and attempts as they were. It waits for no flush."""
    return StoreMessage(
        topic=original.topic,
        queue_id=original.queue_id,
        body=original.body,
        properties=properties,
        properties_text=text,
        born_timestamp=original.born_timestamp,
        born_host=pack_host_text(original.born_host),
        flag=original.flag,
        sys_flag=original.sys_flag,
        reconsume_times=original.reconsume_times,
        tags_code=tags_code(properties.get(PropertyName.TAGS)),
        wait_store=False,
    )
