"""Plans of static topics (5.x): the broker of each logical queue before and after a change, and the change
itself.

A static topic has numbered queues for the whole cluster. Each is a list of ranges, oldest first; messages are
written to the last one. Every broker of the cluster keeps the ranges of the queues that it hosts, and the
number of all queues with an epoch that grows with each change. Plans are kept in files that mqadmin can also
read, with the members of Java's `TopicRemappingDetailWrapper`. Facts of 5.3.3: `TopicQueueMappingUtils`,
`TopicQueueMappingManager`, `MQAdminUtils`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import field
from msgspec.structs import replace

from rmqcli.client import Admin
from rmqcli.codec.bodies.base import Body, decode_body, encode_body
from rmqcli.codec.bodies.config import TopicConfigAndQueueMapping
from rmqcli.codec.bodies.route import LogicQueueMappingItem, TopicQueueMappingDetail
from rmqcli.codec.edited import BYTE_ORDER_MARK
from rmqcli.codec.errors import BodyError
from rmqcli.codec.headers.topics import GetTopicStatsInfoRequestHeader
from rmqcli.codec.operations.topics import GET_TOPIC_STATS_INFO
from rmqcli.files import replace_file
from rmqcli.flows.errors import InvalidInput, NotMapped

Mapped = Mapping[str, TopicConfigAndQueueMapping]
"""Settings and mapping of a topic by broker name."""
Ranges = tuple[LogicQueueMappingItem, ...]

SCOPE: Final = "__global__"
EPOCH_STEP: Final = 1000
"""The minimum difference between a new epoch and the last one."""
BLOCK: Final = 10_000
"""Offsets of a moved queue continue at a multiple of this, beyond those that the old broker may still have
assigned.
"""
UNDECIDED: Final = -1
"""The first offset of a range whose predecessor may still be written."""


class Place(NamedTuple):
    """The newest range of a logical queue: the broker and its queue there, and the first offset of the range,
    None while its predecessor may still be written.
    """

    number: int
    broker: str
    queue_id: int
    first_offset: int | None


class Move(NamedTuple):
    """A plan of moved queues: `inward` brokers receive queues, `outward` ones give them away; no broker does
    both.
    """

    mapped: Mapped
    inward: tuple[str, ...]
    outward: tuple[str, ...]


def queues_of(mapped: Mapped) -> dict[int, Ranges]:
    """Return the ranges of each queue, as known to the broker to which the queue is written.

    Raise NotMapped for inconsistent mappings: a change would lose offsets.
    """
    found: dict[int, Ranges] = {}
    for broker, detail in _details(mapped):
        for number, items in detail.hosted_queues.items():
            if items and items[-1].bname == broker:
                if number in found:
                    raise NotMapped(f"queue {number} is written to on {broker} and {found[number][-1].bname}")
                found[number] = tuple(items)
    totals = {(detail.total_queues, detail.epoch) for _, detail in _details(mapped)}
    if len(totals) > 1:
        raise NotMapped(
            "brokers have different epochs or numbers of queues: carry out the plan of the change that failed again"
        )
    if totals and set(found) != set(range(next(iter(totals))[0])):
        raise NotMapped(f"not every queue of 0 to {next(iter(totals))[0] - 1} has a broker")
    used = Counter((item.bname, item.queue_id) for items in found.values() for item in items)
    for (name, queue_id), count in used.items():
        if count > 1:
            raise NotMapped(f"queue {queue_id} of {name} belongs to {count} logical queues")
    return dict(sorted(found.items()))


def places(mapped: Mapped) -> list[Place]:
    """Return the newest range of each queue, to which messages are written."""
    return [
        Place(number, last.bname or "", last.queue_id, None if last.logic_offset < 0 else last.logic_offset)
        for number, (*_, last) in queues_of(mapped).items()
    ]


def _details(mapped: Mapped) -> Iterator[tuple[str, TopicQueueMappingDetail]]:
    for broker, config in sorted(mapped.items()):
        if config.mapping_detail is None:
            raise NotMapped(f"{config.topic_name} is not a static topic on {broker}")
        yield broker, config.mapping_detail


def grown(
    topic: str, mapped: Mapped, count: int, brokers: Collection[str], every: Collection[str], now_ms: int
) -> Mapped:
    """Return the mapping with `count` queues; new ones go to those of `brokers` with the fewest, in turn.

    `every` broker of the cluster gets a mapping. Raise InvalidInput if there would not be more queues.
    """
    old = queues_of(mapped)
    if count <= len(old):
        raise InvalidInput(f"{topic} has {len(old)} queues: their number can only grow")
    held = Counter(items[-1].bname or "" for items in old.values())
    load = {name: held[name] for name in sorted(brokers)}
    new = _with_brokers(topic, mapped, {*every, *brokers})
    for number in range(len(old), count):
        broker = min(load, key=lambda name: (load[name], name))
        load[broker] += 1
        new[broker] = _appended(new[broker], number, (), 0)
    return _renewed(new, count, _next_epoch(mapped, now_ms))


def moved(topic: str, mapped: Mapped, brokers: Collection[str], every: Collection[str], now_ms: int) -> Move:
    """Return the mapping with all queues on `brokers`, as even as possible with the fewest moves."""
    old = queues_of(mapped)
    wanted = _shares(len(old), Counter(items[-1].bname or "" for items in old.values()), brokers)
    stay, homeless = dict(wanted), []
    for number, items in old.items():
        holder = items[-1].bname or ""
        if stay.get(holder, 0) > 0:
            stay[holder] -= 1
        else:
            homeless.append(number)
    free = [name for name in sorted(stay) for _ in range(stay[name])]
    new = _with_brokers(topic, mapped, {*every, *brokers})
    for number, target in zip(homeless, free, strict=True):
        source = old[number][-1].bname or ""
        new[target] = _appended(new[target], number, old[number], UNDECIDED)
        # The old broker keeps the ranges of the queue: it has the older messages.
        new[source] = _hosting(new[source], number, _ranges(new[target], number))
    inward = tuple(sorted(set(free)))
    outward = tuple(sorted({old[number][-1].bname or "" for number in homeless}))
    return Move(_renewed(new, len(old), _next_epoch(mapped, now_ms)), inward, outward)


def _shares(count: int, load: Counter[str], brokers: Collection[str]) -> dict[str, int]:
    """Return the number of queues of each broker; if the numbers cannot be equal, the brokers that have more
    now get one more.
    """
    share, rest = divmod(count, len(brokers))
    ordered = sorted(brokers, key=lambda name: (-load[name], name))
    return {name: share + (place < rest) for place, name in enumerate(ordered)}


def decided(move: Move, ends: Mapping[tuple[str, int], int]) -> Mapped:
    """Return the mapping with the first offsets of moved queues; `ends` are the ends of old queues by broker
    and ID, read after the last write to them. Raise NotMapped if an end is missing.
    """
    new = dict(move.mapped)
    for broker in move.outward:
        detail = new[broker].mapping_detail
        for number, items in (detail.hosted_queues if detail else {}).items():
            if len(items) < 2 or items[-1].logic_offset != UNDECIDED:
                continue
            last = items[-2]
            end = ends.get((last.bname or "", last.queue_id))
            if end is None or end < last.start_offset:
                raise NotMapped(
                    f"no end of queue {last.queue_id} of {last.bname}, so queue {number} stays half moved"
                )
            first = _next_block(last.logic_offset + end - last.start_offset)
            ranges = [*items[:-1], replace(items[-1], logic_offset=first)]
            for name in (broker, items[-1].bname or ""):
                new[name] = _hosting(new[name], number, ranges)
    return new


def _next_block(offset: int) -> int:
    blocks, rest = divmod(offset, BLOCK)
    # The first multiple that is more than half a block away.
    return (blocks + (1 if rest < BLOCK // 2 else 2)) * BLOCK


def _with_brokers(
    topic: str, mapped: Mapped, brokers: Collection[str]
) -> dict[str, TopicConfigAndQueueMapping]:
    return {name: mapped.get(name) or _empty(topic, name) for name in sorted({*mapped, *brokers})}


def _empty(topic: str, broker: str) -> TopicConfigAndQueueMapping:
    detail = TopicQueueMappingDetail(topic=topic, scope=SCOPE, bname=broker)
    return TopicConfigAndQueueMapping(
        topic_name=topic, read_queue_nums=0, write_queue_nums=0, mapping_detail=detail
    )


def _appended(
    config: TopicConfigAndQueueMapping, number: int, before: Ranges, first: int
) -> TopicConfigAndQueueMapping:
    """Return the settings with one more queue, to which the logical queue is written from now on."""
    detail = config.mapping_detail
    item = LogicQueueMappingItem(
        gen=before[-1].gen + 1 if before else 0,
        queue_id=config.write_queue_nums,
        bname=detail.bname if detail else None,
        logic_offset=first,
    )
    queues = config.write_queue_nums + 1
    return _hosting(replace(config, write_queue_nums=queues, read_queue_nums=queues), number, [*before, item])


def _hosting(
    config: TopicConfigAndQueueMapping, number: int, items: list[LogicQueueMappingItem]
) -> TopicConfigAndQueueMapping:
    detail = config.mapping_detail or TopicQueueMappingDetail()
    hosted = {**detail.hosted_queues, number: items}
    return replace(config, mapping_detail=replace(detail, hosted_queues=hosted))


def _ranges(config: TopicConfigAndQueueMapping, number: int) -> list[LogicQueueMappingItem]:
    return config.mapping_detail.hosted_queues[number] if config.mapping_detail else []


def _renewed(mapped: Mapped, count: int, epoch: int) -> Mapped:
    return {
        name: replace(config, mapping_detail=replace(detail, total_queues=count, epoch=epoch, curr_id_map={}))
        for name, config in mapped.items()
        if (detail := config.mapping_detail) is not None
    }


def _next_epoch(mapped: Mapped, now_ms: int) -> int:
    epochs = [detail.epoch for _, detail in _details(mapped)]
    return max(now_ms, max(epochs, default=0) + EPOCH_STEP)


GROWN: Final = "CREATE_OR_UPDATE"
MOVED: Final = "REMAPPING"


class Plan(Body, frozen=True):
    """A change of a static topic: the mapping of each broker, and the brokers that give and receive queues."""

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
    """Read a plan. Raise InvalidInput if it is for another topic or another change."""
    try:
        plan = decode_body(Plan, path.read_bytes().removeprefix(BYTE_ORDER_MARK))
    except BodyError as error:
        raise InvalidInput(f"{path} is not a plan of a static topic: {error}") from None
    if (plan.topic, plan.type) != (topic, kind):
        raise InvalidInput(f"{path} is a plan {plan.type} of topic {plan.topic}, not {kind} of {topic}")
    return plan


async def carry_out(admin: Admin, plan: Plan, *, force: bool = False) -> None:
    """Write a plan to its brokers. Queues move in an order that loses no message: the new broker accepts
    messages before the old one stops, and gets its first offset after the old one has stopped.
    """
    mapped: Mapped = plan.broker_config_map
    if plan.type == GROWN:
        await admin.static_topics.put(mapped, force=force)
        return
    move = Move(mapped, tuple(plan.broker_to_map_in), tuple(plan.broker_to_map_out))
    await admin.static_topics.put({name: mapped[name] for name in move.inward}, force=force)
    # From here on, nothing is written to the old queues, so their ends are final.
    await admin.static_topics.put({name: mapped[name] for name in move.outward}, force=force)
    mapped = decided(move, await _ends(admin, plan.topic, move.outward))
    await admin.static_topics.put({name: mapped[name] for name in move.inward}, force=force)
    # Every broker of the cluster must have the same epoch.
    others = [name for name in mapped if name not in (*move.inward, *move.outward)]
    await admin.static_topics.put({name: mapped[name] for name in others}, force=force)


async def _ends(admin: Admin, topic: str, brokers: Collection[str]) -> dict[tuple[str, int], int]:
    """Return the ends of the queues of brokers, by broker and by the broker's own queue ID.

    `admin.topics.stats` would query omitted queues by number, which for a static topic is the number in the
    whole cluster. A static topic has as many read queues as write queues, so none is omitted.
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
