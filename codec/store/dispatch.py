"""What consume queues and the index hold for a record (Java `CommitLog.checkMessageAndReturnSize`, `CommitLogDispatcher`).

Prepared and rolled-back records have no queue entry; rolled-back records have no index item. An entry of SCHEDULE_TOPIC_XXXX
holds the delivery time (ms) in place of a tags code. A record with INNER_MULTI_DISPATCH has one more entry in each queue
named there (Java `LmqConsumeQueue`, on brokers with enableLmq and enableMultiDispatch).

`codec.scan.dispatch_columns` applies the same rules to many records at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from codec.codes import MessageSysFlag
from codec.hashing import index_key_hash, tags_code
from codec.names import LMQ_PREFIX, SystemTopic
from codec.properties import PropertyName, delay_level, split_keys
from codec.store.delay_levels import DEFAULT_LEVELS, DelayLevels
from codec.store.record import RecordScan

_KEYS, _UNIQ_KEY = PropertyName.KEYS, PropertyName.UNIQ_KEY


class DispatchedEntry(NamedTuple):
    """One consume queue entry and the queue that it belongs to."""

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    size: int
    tags_code: int


def has_queue_entry(sys_flag: int) -> bool:
    """True for normal and committed messages; rolled-back ones also have the bit of prepared ones."""
    return not sys_flag & MessageSysFlag.TRANSACTION_PREPARED


def has_index_items(sys_flag: int) -> bool:
    return sys_flag & MessageSysFlag.TRANSACTION_MASK != MessageSysFlag.TRANSACTION_ROLLBACK


def delivery_time(properties: Mapping[str, str], store_timestamp: int, levels: DelayLevels) -> int | None:
    """Returns when a message of SCHEDULE_TOPIC_XXXX is due, in ms; None without a delay level above 0."""
    level = delay_level(properties)
    return store_timestamp + levels.delay_ms(level) if level else None


def entry_tags_code(
    topic: str, properties: Mapping[str, str], store_timestamp: int, levels: DelayLevels = DEFAULT_LEVELS
) -> int:
    """Returns the tags code, or in SCHEDULE_TOPIC_XXXX the delivery time, of a record's queue entry."""
    due = delivery_time(properties, store_timestamp, levels) if topic == SystemTopic.SCHEDULE else None
    return tags_code(properties.get(PropertyName.TAGS)) if due is None else due


def queue_entries(
    record: RecordScan, properties: Mapping[str, str], levels: DelayLevels = DEFAULT_LEVELS
) -> Iterator[DispatchedEntry]:
    """Yields the queue entries of a record: its own queue first, then those of INNER_MULTI_DISPATCH."""
    if not has_queue_entry(record.sys_flag):
        return
    topic = str(record.topic, "utf-8", "replace")
    code = entry_tags_code(topic, properties, record.store_timestamp, levels)
    rest = (record.physical_offset, record.total_size, code)
    yield DispatchedEntry(topic, record.queue_id, record.queue_offset, *rest)
    names = properties.get(PropertyName.INNER_MULTI_DISPATCH, "").split(",")
    offsets = properties.get(PropertyName.INNER_MULTI_QUEUE_OFFSET, "").split(",")
    if len(names) != len(offsets):
        return  # as in Java, which logs a bug
    for name, offset in zip(names, offsets, strict=True):
        if name and offset.isdecimal() and len(offset) < 20:
            queue_id = 0 if name.startswith(LMQ_PREFIX) else record.queue_id
            yield DispatchedEntry(name, queue_id, int(offset), *rest)


def index_keys(properties: Mapping[str, str]) -> list[str]:
    """Returns the keys of a message in the order of its index items: UNIQ_KEY, then the tokens of KEYS."""
    unique, keys = properties.get(_UNIQ_KEY), properties.get(_KEYS)
    found = [unique] if unique else []
    if keys:
        found += split_keys(keys) if " " in keys else (keys,)
    return found


def index_hashes(record: RecordScan, properties: Mapping[str, str]) -> list[int]:
    if not has_index_items(record.sys_flag):
        return []
    topic = str(record.topic, "utf-8", "replace")
    return [index_key_hash(topic, key) for key in index_keys(properties)]
