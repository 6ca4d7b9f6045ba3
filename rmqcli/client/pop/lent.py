"""The receipt handles of received messages, which the client derives from the reply (Java
`MQClientAPIImpl.processPopResponse`). A message keeps its handle in the property POP_CK.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msgspec.structs import force_setattr

from rmqcli.client.errors import UnexpectedReply
from rmqcli.codec.errors import HeaderError
from rmqcli.codec.headers.pop import PopMessageResponseHeader
from rmqcli.codec.message import MessageExt, PropertyName
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.operations.pop import POP_MESSAGE
from rmqcli.codec.receipt_handle import (
    NORMAL,
    ReceiptHandle,
    parse_order_counts,
    parse_part_infos,
    retry_flag,
)

Place = tuple[str, int]
"""A retry flag and a queue id."""


def add_handles(
    messages: Sequence[MessageExt], header: PopMessageResponseHeader, source: MessageQueue
) -> None:
    """Add its handle to each message. Those of retry topics get the topic of `source`.

    Raises UnexpectedReply for texts that cannot be read.
    """
    try:
        parts = {
            (part.retry, part.queue_id): (part.start_offset, part.offsets)
            for part in parse_part_infos(header.start_offset_info, header.msg_offset_info)
        }
        counts = parse_order_counts(header.order_count_info)
    except HeaderError as error:
        raise UnexpectedReply(source.broker_name, POP_MESSAGE.name, str(error)) from error
    for (flag, queue_id), some in _by_place(messages).items():
        own = [message.queue_offset for message in some]
        # A broker older than 5.0.0 does not name the offsets.
        start, offsets = parts.get((flag, queue_id)) or (own[0], own)
        for message, offset in zip(some, _handle_offsets(own, offsets), strict=True):
            handle = ReceiptHandle(
                start,
                header.pop_time,
                header.invisible_time,
                header.revive_qid,
                flag,
                source.broker_name,
                queue_id,
                offset,
            )
            message.properties[PropertyName.POP_CK] = handle.encode()
            if times := counts.get((flag, queue_id, offset)):
                force_setattr(message, "reconsume_times", times)
    for message in messages:
        message.properties.setdefault(PropertyName.FIRST_POP_TIME, str(header.pop_time))
        force_setattr(message, "topic", source.topic)


def _by_place(messages: Iterable[MessageExt]) -> dict[Place, list[MessageExt]]:
    """Return the messages without a handle; a retried one that has its topic again comes with its handle."""
    found: dict[Place, list[MessageExt]] = {}
    for message in messages:
        if not _is_retried(message.properties.get(PropertyName.POP_CK)):
            found.setdefault((retry_flag(message.topic), message.queue_id), []).append(message)
    return found


def _is_retried(text: str | None) -> bool:
    try:
        return text is not None and ReceiptHandle.decode(text).retry != NORMAL
    except HeaderError:  # the producer has sent this property
        return False


def _handle_offsets(own: Sequence[int], named: Sequence[int]) -> Sequence[int]:
    """Return the offset in the handle of each message, given those of the messages and those that the reply names.

    They differ for the messages of an inner batch, which have the handle of the batch, and if messages at the
    end are left out.
    """
    if len(own) == len(named):
        return named
    return [named[max(0, bisect_right(named, offset) - 1)] for offset in own]
