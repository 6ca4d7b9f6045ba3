"""Offsets and lag of a queue, as `rmq offsets show` and `rmq group describe` show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rmqcli.cli.settings import Settings
from rmqcli.render.output import warn
from rmqcli.render.table import BROKER, CLIENT, LAG, LAG_UNKNOWN, MAX, QUEUE, TOPIC, Column
from rmqcli.render.text import age, local_time

if TYPE_CHECKING:
    from rmqcli.client import QueueLag


LAG_COLUMNS = (
    TOPIC,
    BROKER,
    QUEUE,
    Column("OFFSET", "consumerOffset", number=True),
    MAX,
    LAG,
    Column("LAST CONSUMED", "lastTimestamp", local_time, whole=True, minor=True, brief=age),
    CLIENT,
    LAG_UNKNOWN,
)


def lag_row(queue: QueueLag) -> list[Any]:
    """Return the values of LAG_COLUMNS."""
    place = queue.queue
    offsets = [queue.consumer_offset, queue.max_offset, queue.lag]
    known = [*offsets, queue.last_timestamp, queue.client_id, queue.lag_unknown]
    return [place.topic, place.broker_name, place.queue_id, *known]


def warn_of_lost_topics(settings: Settings, group: str, queues: Sequence[QueueLag]) -> None:
    """Warn of topics that were created again: the group skips messages below its old offsets."""
    from rmqcli.client.admin.values import BEYOND_END

    for topic in sorted({queue.queue.topic for queue in queues if queue.lag_unknown == BEYOND_END}):
        warn(
            f"offsets of group {group} are beyond the end of topic {topic}, which may have been created again: its "
            f"messages up to there will be skipped; rmq offsets reset {group} {topic} --to start "
            f"{settings.endpoint_words}"
        )


def lag_object(queue: QueueLag) -> dict[str, Any]:
    """Return the JSON object of one queue."""
    keys = [column.key for column in LAG_COLUMNS]
    return dict(zip(keys, lag_row(queue), strict=True)) | {
        "minOffset": queue.min_offset,
        "inFlight": queue.in_flight,
    }
