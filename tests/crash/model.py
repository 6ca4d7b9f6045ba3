"""What the clients of a session know: which messages they sent, which were acknowledged, what they read.

A message is known by its number, which its body begins with. `kill` and `cut` say what must be there after
them; `settle` takes over what a recovered store holds: what was lost then must stay lost.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.crash.image import Image, Record

HALF, OP, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
SCHEDULE, TIMERS, MOVED = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "OFFSET_MOVED_EVENT"
RETRY_PREFIX, DEAD_PREFIX = "%RETRY%", "%DLQ%"


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
    time: float
    """When it was sent, on trio's clock."""
    level: int = 0
    delay_s: int = 0
    """That of a timer message."""
    end: End = End.NEVER
    is_flushed: bool = False
    """The broker acknowledges it only once it is on the disk."""
    place: tuple[int, int] | None = None
    must: bool = False
    """It has to survive the last power cut or kill."""
    there: bool = False
    lost: bool = False
    """What the last recovered store said."""
    first: int | None = None
    """Where the first record of it began that was ever seen in the log, copies not counted."""
    seen: set[int] = field(default_factory=set)
    """Where its records began, without those that a power cut may have taken."""
    gone: Gone = Gone.NO
    ended_in: int = -1
    """The life of the broker in which its transaction was ended last."""
    excused: int = 0
    """The number of crashes after which a second copy may follow: one was stored, and not yet that it was."""
    excused_copies: int = 0
    """The same for each copy that was sent back."""

    def see(self, offset: int) -> None:
        """Notes where a record of it is."""
        self.first = offset if self.first is None else min(self.first, offset)
        self.seen.add(offset)

    def keep(self, offsets: set[int], start: int) -> None:
        """Forgets records that a disk had not synced: of a log that begins at `start`, it had `offsets`."""
        self.seen = {offset for offset in self.seen if offset < start or offset in offsets} or self.seen


class Back(NamedTuple):
    """What a message is stored as when a consumer sends it back: to its retry topic, after a delay, or dead."""

    number: int
    topic: str
    reconsumed: int


@dataclass(eq=False, slots=True)
class Copies:
    """The copies of one kind: so many may be stored, were acknowledged, must be there; their delay levels."""

    asked: int = 0
    acknowledged: int = 0
    must: int = 0
    levels: set[int] = field(default_factory=set)


class Read(NamedTuple):
    """What a reader got: the number of the message, its commit-log offset, and if it was flushed by then."""

    number: int
    offset: int
    is_flushed: bool


@dataclass(eq=False, slots=True)
class Commit:
    """An offset that was committed, at a time on trio's clock."""

    time: float
    offset: int
    acknowledged: bool = False


@dataclass(eq=False)
class Model:
    """The knowledge of all clients; `life` counts the starts of the broker.

    `span_ms` is that of their clock: the difference of any two times that it has shown since one on trio's.
    `causes` are the reasons for which files may have been removed since the last recovered store, `forces_since`
    tells if any may have been, expired or not, since a time on trio's clock (`tests.crash.retention.Causes`).
    """

    span_ms: Callable[[float], int] = lambda _: 0
    causes: Callable[[], Sequence[str]] = tuple
    forces_since: Callable[[float], bool] = lambda _: False
    life: int = 0
    has_timers: bool = False
    """Most delayed messages are timer messages."""
    messages: dict[int, Sent] = field(default_factory=dict)
    topics: dict[str, bool | None] = field(default_factory=dict)
    """Topic → True if its creation was acknowledged, False if its deletion was; None between both."""
    commits: dict[tuple[str, str, int], list[Commit]] = field(default_factory=dict)
    """(topic, group, queue id) → offsets in the order of the requests."""
    read: dict[tuple[str, int, int], Read] = field(default_factory=dict)
    """(topic, queue id, queue offset) → what a reader got there."""
    backs: dict[Back, Copies] = field(default_factory=dict)
    """Messages that were sent back."""
    start: int = 0
    """Where the log began in the last recovered store."""
    settled: bool = True
    """False from a power cut or kill to the next recovered store; `killed` says which it was."""
    killed: bool = False
    saved_by: float = 0.0
    """Offsets that were committed before this time must be in the table."""

    def new(self, topic: str, queue_id: int, keys: tuple[str, ...], kind: Kind, time: float) -> Sent:
        number = len(self.messages) + 1
        sent = self.messages[number] = Sent(number, topic, queue_id, keys, kind, time)
        return sent

    def ask_back(self, number: int, topic: str, reconsumed: int, level: int) -> Copies:
        """Notes a request to send a message back, to be delivered after the delay of a level."""
        copies = self.backs.setdefault(Back(number, topic, reconsumed), Copies())
        copies.asked += 1
        copies.levels.add(level)
        return copies

    def is_expired(self, sent: Sent, start: int) -> bool:
        """True if the records of a message, but for those that a power cut took, were in removed files."""
        return bool(sent.seen) and max(sent.seen) < start

    def is_partly_expired(self, sent: Sent, start: int) -> bool:
        """True if some of them may have been."""
        return start > 0 and (sent.first is None or sent.first < start)

    def acknowledge(self, sent: Sent, queue_offset: int, offset: int, *, is_flushed: bool) -> None:
        sent.place, sent.is_flushed = (queue_offset, offset), is_flushed
        sent.see(offset)

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
        for copies in self.backs.values():
            copies.must = copies.acknowledged

    def cut(self, synced: Image) -> None:
        """Power is lost: what was acknowledged behind a sync must be there, and what the disk has synced."""
        self.settled = self.killed = False
        on_disk = self._see(synced)
        offsets = {record.offset for record in synced.records}
        for sent in self.messages.values():
            sent.keep(offsets, synced.start)
            sent.must = sent.is_flushed or sent.number in on_disk
        stored = stored_copies(synced)
        for back, copies in self.backs.items():
            copies.must = stored[back]

    def _see(self, image: Image) -> set[int]:
        """Notes where the records of messages are; returns the numbers of those that there are."""
        found = [record for record in image.records if record_number(record) and back_of(record) is None]
        for record in found:
            self.messages[record_number(record)].see(record.offset)
        return {record_number(record) for record in found}

    def settle(self, image: Image, time: float) -> None:
        """Takes what a recovered store holds for what there is."""
        present = self._see(image)
        places = {record.place: record_number(record) for record in image.records}
        ended = {int(record.body) for record in image.records if record.topic == OP}
        delivered = {
            record_number(record)
            for record in image.records
            if record.topic not in (SCHEDULE, TIMERS, HALF) and back_of(record) is None
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
            sent.lost |= not sent.there and not self.is_expired(sent, image.start)
            if sent.number in delivered and (sent.kind is Kind.DELAYED or sent.number in open_halves):
                sent.excused += 1
        self._settle_deletions(image)
        self.read = {place: read for place, read in self.read.items() if places.get(place) == read.number}
        stored, delivered_copies = stored_copies(image), delivered_backs(image)
        for back, copies in self.backs.items():
            copies.asked = copies.acknowledged = stored[back]
        for number in {back.number for back in delivered_copies}:
            self.messages[number].excused_copies += 1
        self.start = image.start
        saved = image.offsets
        self.commits = {
            place: [Commit(time, saved[place], acknowledged=True)] for place in self.commits if place in saved
        }

    def _settle_deletions(self, image: Image) -> None:
        """Takes over what became of deletions that nobody acknowledged: none of them is undone or done later."""
        for record in image.records:
            sent = self.messages.get(record_number(record))
            if sent is not None and sent.gone is Gone.MAYBE and record.topic == sent.topic:
                entry = image.queues.get(record.place[:2], {}).get(record.queue_offset)
                has_entry = entry is not None and entry.offset == record.offset
                sent.gone = Gone.NO if has_entry else Gone.YES


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    return DEAD_PREFIX + group


def back_of(record: Record) -> Back | None:
    """What was sent back, if the record is such a copy: parked, delivered or dead."""
    topic = record.properties.get("REAL_TOPIC", "") if record.topic == SCHEDULE else record.topic
    if not topic.startswith((RETRY_PREFIX, DEAD_PREFIX)):
        return None
    return Back(record_number(record), topic, record.reconsumed)


def stored_copies(image: Image) -> Counter[Back]:
    """How often each was stored for one request: parked, or dead at once."""
    found = (back_of(record) for record in image.records if not record.topic.startswith(RETRY_PREFIX))
    return Counter(back for back in found if back is not None)


def delivered_backs(image: Image) -> Counter[Back]:
    """How often each is in its retry topic."""
    found = (back_of(record) for record in image.records if record.topic.startswith(RETRY_PREFIX))
    return Counter(back for back in found if back is not None)


def record_number(record: Record) -> int:
    """The number of the message that a record holds; 0 for the broker's own."""
    head, colon, _ = record.body.partition(b":")
    return int(head) if colon and head.isdigit() else 0
