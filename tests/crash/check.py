"""Compares the image of a store with what its clients know. Every function raises AssertionError."""

from __future__ import annotations

import bisect
from collections import defaultdict

from tests.crash.image import Image, Record, index_hash, java_hash
from tests.crash.model import GIVEN_UP, HALF, OP, SCHEDULE, End, Gone, Kind, Model, Sent, record_number

DELAYS_MS = (1_000, 5_000, 20_000)
"""Of the levels 1 to 3."""
SYSTEM = frozenset((HALF, OP, GIVEN_UP, SCHEDULE))


def check(model: Model, image: Image) -> None:
    """Checks a store that was recovered or stopped cleanly."""
    behind = image.bytes_behind_log()
    assert not behind, f"{behind} bytes behind the log"
    by_number = _by_number(model, image)
    for sent in model.messages.values():
        records = by_number[sent.number]
        assert records or not sent.must or sent.lost, f"message {sent.number} is lost: {sent}"
        assert not (records and sent.lost), f"message {sent.number} came back: {sent}"
        _check_copies(sent, records)
        _check_place(sent, records)
    _check_queues(model, image)
    _check_index(image)
    _check_reads(model, image)
    _check_offsets(model, image)
    _check_topics(model, image)


def check_done(model: Model, image: Image) -> None:
    """Checks a store whose broker had the time to deliver and to end whatever was due."""
    by_number = _by_number(model, image)
    given_up = {record_number(record) for record in image.records if record.topic == GIVEN_UP}
    for sent in model.messages.values():
        records = by_number[sent.number]
        count = sum(record.topic == sent.topic for record in records)
        if not records or sent.kind is Kind.PLAIN:
            continue
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
            assert record.topic in (OP,), f"nobody sent {record}"
    return found


def _check_copies(sent: Sent, records: list[Record]) -> None:
    """A message is stored once in its topic, delayed and half messages as often as the kinds allow."""
    finals = [record for record in records if record.topic == sent.topic]
    others = {record.topic for record in records} - {sent.topic}
    allowed = {Kind.PLAIN: set(), Kind.DELAYED: {SCHEDULE}, Kind.HALF: {HALF, GIVEN_UP}}[sent.kind]
    assert others <= allowed, f"message {sent.number} is in {others}"
    assert len(finals) <= 1 + sent.excused, f"message {sent.number} is stored {len(finals)} times: {sent}"
    assert all(record.queue_id == sent.queue_id for record in finals), f"{sent} is in another queue"
    if sent.kind is Kind.DELAYED and records:
        parked = [record for record in records if record.topic == SCHEDULE]
        assert len(parked) == 1, f"message {sent.number} is parked {len(parked)} times"
        due = parked[0].stored + DELAYS_MS[sent.level - 1]
        early = [record for record in finals if parked[0].stored <= record.stored < due]
        assert not early, f"message {sent.number} is {due - early[0].stored} ms early"
    if sent.kind is Kind.HALF and records:
        assert any(record.topic == HALF for record in records), f"message {sent.number} has no half message"
        assert not finals or sent.end is End.COMMIT, f"message {sent.number} was not committed: {sent}"


def _check_place(sent: Sent, records: list[Record]) -> None:
    if sent.place is None or not records:
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
            assert record.queue_offset - 1 in queue or not record.queue_offset, f"no record before {record}"
        queue[record.queue_offset] = record
    for topic, found in doubtful.items():
        assert len(found) == 1, f"a part of {topic} was deleted"
    for place in expected.keys() | image.queues.keys():
        _check_queue(place, expected.get(place, {}), image)


def _check_queue(place: tuple[str, int], records: dict[int, Record], image: Image) -> None:
    entries = image.queues.get(place, {})
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
            assert at < len(starts) and starts[at] == offset, (
                f"the index leads to {offset}, where no record is"
            )


def _check_reads(model: Model, image: Image) -> None:
    """What a reader got is in the log."""
    there = {record.place: record_number(record) for record in image.records}
    for place, (number, is_flushed) in model.read.items():
        if is_flushed or model.killed:
            assert there.get(place) == number, (
                f"a reader got {number} at {place}, there is {there.get(place)}"
            )


def _check_offsets(model: Model, image: Image) -> None:
    """Committed offsets were committed, not long ago, and lie in their queues."""
    saved = image.offsets
    for (topic, group, queue_id), offset in saved.items():
        if topic in SYSTEM or model.topics.get(topic) is not True:
            continue
        known = [commit.offset for commit in model.commits.get((topic, group, queue_id), ())]
        assert offset in known, f"{topic}@{group} {queue_id}: {offset} was never committed, only {known}"
        most = len(image.queues.get((topic, queue_id), ()))
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
