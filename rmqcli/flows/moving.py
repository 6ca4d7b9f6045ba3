"""Carries out plans of static topics, and keeps them in files that mqadmin reads, too.

The file has the members of Java's `TopicRemappingDetailWrapper` (5.3.3).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from msgspec import field

from codec.bodies.base import Body, decode_body, encode_body
from codec.bodies.config import TopicConfigAndQueueMapping
from codec.edited import BYTE_ORDER_MARK
from codec.errors import BodyError
from codec.headers.topics import GetTopicStatsInfoRequestHeader
from codec.operations.topics import GET_TOPIC_STATS_INFO
from rmqcli.client import Admin
from rmqcli.files import replace_file
from rmqcli.flows.errors import InvalidInput
from rmqcli.flows.static_topics import Mapped, Move, decided

GROWN: Final = "CREATE_OR_UPDATE"
MOVED: Final = "REMAPPING"


class Plan(Body, frozen=True):
    """A change of a static topic: what each broker shall have, and which give and take queues."""

    topic: str
    type: str = GROWN
    epoch: int = 0
    broker_config_map: dict[str, TopicConfigAndQueueMapping] = field(default_factory=dict)
    broker_to_map_in: list[str] = field(default_factory=list)
    broker_to_map_out: list[str] = field(default_factory=list)


def plan_of(topic: str, kind: str, move: Move) -> Plan:
    """Return the plan of a mapping."""
    epochs = [one.mapping_detail.epoch for one in move.mapped.values() if one.mapping_detail is not None]
    return Plan(topic, kind, max(epochs), dict(move.mapped), list(move.inward), list(move.outward))


def save(plan: Plan, folder: Path) -> Path:
    """Write the plan to a file in the folder and return its path."""
    path = folder / f"{plan.topic}-{plan.epoch}.json"
    replace_file(path, encode_body(plan))
    return path


def load(path: Path, topic: str, kind: str) -> Plan:
    """Read a plan; InvalidInput for one of another topic or another change."""
    try:
        plan = decode_body(Plan, path.read_bytes().removeprefix(BYTE_ORDER_MARK))
    except BodyError as error:
        raise InvalidInput(f"{path} is no plan of a static topic: {error}") from None
    if (plan.topic, plan.type) != (topic, kind):
        raise InvalidInput(f"{path} is a plan {plan.type} of topic {plan.topic}, not {kind} of {topic}")
    return plan


async def carry_out(admin: Admin, plan: Plan, *, force: bool = False) -> None:
    """Write a plan to its brokers. Queues move in an order in which no message is lost: the new broker may
    take messages before the old one stops, and learns where its offsets begin when the old one has stopped.
    """
    mapped: Mapped = plan.broker_config_map
    if plan.type == GROWN:
        await admin.static_topics.put(mapped, force=force)
        return
    move = Move(mapped, tuple(plan.broker_to_map_in), tuple(plan.broker_to_map_out))
    await admin.static_topics.put({name: mapped[name] for name in move.inward}, force=force)
    await admin.static_topics.put({name: mapped[name] for name in move.outward}, force=force)
    mapped = decided(move, await _ends(admin, plan.topic, move.outward))
    await admin.static_topics.put({name: mapped[name] for name in move.inward}, force=force)
    others = [name for name in mapped if name not in (*move.inward, *move.outward)]
    await admin.static_topics.put({name: mapped[name] for name in others}, force=force)


async def _ends(admin: Admin, topic: str, brokers: Collection[str]) -> dict[tuple[str, int], int]:
    """Return the ends of the queues of brokers, by broker and ID, as they number them themselves.

    `admin.topics.stats` would ask for queues that are left out by number, which for a static topic is that of
    the whole cluster. It has as many read queues as write queues, so none is left out.
    """
    masters = await admin.brokers.masters(brokers=brokers)
    header = GetTopicStatsInfoRequestHeader(topic=topic)
    found: dict[tuple[str, int], int] = {}
    for address in masters.values():
        body = (await admin.instance.ask(address, GET_TOPIC_STATS_INFO, header, None)).body
        found.update(
            {(one.broker_name, one.queue_id): stats.max_offset for one, stats in body.offset_table.items()}
        )
    return found
