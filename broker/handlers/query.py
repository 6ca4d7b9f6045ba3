"""Queries for messages by key and by commit-log offset, and for consume-queue entries: codes 12, 33, 321
(`QueryMessageProcessor`)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable

import msgspec

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import Refusal
from rmqcli.broker.filters import SqlSelection, is_tag_type
from rmqcli.broker.handlers.common import after_flush, once_flushed
from rmqcli.broker.net.handling import Answered, Reply, Request
from rmqcli.broker.net.turns import emptied_on_error
from rmqcli.broker.services.table_files import table_text
from rmqcli.codec.bodies.heartbeat import SubscriptionData
from rmqcli.codec.bodies.stats import ConsumeQueueData, QueryConsumeQueueResponseBody
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.headers.pull import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
    ViewMessageResponseHeader,
)
from rmqcli.codec.headers.topics import QueryConsumeQueueRequestHeader
from rmqcli.codec.selector import ALL
from rmqcli.codec.store.consume_queue import ExtensionEntry, is_address

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
NO_MESSAGE = "can not find message, maybe time range not correct"
DEFAULT_COUNT = 10
MAX_COUNT = 10_000
"""Maximum number of consume-queue entries in one reply."""

ENTRIES_PER_STEP = 64

Judge = Callable[[ExtensionEntry], bool]


async def query_message(
    broker: BrokerContext, request: Request[QueryMessageRequestHeader, None]
) -> Reply[QueryMessageResponseHeader, bytes]:
    """Return records with the same key hash (code 12); the client compares the keys."""
    header = request.header
    by_unique_key = (request.command.ext_fields or {}).get(UNIQUE_KEY_QUERY) == "true"
    count = broker.config.default_query_max_num if by_unique_key else header.max_num
    store, pace = broker.store, request.session.turns.pace()
    search = await store.when_ready(
        store.key_search,
        header.topic,
        header.key,
        min(count, broker.config.max_msgs_num_batch),
        header.begin_timestamp,
        header.end_timestamp,
    )
    while not await store.when_ready(search.advance):
        await pace.step()
    found = await store.when_ready(store.found, search)
    index = QueryMessageResponseHeader(
        index_last_update_timestamp=found.index_last_update_timestamp,
        index_last_update_phyoffset=found.index_last_update_phyoffset,
    )
    if not found.views:
        return Reply(index, code=ResponseCode.QUERY_NOT_FOUND, remark=NO_MESSAGE)
    return await after_flush(broker, Reply(index, views=found.views), found.end)


def view_message(
    broker: BrokerContext, request: Request[ViewMessageRequestHeader, None]
) -> Answered[ViewMessageResponseHeader, bytes]:
    """Return the record at a commit-log offset (code 33)."""
    offset = request.header.offset
    record = broker.store.search.record_at(offset)
    if record is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
    return once_flushed(broker, Reply(views=[record]), offset + len(record))


async def query_consume_queue(
    broker: BrokerContext, request: Request[QueryConsumeQueueRequestHeader, None]
) -> Reply[None, QueryConsumeQueueResponseBody]:
    """Return entries of a consume queue, with the result of a group's filter on their extensions (code
    321)."""
    header, store, turns = request.header, broker.store, request.session.turns
    topic, queue_id, index = header.topic or "", header.queue_id or 0, header.index or 0
    count = min(header.count or DEFAULT_COUNT, MAX_COUNT)
    subscription, filter_text = _subscription(broker, topic, header.consumer_group)
    judge = _judge(broker, header.consumer_group, subscription)
    low, high = store.search.min_offset(topic, queue_id), store.search.max_offset(topic, queue_id)
    config = broker.topics.get(topic)
    if config is None or not 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums):
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
    if not low <= index < high:
        return Reply(remark=f"Index {index} of {queue_id}@{topic} is not exist!")
    found, pace, passed = list[ConsumeQueueData](), turns.pace(), 0
    async with emptied_on_error(turns, found):
        while len(found) < count:
            # Retention may have moved the minimum since the last step.
            index = max(index + passed, store.search.min_offset(topic, queue_id))
            most = min(count - len(found), ENTRIES_PER_STEP)
            entries = await store.when_ready(store.search.stored_entries, topic, queue_id, index, most)
            found += (_entry(*entry, judge) for entry in entries)
            passed = len(entries)
            if passed < most:
                break
            await pace.step()
    body = QueryConsumeQueueResponseBody(
        subscription_data=subscription,
        filter_data=filter_text,
        queue_data=found,
        max_queue_index=high,
        min_queue_index=low,
    )
    return Reply(body=body, is_used_up=subscription is None)


def _subscription(
    broker: BrokerContext, topic: str, group: str | None
) -> tuple[SubscriptionData | None, str | None]:
    """Return the group's subscription, and its SQL92 filter as text."""
    if group is None:
        return None, None
    online = broker.consumers.get(group)
    subscription = online.subscriptions.get(topic) if online is not None else None
    if subscription is None:
        return None, f"{group}@{topic} is not online!"
    one = broker.filters.get(topic, group)
    return subscription, "null" if one is None else table_text(one.data()).decode()


def _judge(broker: BrokerContext, group: str | None, subscription: SubscriptionData | None) -> Judge | None:
    """Return the filter of an online group on extensions of entries; None if there is none."""
    if group is None or subscription is None:
        return None
    if not is_tag_type(subscription.expression_type):
        topic = subscription.topic
        return SqlSelection(broker.filters, topic, broker.filters.get(topic, group)).accepts_extension
    every, codes = subscription.sub_string == ALL, frozenset(subscription.code_set)
    return lambda entry: every or entry.tags_code in codes


def _entry(
    position: int, size: int, code: int, extension: ExtensionEntry | None, judge: Judge | None
) -> ConsumeQueueData:
    if extension is None:
        lost = f"Cq extend not exist!addr: {code}" if is_address(code) else None
        return ConsumeQueueData(physic_offset=position, physic_size=size, tags_code=code, msg=lost)
    return ConsumeQueueData(
        physic_offset=position,
        physic_size=size,
        tags_code=code,
        extend_data_json=_extension_text(extension),
        bit_map=_bits(extension.bit_map) if extension.bit_map else None,
        eval=judge is not None and judge(extension),
    )


def _extension_text(entry: ExtensionEntry) -> str:
    """Return the text that fastjson writes for a Java `CqExtUnit`: sorted by name, bytes in Base64, no
    missing values."""
    values: dict[str, str | int] = (
        {"filterBitMap": b64encode(entry.bit_map).decode()} if entry.bit_map else {}
    )
    values |= {"msgStoreTime": entry.store_timestamp, "size": entry.size, "tagsCode": entry.tags_code}
    return msgspec.json.encode(values).decode()


def _bits(bit_map: bytes) -> str:
    """Return the text of a Java `BitsArray`: highest bit first, one line per eight bytes."""
    lines = [bit_map[start : start + 8][::-1] for start in range(0, len(bit_map), 8)]
    return "".join("".join(f"{byte:08b}" for byte in line) + "\n" for line in reversed(lines))
