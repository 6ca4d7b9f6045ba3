"""Queue entries and index items of a record (Java `CommitLog.checkMessageAndReturnSize`,
`CommitLogDispatcher`).

Prepared and rolled-back records have no queue entry; rolled-back records have no index items. An entry of
SCHEDULE_TOPIC_XXXX has the delivery time (ms) in place of a tags code.

Brokers with enableMultiDispatch store one more entry in each queue that INNER_MULTI_DISPATCH names, at the
offsets of INNER_MULTI_QUEUE_OFFSET, which only they write (Java `MultiDispatch`,
`ConsumeQueue.multiDispatchLmqQueue`). The queue id is that of the record, or 0 for names with `%LMQ%`, as
with enableLmq.

`rmqcli.codec.core.dispatch` applies the same rules to many records at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.core.hashing import index_key_hash, tags_code
from rmqcli.codec.core.record_reader import RecordScan
from rmqcli.codec.names import LMQ_PREFIX, SystemTopic
from rmqcli.codec.property_names import PropertyName, delay_level, split_keys
from rmqcli.codec.store.consume_queue import ENTRY_SIZE
from rmqcli.codec.store.delay_levels import DEFAULT_LEVELS, DelayLevels
from rmqcli.codec.store.file_names import MAX_OFFSET, is_queue_folder

_KEYS, _UNIQ_KEY = PropertyName.KEYS, PropertyName.UNIQ_KEY


class DispatchedEntry(NamedTuple):
    """One consume-queue entry and the queue to which it belongs."""

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    size: int
    tags_code: int


def has_queue_entry(sys_flag: int) -> bool:
    """Return True for normal and committed messages. Rolled-back ones also have the bit of prepared ones.

    For an array of sys flags, this function and `has_index_items` return a mask.
    """
    return sys_flag & MessageSysFlag.TRANSACTION_PREPARED == 0


def has_place(topic: str, queue_id: int, queue_offset: int) -> bool:
    """Return True if a queue can hold an entry; records of a damaged or hostile log may name impossible
    ones.
    """
    return 0 <= queue_offset < MAX_OFFSET // ENTRY_SIZE and is_queue_folder(topic, queue_id)


def has_index_items(sys_flag: int) -> bool:
    """Return True for all messages except rolled-back ones."""
    return sys_flag & MessageSysFlag.TRANSACTION_MASK != MessageSysFlag.TRANSACTION_ROLLBACK


def delivery_time(properties: Mapping[str, str], store_timestamp: int, levels: DelayLevels) -> int | None:
    """Return the time (ms) when a message of SCHEDULE_TOPIC_XXXX is due; None if its delay level is not
    above 0.
    """
    level = delay_level(properties)
    return store_timestamp + levels.delay_ms(level) if level else None


def entry_tags_code(
    topic: str, properties: Mapping[str, str], store_timestamp: int, levels: DelayLevels = DEFAULT_LEVELS
) -> int:
    """Return the tags code of a record's queue entry, or its delivery time in SCHEDULE_TOPIC_XXXX."""
    due = delivery_time(properties, store_timestamp, levels) if topic == SystemTopic.SCHEDULE else None
    return tags_code(properties.get(PropertyName.TAGS)) if due is None else due


def queue_entries(
    record: RecordScan, properties: Mapping[str, str], levels: DelayLevels = DEFAULT_LEVELS
) -> Iterator[DispatchedEntry]:
    """Yield the queue entries of a record: its own queue first, then those of INNER_MULTI_DISPATCH."""
    if not has_queue_entry(record.sys_flag):
        return
    topic = str(record.topic, "utf-8", "replace")
    code = entry_tags_code(topic, properties, record.store_timestamp, levels)
    rest = (record.physical_offset, record.total_size, code)
    yield DispatchedEntry(topic, record.queue_id, record.queue_offset, *rest)
    for name, offset in further_queues(properties):
        yield DispatchedEntry(name, 0 if name.startswith(LMQ_PREFIX) else record.queue_id, offset, *rest)


def further_queues(properties: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Yield topics and queue offsets of INNER_MULTI_DISPATCH; none if there are more or fewer offsets than
    topics.

    Queues that no broker can keep are omitted: those without a name, with a slash in it (5.x refuses these
    as well), or with an impossible offset.
    """
    # Java's split drops empty parts at the end.
    names = properties.get(PropertyName.INNER_MULTI_DISPATCH, "").rstrip(",").split(",")
    offsets = properties.get(PropertyName.INNER_MULTI_QUEUE_OFFSET, "").rstrip(",").split(",")
    for name, offset in zip(names, offsets, strict=True) if len(names) == len(offsets) else ():
        # An int64 has at most 19 digits; `int` raises ValueError for thousands of them.
        is_possible = offset.isdecimal() and len(offset) < 20 and int(offset) <= MAX_OFFSET
        if name.strip() and "/" not in name and is_possible:
            yield name, int(offset)


def index_keys(properties: Mapping[str, str]) -> list[str]:
    """Return the keys of a message in the order of its index items: UNIQ_KEY, then the tokens of KEYS."""
    return keys_of(properties.get(_UNIQ_KEY), properties.get(_KEYS))


def keys_of(unique: str | None, keys: str | None) -> list[str]:
    """Return the keys in the values of UNIQ_KEY and KEYS, in the order of `index_keys`."""
    found = [unique] if unique else []
    if keys:
        # Most messages have a single key, which needs no call.
        found += split_keys(keys) if " " in keys else (keys,)
    return found


def index_hashes(record: RecordScan, properties: Mapping[str, str]) -> list[int]:
    if not has_index_items(record.sys_flag):
        return []
    topic = str(record.topic, "utf-8", "replace")
    return [index_key_hash(topic, key) for key in index_keys(properties)]
