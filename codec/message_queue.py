"""The identity of a queue: topic, broker name and queue id (Java class `MessageQueue`)."""

from __future__ import annotations

from typing import Annotated

import msgspec


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel", gc=False):
    """One queue of a topic on one broker, ordered by topic, broker name and queue id as in Java.

    ```python
    queue = MessageQueue("orders", "broker-a", 0)
    result = await producer.send(Message.of("orders", b"hello"), queue=queue)
    assert result.message_queue == queue
    ```
    """

    topic: str
    broker_name: str
    queue_id: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"
