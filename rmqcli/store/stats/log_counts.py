"""Counts of the records of a commit log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from rmqcli.codec.core.tally import Tally
from rmqcli.codec.core.walk import UNWRITTEN
from rmqcli.codec.names import SystemTopic
from rmqcli.codec.records.filter import RecordFilter
from rmqcli.codec.records.possible import possible
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.read.commit_log import (
    CommitLogFiles,
    Found,
    OnDamage,
    ignore_damage,
    plain_bodies,
    require_zeros,
    stored_message,
    with_plain_body,
)
from rmqcli.store.read.files import NamedFile, mapped, naming_damage
from rmqcli.store.read.log_records import STEP, Progress, log_records, walk_up_to
from rmqcli.store.stats.counts import Counting, LogCounts


def count_records(found: Iterable[Found]) -> LogCounts:
    counts = LogCounts()
    for _, message in found:
        counts.add(message)
    return counts


def count_chosen(
    log: CommitLogFiles,
    wanted: OffsetRange,
    chosen: RecordFilter,
    limit: int | None,
    progress: Progress,
    on_damage: OnDamage = ignore_damage,
) -> LogCounts:
    """Count at most `limit` records, in place if no record has to be decoded. Raises DamagedFile.

    `progress` receives bytes of the log.
    """
    bounded = limit is not None or wanted.last is not None or wanted.only_new
    if bounded or not chosen.asks_only("topics", "queue_id"):
        found = islice(log_records(log, wanted, chosen, progress), limit)
        return count_records(plain_bodies(found, on_damage))
    counting = Counting(wanted, chosen, LogCounts(), on_damage)
    for file in log.files_in(wanted):
        with naming_damage(file), mapped(file) as data:
            _count_file(file, data, counting, progress)
    return counting.counts


def _count_file(file: NamedFile, data: memoryview, counting: Counting, progress: Progress) -> None:
    wanted, accepted, _, _ = counting
    walk, test, done = walk_up_to(file, data, wanted.end), possible(accepted, *wanted.bounds), 0
    while not walk.is_over:
        tally = Tally(test)
        tally.add_all(walk, STEP)
        _add(file, data, tally, counting)
        progress(walk.position + walk.size - done)
        done = walk.position + walk.size
    if walk.ending == UNWRITTEN:
        require_zeros(file, data, walk.position)


def _add(file: NamedFile, data: memoryview, tally: Tally, counting: Counting) -> None:
    _, accepted, counts, on_damage = counting
    for encoded, one in tally.topics.items():
        topic = str(encoded, "utf-8", "replace")
        # The test of a topic that was read from bytes that are not UTF-8 accepts others as well.
        if accepted.topics and topic not in accepted.topics:
            continue
        body_size = one.body_size
        for position in one.compressed:
            message = stored_message(data, position)
            plain = with_plain_body(message, file, position, on_damage)
            body_size += len(plain.body) - len(message.body)
        counts.statistics.topic(topic).add_many(
            one.messages, one.size, body_size, one.queues, (one.first, one.last)
        )
        counts.distribution.add_many(
            Counter(dict(enumerate(one.sizes))),
            Counter(one.seconds),
            Counter(str(key, "utf-8", "replace") for key in one.keys if topic != SystemTopic.TRACE),
        )
