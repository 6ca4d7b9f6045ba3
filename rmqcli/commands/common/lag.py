"""Offsets and lag of a queue, as `rmq offsets show` and `rmq group describe` show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqcli.render.table import Column
from rmqcli.render.text import local_time

if TYPE_CHECKING:
    from rmqcli.client import QueueLag


LAG_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("BROKER", "brokerName"),
    Column("QUEUE", "queueId", number=True),
    Column("OFFSET", "consumerOffset", number=True),
    Column("MAX", "maxOffset", number=True),
    Column("LAG", "lag", number=True),
    Column("LAST CONSUMED", "lastTimestamp", local_time),
    Column("CLIENT", "clientId"),
)


def lag_row(queue: QueueLag) -> list[Any]:
    """Return the values of LAG_COLUMNS."""
    place = queue.queue
    offsets = [queue.consumer_offset, queue.max_offset, queue.lag]
    return [place.topic, place.broker_name, place.queue_id, *offsets, queue.last_timestamp, queue.client_id]


def lag_object(queue: QueueLag) -> dict[str, Any]:
    """Return the JSON object of one queue."""
    keys = [column.key for column in LAG_COLUMNS]
    return dict(zip(keys, lag_row(queue), strict=True)) | {"minOffset": queue.min_offset}
