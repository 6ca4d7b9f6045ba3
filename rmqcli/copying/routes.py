"""The queues to which copies are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rmqcli.codec.core.hashing import java_string_hash
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.property_names import PropertyName
from rmqcli.copying.errors import QueuesDiffer
from rmqcli.counts import many

KEEP, HASH = "keep", "hash"
Route = Callable[[MessageQueue, MessageExt], MessageQueue]


def route_of(
    how: str,
    sources: Sequence[MessageQueue],
    targets: Sequence[MessageQueue],
    known: Mapping[MessageQueue, MessageQueue] = {},
) -> Route:
    """Return the function that chooses the queue of a message that was read from a queue.

    KEEP pairs the queues; `known` pairs are kept. HASH uses the message group (5.x), otherwise the first key,
    so that messages with equal keys share a queue; messages without one keep the order of their queue. Raises
    QueuesDiffer.
    """
    sources, targets = sorted(sources), sorted(targets)
    if how == KEEP:
        pairs = paired(sources, targets, known)
        return lambda queue, message: pairs[queue]
    places = {queue: targets[place % len(targets)] for place, queue in enumerate(sources)}

    def by_key(queue: MessageQueue, message: MessageExt) -> MessageQueue:
        key = message.properties.get(PropertyName.SHARDING_KEY) or next(iter(message.keys), None)
        return places[queue] if key is None else targets[java_string_hash(key) % len(targets)]

    return by_key


def paired(
    sources: Sequence[MessageQueue],
    targets: Sequence[MessageQueue],
    known: Mapping[MessageQueue, MessageQueue] = {},
) -> dict[MessageQueue, MessageQueue]:
    """Return the queue of the target for each one of the source.

    It is that of the same broker and number if all have one, otherwise the one at the same position in the
    sorted list. Raises QueuesDiffer.
    """
    if len(sources) != len(targets):
        raise QueuesDiffer(
            f"topic {sources[0].topic} has {many(len(sources), 'queue')}, topic {targets[0].topic} "
            f"{many(len(targets), 'queue')}: create it with {len(sources)}, or use --queues hash, which distributes "
            "the messages by key"
        )
    pairs = {queue: target for queue, target in known.items() if queue in sources and target in targets}
    rest = sorted(set(sources) - pairs.keys())
    free = sorted(set(targets) - set(pairs.values()))
    places = {(queue.broker_name, queue.queue_id): queue for queue in free}
    if all((queue.broker_name, queue.queue_id) in places for queue in rest):
        return pairs | {queue: places[queue.broker_name, queue.queue_id] for queue in rest}
    return pairs | dict(zip(rest, free, strict=True))
