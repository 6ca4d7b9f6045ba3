"""What the files of a real store must hold, after its broker has recovered it: what was acknowledged, once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from rmqcli.codec.records.reading import decode_record, peek_record
from rmqcli.codec.store.consume_queue import ENTRY
from rmqcli.codec.store.record_layout import MAGIC_FILLER
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.verify.store import verify_store

TOPIC = "Crash"


class Ack(NamedTuple):
    """A send that was acknowledged; `offset` is that of the commit log."""

    msg_id: str
    body: str
    offset: int


Acked = dict[tuple[int, int], Ack]
"""(queue id, queue offset) → the send."""


class Stored(NamedTuple):
    """A message of the topic in the log."""

    queue_id: int
    queue_offset: int
    offset: int
    size: int
    msg_id: str
    body: str


def log_start(store: Path) -> int:
    """The offset at which the first file of the log begins. AssertionError if a file between two others is gone."""
    files = sorted((store / "commitlog").iterdir())
    for before, after in pairwise(files):
        end = int(before.name) + before.stat().st_size
        assert int(after.name) == end, f"no commit log file begins at {end}"
    return int(files[0].name)


def messages(store: Path) -> Iterator[Stored]:
    """The messages of the topic, walked by sizes alone. AssertionError if one has wrong bytes or another place."""
    for file in sorted((store / "commitlog").iterdir()):
        data, position, base = file.read_bytes(), 0, int(file.name)
        while position + 8 <= len(data):
            head = peek_record(data, position)
            if head.total_size == 0 or head.magic == MAGIC_FILLER:
                break
            one = decode_record(data, position, check_crc=True)
            assert one.commit_log_offset == base + position
            if one.topic == TOPIC:
                yield Stored(
                    one.queue_id,
                    one.queue_offset,
                    base + position,
                    head.total_size,
                    one.msg_id,
                    one.body.decode(),
                )
            position += head.total_size


def queue_entries(store: Path, topic: str, queue_id: int, log_begin: int = 0) -> list[tuple[int, int, int]]:
    """(queue offset, commit-log offset, size) of the entries that lead to the log."""
    found = []
    for file in sorted((store / "consumequeue" / topic / str(queue_id)).iterdir()):
        first = int(file.name) // ENTRY.size
        data = file.read_bytes()
        used = -(-len(data.rstrip(b"\0")) // ENTRY.size) * ENTRY.size
        for number, (offset, size, _) in enumerate(ENTRY.iter_unpack(data[:used]), first):
            if size > 0 and offset >= log_begin:
                found.append((number, offset, size))
    return found


def check_store(store: Path, acked: Acked, *, expires: bool = False) -> None:
    """The log holds what was acknowledged, once and in order, and the consume queues agree with it.

    With `expires` it may begin later than at 0; what was acknowledged before is forgotten.
    """
    begin = log_start(store)
    assert expires or begin == 0, f"the log begins at {begin}"
    for at in [at for at, ack in acked.items() if ack.offset < begin]:
        del acked[at]
    queues: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    found: Acked = {}
    bodies: Counter[str] = Counter()
    for one in messages(store):
        queues[one.queue_id].append((one.queue_offset, one.offset, one.size))
        found[one.queue_id, one.queue_offset] = Ack(one.msg_id, one.body, one.offset)
        bodies[one.body] += 1
    lost = {at: ack for at, ack in acked.items() if found.get(at) != ack}
    assert not lost, (
        f"{len(lost)} of {len(acked)} acknowledged messages are gone or changed, first {next(iter(lost.items()))}"
    )
    assert bodies.total() == len(bodies), f"stored twice: {bodies.most_common(3)}"
    for queue_id, entries in queues.items():
        offsets = [offset for offset, _, _ in entries]
        first = offsets[0] if expires else 0
        assert offsets == list(range(first, first + len(offsets))), "gaps or duplicates in the queue offsets"
        assert queue_entries(store, TOPIC, queue_id, begin) == entries, f"queue {queue_id} has other entries"


def check_sound(store: Path) -> None:
    """`rmq inspect verify` finds nothing."""
    report = verify_store(StoreFolder(store))
    assert report.sound, report.findings[0]
