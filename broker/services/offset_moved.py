"""OFFSET_MOVED_EVENT: a message about each pull whose offset the broker corrected (Java class
`PullMessageProcessor`).
"""

from __future__ import annotations

from broker.context import BrokerContext
from broker.services.put import put
from broker.store.values import StoreMessage
from codec.bodies.base import encode_body
from codec.bodies.offsets import OffsetMovedEvent
from codec.hashing import tags_code
from codec.headers.pull import PullMessageRequestHeader
from codec.message_queue import MessageQueue
from codec.names import SystemTopic
from codec.properties import PropertyName, encode_properties


def store_offset_moved(broker: BrokerContext, header: PullMessageRequestHeader, offset: int) -> None:
    """Stores a message about a corrected offset in OFFSET_MOVED_EVENT, as Java does."""
    event = OffsetMovedEvent(
        consumer_group=header.consumer_group,
        message_queue=MessageQueue(header.topic, broker.name, header.queue_id),
        offset_request=header.queue_offset,
        offset_new=offset,
    )
    properties = {PropertyName.TAGS: header.consumer_group, PropertyName.KEYS: header.consumer_group}
    put(
        broker,
        StoreMessage(
            topic=SystemTopic.OFFSET_MOVED_EVENT,
            queue_id=0,
            body=encode_body(event),
            properties=properties,
            properties_text=encode_properties(properties),
            born_timestamp=broker.now_ms(),
            born_host=broker.store_host,
            sys_flag=broker.own_host_flags,
            tags_code=tags_code(header.consumer_group),
        ),
    )
