"""Compares the image of a store with what its clients know. Every function raises AssertionError."""

from __future__ import annotations

import bisect
from collections import defaultdict

from tests.crash.image import Image, Record, index_hash, java_hash
from tests.crash.model import (
    DEAD_PREFIX,
    GIVEN_UP,
    HALF,
    MOVED,
    OP,
    SCHEDULE,
    TIMERS,
    Back,
    Copies,
    End,
    Gone,
    Kind,
    Model,
    Sent,
    back_of,
    delivered_backs,
    record_number,
    stored_copies,
)
from tests.crash.plan import MOST_RETRIES, RESERVED_H

DELAYS_MS = (1_000, 5_000, 20_000)
"""Of the levels 1 to 3."""
HOUR_MS = 3_600_000
SYSTEM = frozenset((HALF, OP, GIVEN_UP, SCHEDULE, TIMERS, MOVED))


def check(model: Model, image: Image, *, is_indexed: bool = True) -> None:
    """Checks a store that was recovered or stopped cleanly.

    Where the disk had no room for the index (`is_indexed` is false), keys wait in memory, and no file has them.
    """
    behind = image.bytes_behind_log()
    assert not behind, f"{behind} bytes behind the log"
    by_number = _by_number(model, image)
    for sent in model.messages.values():
        records = [record for record in by_number[sent.number] if back_of(record) is None]
        if records or not _has_expired(model, image, sent):
            assert records or not sent.must or sent.lost, f"message {sent.number} is lost: {sent}"
        assert not (records and sent.lost), f"message {sent.number} came back: {sent}"
        _check_copies(sent, records, is_whole=not model.is_partly_expired(sent, image.start))
        _check_place(sent, records, image)
    _check_start(model, image)
    _check_places(model)
    _check_backs(model, image)
    _check_queues(model, image)
    if is_indexed:
        _check_index(image)
    _check_reads(model, image)
    _check_offsets(model, image)
    _check_topics(model, image)


def check_done(model: Model, image: Image) -> None:
    """Checks a store whose broker had the time to deliver and to end whatever was due."""
    by_number = _by_number(model, image)
    given_up = {record_number(record) for record in image.records if record.topic == GIVEN_UP}
    delivered = delivered_backs(image)
    for back, count in stored_copies(image).items():
        assert delivered[back] >= count or back.topic.startswith(DEAD_PREFIX), f"{back} was never delivered"
    for sent in model.messages.values():
        records = [record for record in by_number[sent.number] if back_of(record) is None]
        count = sum(record.topic == sent.topic for record in records)
        if not records or sent.kind is Kind.PLAIN:
            continue
        if sent.kind is Kind.HALF and _is_old(model, sent):
            continue  # checks give up half messages that may be removed soon
        if sent.kind is Kind.DELAYED or sent.end is End.COMMIT:
            assert count, f"message {sent.number} was never delivered: {sent}"
        else:
            assert not count, f"message {sent.number} was not committed: {sent}"
        if sent.kind is Kind.HALF and sent.end is End.NEVER:
            assert sent.number in given_up, f"half message {sent.number} is forgotten: {sent}"


def _by_number(model: Model, image: Image) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = defaultdict(list)
    for record in image.records:
        number = record_number(record)
        if number:
            assert number in model.messages, f"nobody sent {record}"
            found[number].append(record)
        else:
            assert record.topic in (OP, MOVED), f"nobody sent {record}"
    return found


def _has_expired(model: Model, image: Image, sent: Sent) -> bool:
    """True if it was in files that are removed. AssertionError if they were too new for that."""
    if not model.is_expired(sent, image.start):
        return False
    may_go = _is_old(model, sent) or model.forces_since(sent.time)
    assert may_go, f"message {sent.number} was removed too early: {sent}"
    return True


def _is_old(model: Model, sent: Sent) -> bool:
    """True if files were allowed to be removed that it is in."""
    return model.span_ms(sent.time) >= RESERVED_H * HOUR_MS


def _check_start(model: Model, image: Image) -> None:
    """Files are removed for a cause, oldest first; only a power cut can bring one back."""
    assert image.start <= model.start or model.causes(), f"the log begins at {image.start}"
    if model.settled or model.killed:
        assert image.start >= model.start, f"the log begins at {image.start} again, not at {model.start}"


def _check_places(model: Model) -> None:
    """No queue offset was given twice, not even one whose message has expired."""
    given: dict[tuple[str, int, int], int] = {}
    for sent in model.messages.values():
        if sent.place is None or sent.kind is not Kind.PLAIN or sent.lost or sent.gone is not Gone.NO:
            continue
        place = sent.topic, sent.queue_id, sent.place[0]
        first = given.setdefault(place, sent.number)
        assert first == sent.number, f"{place} was given to {first} and {sent.number}"


def _check_copies(sent: Sent, records: list[Record], *, is_whole: bool) -> None:
    """A message is stored once in its topic, delayed and half messages as often as the kinds allow.

    `is_whole`: none of its records is in a file that was removed.
    """
    finals = [record for record in records if record.topic == sent.topic]
    others = {record.topic for record in records} - {sent.topic}
    allowed = {
        Kind.PLAIN: set(),
        Kind.DELAYED: {TIMERS if sent.delay_s else SCHEDULE},
        Kind.HALF: {HALF, GIVEN_UP},
    }[sent.kind]
    assert others <= allowed, f"message {sent.number} is in {others}"
    assert len(finals) <= 1 + sent.excused, f"message {sent.number} is stored {len(finals)} times: {sent}"
    assert all(record.queue_id == sent.queue_id for record in finals), f"{sent} is in another queue"
    if sent.kind is Kind.DELAYED and records:
        parked = [record for record in records if record.topic in (SCHEDULE, TIMERS)]
        assert len(parked) == 1 or not (parked or is_whole), (
            f"message {sent.number} is parked {len(parked)} times"
        )
        _check_early(parked, finals)
    if sent.kind is Kind.HALF and records:
        is_half = any(record.topic == HALF for record in records)
        assert is_half or not is_whole, f"message {sent.number} has no half message"
        assert not finals or sent.end is End.COMMIT, f"message {sent.number} was not committed: {sent}"


def _check_early(parked: list[Record], copies: list[Record]) -> None:
    """Each copy follows a record that was parked, and not before it is due; a clock that was set back excuses."""
    for copy in copies if parked else ():
        waits = [_due(one) - copy.stored for one in parked if one.stored <= copy.stored]
        is_due = len(waits) < len(parked) or min(waits) <= 0
        assert is_due, f"message {record_number(copy)} is {min(waits)} ms early in {copy.topic}"


def _due(parked: Record) -> int:
    if parked.topic == TIMERS:
        return int(parked.properties["TIMER_OUT_MS"]) + 1
    return parked.stored + DELAYS_MS[parked.queue_id]


def _check_backs(model: Model, image: Image) -> None:
    """What was sent back is stored once for each request, and delivered as often, or once more for each crash."""
    stored, delivered = stored_copies(image), delivered_backs(image)
    for back in {*stored, *delivered, *model.backs}:
        copies, sent = model.backs.get(back, Copies()), model.messages[back.number]
        is_whole = not model.is_partly_expired(sent, image.start)
        assert stored[back] <= copies.asked, (
            f"{back} is stored {stored[back]} times, asked for {copies.asked}"
        )
        assert back.reconsumed <= MOST_RETRIES or back.topic.startswith(DEAD_PREFIX), f"{back} is not dead"
        assert stored[back] >= copies.must or not is_whole, f"{back} is lost: {copies}, {stored[back]} stored"
        most = stored[back] * (1 + sent.excused_copies)
        assert delivered[back] <= most or not is_whole, f"{back} is delivered {delivered[back]} times"
    by_back: dict[Back, tuple[list[Record], list[Record]]] = defaultdict(lambda: ([], []))
    for record in image.records:
        if (found := back_of(record)) is not None and not record.topic.startswith(DEAD_PREFIX):
            by_back[found][record.topic != SCHEDULE].append(record)
    for back, (parked, copied) in by_back.items():
        levels = {record.queue_id + 1 for record in parked}
        assert levels <= model.backs[back].levels, f"{back} waits by levels {levels}: {model.backs[back]}"
        if not model.is_partly_expired(model.messages[back.number], image.start):
            # Otherwise a copy may be of a record that was removed, and not of one of these.
            _check_early(parked, copied)


def _check_place(sent: Sent, records: list[Record], image: Image) -> None:
    if sent.place is None or not records or sent.place[1] < image.start:
        return
    first = records[0]
    assert (first.queue_offset, first.offset) == sent.place, f"{sent} is stored as {first}"


# --- queues


def _check_queues(model: Model, image: Image) -> None:
    """Each record has its entry, in order; each entry has its record; deleted topics have none."""
    expected: dict[tuple[str, int], dict[int, Record]] = defaultdict(dict)
    doubtful: dict[str, set[bool]] = defaultdict(set)
    left_out: dict[tuple[str, int], int] = {}  # the offset behind messages of a deletion that was refused
    for record in image.records:
        queue = expected[record.topic, record.queue_id]
        sent = model.messages.get(record_number(record))
        gone = Gone.NO if sent is None or record.topic != sent.topic else sent.gone
        entries = image.queues.get((record.topic, record.queue_id), {})
        entry = entries.get(record.queue_offset)
        has_entry = entry is not None and entry.offset == record.offset
        if gone is Gone.MAYBE:
            doubtful[record.topic].add(has_entry)
        if gone is Gone.YES or (gone is Gone.MAYBE and not has_entry):
            assert not has_entry, f"deleted and back: {record}"
            left_out[record.topic, record.queue_id] = record.queue_offset + 1 if gone is Gone.MAYBE else 0
            continue
        assert record.queue_offset not in queue, f"queue offset given twice: {record}"
        if queue or record.queue_offset != left_out.get((record.topic, record.queue_id), 0):
            is_first = not queue and (image.start > 0 or not record.queue_offset)
            assert is_first or record.queue_offset - 1 in queue, f"no record before {record}"
        queue[record.queue_offset] = record
    for topic, found in doubtful.items():
        assert len(found) == 1, f"a part of {topic} was deleted"
    for place in expected.keys() | image.queues.keys():
        _check_queue(place, expected.get(place, {}), image)


def _check_queue(place: tuple[str, int], records: dict[int, Record], image: Image) -> None:
    every = image.queues.get(place, {})
    entries = {number: entry for number, entry in every.items() if entry.offset >= image.start}
    assert every.keys() == entries.keys() or max(every.keys() - entries.keys()) < min(
        entries, default=2**62
    ), f"{place}: entries of removed records lie behind others"
    missing = records.keys() - entries.keys()
    assert not missing, f"{place}: no entries for {sorted(missing)}"
    assert entries.keys() <= records.keys(), (
        f"{place}: no records for {sorted(entries.keys() - records.keys())}"
    )
    for number, record in records.items():
        entry = entries[number]
        assert entry == (record.offset, record.size, _code(record)), f"{place}: {entry} for {record}"


def _code(record: Record) -> int:
    if record.topic == SCHEDULE:
        return record.stored + DELAYS_MS[record.queue_id]
    return java_hash(record.properties.get("TAGS", ""))


# --- the rest


def _check_index(image: Image) -> None:
    """Each key leads to its record."""
    for record in image.records:
        keys = [record.properties.get("UNIQ_KEY", ""), *record.properties.get("KEYS", "").split()]
        for key in filter(None, keys):
            found = image.indexed.get(index_hash(record.topic, key), ())
            assert record.offset in found, f"key {key} does not lead to {record}"
    starts = [record.offset for record in image.records]
    for offsets in image.indexed.values():
        for offset in offsets:
            at = bisect.bisect_left(starts, offset)
            assert offset < image.start or (at < len(starts) and starts[at] == offset), (
                f"the index leads to {offset}, where no record is"
            )


def _check_reads(model: Model, image: Image) -> None:
    """What a reader got is in the log, or in a file that is removed."""
    there = {record.place: record_number(record) for record in image.records}
    for place, read in model.read.items():
        if (read.is_flushed or model.killed) and read.offset >= image.start:
            assert there.get(place) == read.number, (
                f"a reader got {read.number} at {place}, there is {there.get(place)}"
            )


def _check_offsets(model: Model, image: Image) -> None:
    """Committed offsets were committed, not long ago, and lie in their queues."""
    saved = image.offsets
    for (topic, group, queue_id), offset in saved.items():
        if topic in SYSTEM or model.topics.get(topic) is not True:
            continue
        known = [commit.offset for commit in model.commits.get((topic, group, queue_id), ())]
        assert offset in known, f"{topic}@{group} {queue_id}: {offset} was never committed, only {known}"
        most = image.queue_ends.get((topic, queue_id), 0)
        assert offset <= most, f"{topic}@{group} {queue_id}: {offset} of {most} are committed"
    for place, commits in model.commits.items():
        acknowledged = [commit for commit in commits if commit.acknowledged]
        least = max((commit.offset for commit in acknowledged if commit.time < model.saved_by), default=0)
        if least and model.topics.get(place[0]) is True:
            assert saved.get(place, 0) >= least, f"{place}: {least} was committed, {saved.get(place)} is left"


def _check_topics(model: Model, image: Image) -> None:
    for topic, exists in model.topics.items():
        if exists is not None:
            assert (topic in image.topics) == exists, f"topic {topic}: {exists} was acknowledged"
