"""Offsets and lag of a queue, as `rmq offsets show` and `rmq group describe` show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqcli.render.columns import BROKER, CLIENT, LAG, MAX, QUEUE, TOPIC
from rmqcli.render.table import Column
from rmqcli.render.text import local_time

if TYPE_CHECKING:
    from rmqcli.client import QueueLag


LAG_COLUMNS = (
    TOPIC,
    BROKER,
    QUEUE,
    Column("OFFSET", "consumerOffset", number=True),
    MAX,
    LAG,
    Column("LAST CONSUMED", "lastTimestamp", local_time),
    CLIENT,
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
