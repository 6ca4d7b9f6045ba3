"""A dead letter as a message: its original form before its retries, and the properties of its way back.

Brokers store a message that goes to the dead-letter topic with RETRY_TOPIC and ORIGIN_MESSAGE_ID (Java
`AbstractSendMessageProcessor.consumerSendMsgBack`), 5.x also with DLQ_ORIGIN_TOPIC and DLQ_ORIGIN_MESSAGE_ID;
clients add RECONSUME_TIME and MAX_RECONSUME_TIMES to a retry that they send themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from rmqcli.codec.message import Message, MessageExt
from rmqcli.codec.property_names import TIMERS, PropertyName
from rmqcli.grammar.offset_range import OffsetRange


class DeadLetterError(Exception):
    """Base class of these errors."""


class NoDeadLetters(DeadLetterError):
    """The group has no dead-letter topic."""


class NotReadable(DeadLetterError):
    """The dead-letter topic has no read permission."""


class JournalError(DeadLetterError):
    """The progress file has another purpose, or is in use."""


REDRIVEN_FROM: Final = "REDRIVEN_FROM"
"""Property of a message that was sent back: `TOPIC BROKER QUEUE OFFSET` of its dead letter."""

_ORIGIN_TOPICS = (PropertyName.DLQ_ORIGIN_TOPIC, PropertyName.RETRY_TOPIC)
_ORIGIN_IDS = (PropertyName.DLQ_ORIGIN_MESSAGE_ID, PropertyName.ORIGIN_MESSAGE_ID)
DROPPED: Final = TIMERS | frozenset(
    (
        *(*_ORIGIN_TOPICS, *_ORIGIN_IDS),
        *(PropertyName.RECONSUME_TIME, PropertyName.MAX_RECONSUME_TIMES, PropertyName.CONSUME_START_TIME),
        *(PropertyName.DELAY, PropertyName.WAIT, PropertyName.REAL_TOPIC, PropertyName.REAL_QID),
        *(PropertyName.TRAN_MSG, PropertyName.PGROUP, PropertyName.TRAN_PREPARED_QUEUE_OFFSET),
        *(PropertyName.MIN_OFFSET, PropertyName.MAX_OFFSET, PropertyName.CLUSTER, PropertyName.MSG_REGION),
        *(PropertyName.POP_CK, PropertyName.POP_CK_OFFSET, PropertyName.FIRST_POP_TIME),
        *(PropertyName.INNER_MULTI_QUEUE_OFFSET, PropertyName.CRC32, PropertyName.TRACE_ON),
        *(PropertyName.TIMER_OUT_MS, PropertyName.TIMER_ENQUEUE_MS, PropertyName.TIMER_DEQUEUE_MS),
        *(PropertyName.TIMER_ROLL_TIMES, PropertyName.TIMER_DELAY_LEVEL),
    )
)
"""Properties of delivery, retry, delay and transaction, which a new message must not have."""


def origin_topic(letter: MessageExt) -> str | None:
    """Return the topic to which the message was sent; None if its properties do not name it."""
    return next((topic for name in _ORIGIN_TOPICS if (topic := letter.properties.get(name))), None)


def ids(letter: MessageExt) -> frozenset[str]:
    """Return every id by which the message may be known, in upper case."""
    own = {letter.msg_id, letter.offset_msg_id}
    own |= {letter.properties[name] for name in _ORIGIN_IDS if name in letter.properties}
    return frozenset(one.upper() for one in own)


def identity(letter: MessageExt) -> str:
    """Return a string that identifies this letter uniquely, even after its topic was deleted and created
    again.
    """
    return f"{letter.offset_msg_id}@{letter.store_timestamp}"


def restored(letter: MessageExt, topic: str) -> Message:
    """Return the message as it was sent: body, flag, keys, tag, properties of the user, and message id."""
    place = f"{letter.topic} {letter.broker_name} {letter.queue_id} {letter.queue_offset}"
    kept = {name: value for name, value in letter.properties.items() if name not in DROPPED}
    kept[PropertyName.UNIQ_KEY] = letter.msg_id
    return Message(topic=topic, body=letter.body, flag=letter.flag, properties=kept | {REDRIVEN_FROM: place})


EVERYTHING = OffsetRange()
Test = Callable[[MessageExt], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects letters with one of the keys and one of the ids, in the range of offsets or times, that pass
    the test.

    An empty condition selects all.
    """

    keys: frozenset[str] = frozenset()
    wanted_ids: frozenset[str] = frozenset()
    span: OffsetRange = EVERYTHING
    test: Test | None = None

    @property
    def is_all(self) -> bool:
        """True if every letter is selected."""
        return self == Selection()

    def accepts(self, letter: MessageExt) -> bool:
        """Return True if a letter of the range is selected."""
        return (
            (not self.keys or not self.keys.isdisjoint(letter.keys))
            and (not self.wanted_ids or not self.wanted_ids.isdisjoint(ids(letter)))
            and (self.test is None or self.test(letter))
        )


def selection(
    keys: Collection[str], wanted_ids: Collection[str], span: OffsetRange, test: Test | None
) -> Selection:
    return Selection(frozenset(keys), frozenset(one.upper() for one in wanted_ids), span, test)
