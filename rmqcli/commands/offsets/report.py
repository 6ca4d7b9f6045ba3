"""The lines in which a reset reports its plan and its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rmqcli.client import GroupNotFound, QueueReset, QueueResetResult, ResetPlan, ResetResult
from rmqcli.render import Column
from rmqcli.render.columns import BROKER, QUEUE
from rmqcli.render.table import objects
from rmqcli.render.text import many, number_ranges

PLAN_COLUMNS = (
    BROKER,
    QUEUE,
    Column("OLD", "old", number=True),
    Column("NEW", "new", number=True),
    Column("REPLAYED", "replayed", number=True),
    Column("SKIPPED", "skipped", number=True),
)


def plan_row(step: QueueReset) -> list[Any]:
    """Return the values of PLAN_COLUMNS."""
    return [step.queue.broker_name, step.queue.queue_id, step.old, step.new, step.replayed, step.skipped]


def document(plan: ResetPlan) -> dict[str, Any]:
    """Return the JSON document of a plan. `limited` counts queues that do not have the wanted offset."""
    return {
        "group": plan.group,
        "topic": plan.topic,
        "target": str(plan.target),
        "clients": list(plan.clients),
        "replayed": plan.replayed,
        "skipped": plan.skipped,
        "changed": len(plan.changed),
        "limited": sum(step.wanted is not None for step in plan.queues),
        "queues": objects(PLAN_COLUMNS, map(plan_row, plan.queues)),
    }


def plan_lines(plan: ResetPlan, *, missing: Sequence[str], create: bool) -> Iterator[str]:
    """Yield what a person needs to know beside the rows. `missing`: brokers without the group."""
    yield from _limits(plan)
    if not plan.changed:
        yield f"group {plan.group} has these offsets already: nothing to change"
        return
    way = (
        f"{many(len(plan.clients), 'running client')} will be moved, which can take 10 s"
        if plan.online
        else "no clients are running"
    )
    yield f"{many(plan.replayed, 'message')} will be consumed again, {plan.skipped:,} skipped; {way}"
    if missing:
        then = (
            "it will be created there"
            if create
            else "a broker of 5.x refuses its offsets without --create-group"
        )
        yield f"group {plan.group} does not exist yet on {', '.join(missing)}: {then}"


def _limits(plan: ResetPlan) -> Iterator[str]:
    """Yield a line for the queues that end before the target, and one for those that begin behind it."""
    limited = [step for step in plan.queues if step.wanted is not None]
    above = [step for step in limited if step.new < (step.wanted or 0)]
    for steps, where in ((above, "end before"), ([s for s in limited if s not in above], "begin behind")):
        if steps:
            what = "their former offsets" if plan.target.kind == "exact" else f"{plan.target}"
            yield f"{_queues(steps)} {where} {what}: the nearest offset is taken"


def failure_lines(plan: ResetPlan, result: ResetResult) -> Iterator[str]:
    """Yield one line for each reason why queues have not moved."""
    reasons: dict[str, list[QueueReset]] = {}
    for queue, step in zip(result.queues, plan.changed, strict=True):
        if not queue.confirmed:
            reasons.setdefault(_reason(queue, step), []).append(step)
    for reason, steps in reasons.items():
        yield f"{_queues(steps)}: {reason}"


def _queues(steps: Sequence[QueueReset]) -> str:
    """Return `orders@broker-a:0-3`, with all brokers."""
    numbers: dict[str, list[int]] = {}
    for step in steps:
        numbers.setdefault(step.queue.broker_name, []).append(step.queue.queue_id)
    topic = steps[0].queue.topic
    return ", ".join(
        f"{topic}@{name}:{number_ranges(of).replace(', ', ',')}" for name, of in sorted(numbers.items())
    )


def _reason(queue: QueueResetResult, step: QueueReset) -> str:
    """Return why a queue does not count as moved."""
    if isinstance(queue.error, GroupNotFound):
        return f"{queue.error} --create-group creates it first"
    if queue.error is not None:
        return str(queue.error)
    if queue.client is not None:
        return f"client {queue.client} is at offset {queue.found}, not yet at {queue.wanted}"
    if queue.found == queue.wanted:
        return f"the broker has offset {queue.found}, but no client reports where it is"
    if queue.found is not None and step.old is not None and queue.found >= step.old > step.new:
        return f"at offset {queue.found}: it may or may not have moved to {step.new} before"
    return f"at offset {queue.found}, not yet at {queue.wanted}"
