"""What consume queues and index hold of a record (Java classes `ReputMessageService`, `CommitLogDispatcherBuildConsumeQueue`).

Prepared and rolled-back records have no queue entry, rolled-back ones no index item. A record of SCHEDULE_TOPIC_XXXX has its
time of delivery in place of a tags code. A record with INNER_MULTI_DISPATCH has one more entry in queue 0 of each topic there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from codec.hashing import index_key_hash, tags_code
from codec.names import SystemTopic
from codec.properties import PropertyName, split_keys
from codec.store.record import RecordScan

__all__ = ["DEFAULT_DELAYS", "Unit", "delay_table", "index_hashes", "units_of"]

TRANSACTION_BITS = 0xC
PREPARED = 0x4
ROLLBACK = 0xC

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LEVEL = re.compile(r"([0-9]{1,9})([smhd])")


def delay_table(levels: str) -> tuple[int, ...]:
    """Milliseconds of each level of a text like `1s 5s 1m`; level n is at n - 1. ValueError for anything else."""
    found = [(text, _LEVEL.fullmatch(text)) for text in levels.split()]
    wrong = next((text for text, match in found if match is None), None)
    if wrong is not None or not found:
        raise ValueError(f"{wrong or levels!r} is no delay level: levels look like '1s 5s 10s 1m 2h'")
    return tuple(int(match[1]) * _SECONDS[match[2]] * 1000 for _, match in found if match)


DEFAULT_DELAYS = delay_table("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
"""messageDelayLevel of a broker that says nothing else."""


class Unit(NamedTuple):
    """One consume queue entry, and the queue that it belongs to."""

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    size: int
    tags_code: int


def units_of(
    record: RecordScan, properties: Mapping[str, str], delays: tuple[int, ...] = DEFAULT_DELAYS
) -> Iterator[Unit]:
    """The queue entries of a record, that of its own queue first."""
    if record.sys_flag & PREPARED:
        return
    topic = str(record.topic, "utf-8", "replace")
    code = tags_code(properties.get(PropertyName.TAGS))
    if topic == SystemTopic.SCHEDULE:
        code = _deliver_time(properties, record.store_timestamp, delays) or code
    rest = (record.physical_offset, record.total_size, code)
    yield Unit(topic, record.queue_id, record.queue_offset, *rest)
    if PropertyName.INNER_MULTI_DISPATCH in properties:
        topics = properties[PropertyName.INNER_MULTI_DISPATCH].split(",")
        offsets = properties.get(PropertyName.INNER_MULTI_QUEUE_OFFSET, "").split(",")
        for name, offset in zip(topics, offsets, strict=False):
            if offset.isdecimal():
                yield Unit(name, 0, int(offset), *rest)


def _deliver_time(properties: Mapping[str, str], stored: int, delays: tuple[int, ...]) -> int | None:
    text = properties.get(PropertyName.DELAY, "")
    level = min(int(text), len(delays)) if text.isdecimal() and len(text) < 10 else 0
    return stored + delays[level - 1] if level else None


def index_hashes(record: RecordScan, properties: Mapping[str, str]) -> list[int]:
    """The key hashes of the index items of a record, in the order that they are put: UNIQ_KEY, then the tokens of KEYS."""
    if record.sys_flag & TRANSACTION_BITS == ROLLBACK:
        return []
    unique = properties.get(PropertyName.UNIQ_KEY)
    keys = split_keys(properties.get(PropertyName.KEYS))
    if not unique and not keys:
        return []
    topic = str(record.topic, "utf-8", "replace")
    return [index_key_hash(topic, key) for key in ([unique, *keys] if unique else keys)]
