"""Results of sends and pulls: frozen values. Times are epoch milliseconds, offsets are queue offsets."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.send import SendMessageResponseHeader
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue

DEFAULT_REGION = "DefaultRegion"


class SendStatus(Enum):
    """The status of a stored message.

    All except SEND_OK mean that flush or replication did not finish in time.

    ```python
    result = await producer.send(Message.of("orders", b"hello"))
    if result.status is not SendStatus.SEND_OK:
        print("stored, but not yet flushed or replicated:", result.status.name)
    ```
    """

    SEND_OK = ResponseCode.SUCCESS
    FLUSH_DISK_TIMEOUT = ResponseCode.FLUSH_DISK_TIMEOUT
    SLAVE_NOT_AVAILABLE = ResponseCode.SLAVE_NOT_AVAILABLE
    FLUSH_SLAVE_TIMEOUT = ResponseCode.FLUSH_SLAVE_TIMEOUT


class SendResult(NamedTuple):
    """An acknowledged message or batch (Java `SendResult`).

    `msg_id` is the UNIQ_KEY, `offset_msg_id` the broker's id, composed of its host and the position. Both are
    comma-joined for a batch, whose `queue_offset` is that of the first message. `trace_on`: the broker
    accepts traces. Pass `recall_handle` to `Producer.recall` to take back a message that is not due yet.

    ```python
    result = await producer.send(Message.of("orders", b"hello"))
    assert (result.message_queue.broker_name, result.queue_offset) == ("broker-a", 1)
    assert (await admin.messages.view(result.offset_msg_id)).msg_id == result.msg_id
    ```
    """

    status: SendStatus
    msg_id: str
    offset_msg_id: str
    message_queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region_id: str = DEFAULT_REGION
    trace_on: bool = True
    recall_handle: str | None = None


def send_result(
    status: SendStatus,
    msg_id: str,
    queue: MessageQueue,
    header: SendMessageResponseHeader,
) -> SendResult:
    """Return the result of a send to `queue` from the header of the reply."""
    if header.queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, header.queue_id)
    return SendResult(
        status,
        msg_id,
        header.msg_id,
        queue,
        header.queue_offset,
        header.transaction_id,
        header.msg_region or DEFAULT_REGION,
        header.trace_on != "false",
        header.recall_handle,
    )


class PullStatus(Enum):
    """Java `PullStatus`.

    ```python
    async with PullConsumer("readers") as consumer:
        result = await consumer.pull(MessageQueue("orders", "broker-a", 0), 99)
    assert result.status is PullStatus.OFFSET_ILLEGAL and not result.messages
    ```
    """

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MSG = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED_MSG = ResponseCode.PULL_RETRY_IMMEDIATELY
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED


SEND_STATUSES = {status.value.value: status for status in SendStatus}
PULL_STATUSES = {status.value.value: status for status in PullStatus}
"""Statuses by response code. Any other code is a refusal."""


class PullResult(NamedTuple):
    """The result of one pull, with messages in queue order. The next pull begins at `next_begin_offset`.

    FOUND may have no messages, because the broker matches hashes of tags and the client compares the tags.

    ```python
    async with PullConsumer("readers") as consumer:
        result = await consumer.pull(MessageQueue("orders", "broker-a", 0), 0)
    assert (result.min_offset, result.next_begin_offset, result.max_offset) == (0, 1, 1)
    ```
    """

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: list[MessageExt]
