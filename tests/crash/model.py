"""What the clients of a session know: which messages they sent, which were acknowledged, what they read.

A message is known by its number, which its body begins with. `kill` and `cut` say what must be there after
them; `settle` takes over what a recovered store holds: what was lost then must stay lost.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tests.crash.image import Image, Record

HALF, OP, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


class Kind(enum.Enum):
    """How a message was sent."""

    PLAIN = enum.auto()
    DELAYED = enum.auto()
    HALF = enum.auto()


class End(enum.Enum):
    """What a producer decided on a half message."""

    COMMIT = 8
    ROLL_BACK = 12
    NEVER = 0


class Gone(enum.Enum):
    """What deletions of its topic did to a message."""

    NO = enum.auto()
    MAYBE = enum.auto()
    """A deletion was requested and not acknowledged."""
    YES = enum.auto()


@dataclass(eq=False, slots=True)
class Sent:
    """A message that a client sent. `place` is the queue offset and commit-log offset of the reply."""

    number: int
    topic: str
    queue_id: int
    keys: tuple[str, ...]
    kind: Kind
    level: int = 0
    end: End = End.NEVER
    is_flushed: bool = False
    """The broker acknowledges it only once it is on the disk."""
    place: tuple[int, int] | None = None
    must: bool = False
    """It has to survive the last power cut or kill."""
    there: bool = False
    lost: bool = False
    """What the last recovered store said."""
    gone: Gone = Gone.NO
    ended_in: int = -1
    """The life of the broker in which its transaction was ended last."""
    excused: int = 0
    """The number of crashes after which a second copy may follow: one was stored, and not yet that it was."""


@dataclass(eq=False, slots=True)
class Commit:
    """An offset that was committed, at a time on trio's clock."""

    time: float
    offset: int
    acknowledged: bool = False


@dataclass(eq=False)
class Model:
    """The knowledge of all clients; `life` counts the starts of the broker."""

    life: int = 0
    messages: dict[int, Sent] = field(default_factory=dict)
    topics: dict[str, bool | None] = field(default_factory=dict)
    """Topic → True if its creation was acknowledged, False if its deletion was; None between both."""
    commits: dict[tuple[str, str, int], list[Commit]] = field(default_factory=dict)
    """(topic, group, queue id) → offsets in the order of the requests."""
    read: dict[tuple[str, int, int], tuple[int, bool]] = field(default_factory=dict)
    """(topic, queue id, queue offset) → the number that a reader got there, and if it was flushed by then."""
    settled: bool = True
    """False from a power cut or kill to the next recovered store; `killed` says which it was."""
    killed: bool = False
    saved_by: float = 0.0
    """Offsets that were committed before this time must be in the table."""

    def new(self, topic: str, queue_id: int, keys: tuple[str, ...], kind: Kind) -> Sent:
        number = len(self.messages) + 1
        sent = self.messages[number] = Sent(number, topic, queue_id, keys, kind)
        return sent

    def acknowledge(self, sent: Sent, queue_offset: int, offset: int, *, is_flushed: bool) -> None:
        sent.place, sent.is_flushed = (queue_offset, offset), is_flushed

    def deletion(self, topic: str, gone: Gone) -> None:
        """Notes a deletion: of what was sent so far when it is requested, of the same when acknowledged."""
        wanted = Gone.NO if gone is Gone.MAYBE else Gone.MAYBE
        for sent in self.messages.values():
            if sent.topic == topic and sent.gone is wanted:
                sent.gone = gone
        self.topics[topic] = None if gone is Gone.MAYBE else False

    def kill(self) -> None:
        """The process dies: whatever was acknowledged or there must be there."""
        if not self.settled:
            return  # in a recovery: what the power cut or kill before it left
        self.settled, self.killed = False, True
        for sent in self.messages.values():
            sent.must = sent.place is not None or sent.there

    def cut(self, synced: Image) -> None:
        """Power is lost: what was acknowledged behind a sync must be there, and what the disk has synced."""
        self.settled = self.killed = False
        on_disk = {record_number(record) for record in synced.records}
        for sent in self.messages.values():
            sent.must = sent.is_flushed or sent.number in on_disk

    def settle(self, image: Image, time: float) -> None:
        """Takes what a recovered store holds for what there is."""
        present = {record_number(record) for record in image.records}
        places = {record.place: record_number(record) for record in image.records}
        ended = {int(record.body) for record in image.records if record.topic == OP}
        delivered = {
            record_number(record) for record in image.records if record.topic not in (SCHEDULE, HALF)
        }
        scanned = image.offsets.get((HALF, "CID_RMQ_SYS_TRANS", 0), 0)
        open_halves = {
            record_number(record)
            for record in image.records
            if record.topic == HALF and record.queue_offset >= scanned and record.queue_offset not in ended
        }
        self.settled = True
        for sent in self.messages.values():
            sent.there = sent.number in present
            sent.lost |= not sent.there
            if sent.number in delivered and (sent.kind is Kind.DELAYED or sent.number in open_halves):
                sent.excused += 1
        self.read = {place: found for place, found in self.read.items() if places.get(place) == found[0]}
        saved = image.offsets
        self.commits = {
            place: [Commit(time, saved[place], acknowledged=True)] for place in self.commits if place in saved
        }


def record_number(record: Record) -> int:
    """The number of the message that a record holds; 0 for the broker's own."""
    head, colon, _ = record.body.partition(b":")
    return int(head) if colon and head.isdigit() else 0
