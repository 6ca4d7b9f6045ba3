"""The steps of a reset or a clone: the plan, the question, the report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import CommandError, usage_error
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.client import (
    Admin,
    ClientError,
    GroupNotFound,
    QueueReset,
    QueueResetResult,
    ResetPlan,
    ResetResult,
    ResetTarget,
)
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.commands.common.admin import clock_skews, with_admin
from rmqcli.commands.common.outcome import agreed, confirm, partial_code, say_done
from rmqcli.commands.offsets.undo import Home, undo_command, write_undo
from rmqcli.copying.positions import Translated, translated
from rmqcli.render import Column, Output
from rmqcli.render.output import note, warn
from rmqcli.render.table import BROKER, QUEUE, objects, show_rows
from rmqcli.render.text import many, number_ranges

PLAN_COLUMNS = (
    BROKER,
    QUEUE,
    Column("OLD", "old", number=True),
    Column("NEW", "new", number=True),
    Column("REPLAYED", "replayed", number=True),
    Column("SKIPPED", "skipped", number=True),
)


class Origin(NamedTuple):
    """The way by which an offset was translated, and what it was translated from."""

    by: str
    source: str


Origins = Mapping[MessageQueue, Origin]
_NO_ORIGINS: Origins = MappingProxyType({})
_ORIGIN_COLUMNS = (Column("BY", "by"), Column("SOURCE", "source", whole=True))


def _table(plan: ResetPlan, origins: Origins) -> tuple[tuple[Column, ...], list[list[Any]]]:
    rows = [plan_row(step) for step in plan.queues]
    if not origins:
        return PLAN_COLUMNS, rows
    return (*PLAN_COLUMNS, *_ORIGIN_COLUMNS), [
        [*row, *origins[step.queue]] for row, step in zip(rows, plan.queues, strict=True)
    ]


def plan_row(step: QueueReset) -> list[Any]:
    """Return the values of PLAN_COLUMNS."""
    return [step.queue.broker_name, step.queue.queue_id, step.old, step.new, step.replayed, step.skipped]


def document(plan: ResetPlan, origins: Origins = _NO_ORIGINS) -> dict[str, Any]:
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
        "queues": objects(*_table(plan, origins)),
    }


def plan_lines(plan: ResetPlan, *, missing: Sequence[str], create: bool) -> Iterator[str]:
    """Yield the lines that a person needs besides the rows. `missing`: the brokers without the group."""
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
    """Yield a line for the queues that end before the target, and one for those that begin after it."""
    limited = [step for step in plan.queues if step.wanted is not None]
    above = [step for step in limited if step.new < (step.wanted or 0)]
    for steps, where in ((above, "end before"), ([s for s in limited if s not in above], "begin after")):
        if steps:
            what = "their former offsets" if plan.target.kind == "exact" else f"{plan.target}"
            yield f"{_queues(steps)} {where} {what}: using the nearest offset"


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


@dataclass(frozen=True, slots=True)
class Way:
    """The options for carrying out a reset; `wait` is how long running clients get, in seconds."""

    wait: float
    dry_run: bool
    yes: bool
    create_group: bool


class Reset:
    """One reset, from the plan to the result."""

    def __init__(
        self,
        settings: Settings,
        group: str,
        topic: str,
        target: ResetTarget,
        *,
        queue_id: int | None,
        origins: Origins = _NO_ORIGINS,
    ) -> None:
        """`origins` has an entry for each queue whose offset was translated."""
        self._settings = settings
        self._origins = origins
        self._request = (group, topic, target)
        self._queue_id = queue_id
        self._output = Output()
        self._missing: tuple[str, ...] = ()
        self._refusing: tuple[str, ...] = ()
        self._home = Home(settings.namesrv, ())

    def run(self, way: Way, question: str, home: Home | None = None) -> None:
        """Show the plan, ask `question`, apply the plan and report the result.

        Raise CommandError if the offsets belong to another cluster than `home`. End with exit code 3 or 1 if
        a queue has not moved.
        """
        plan = with_admin(self._settings, lambda admin: self._plan(admin, way))
        if home is not None and self._home.clusters != home.clusters:
            raise CommandError(
                f"the offsets are those of {home}; this is {self._home}: use its name server or profile"
            )
        self._show_plan(plan, way)
        if way.dry_run:
            return
        if plan.changed:
            way = self._offered(plan, way)
            lost = [f"{many(plan.skipped, 'message')} skipped"] if plan.skipped else []
            confirm(self._settings, question, yes=way.yes, lost=lost, readers=[plan.group, *plan.clients])
        self._apply(plan, way)

    async def _plan(self, admin: Admin, way: Way) -> ResetPlan:
        plan = await admin.offsets.plan_reset(*self._request, queue_id=self._queue_id)
        brokers = {step.queue.broker_name for step in plan.queues}
        info = await admin.brokers.cluster_info()
        clusters = {
            info.broker_addr_table[name].cluster or "" for name in brokers & set(info.broker_addr_table)
        }
        self._home = Home(self._settings.namesrv, tuple(sorted(clusters)))
        if not plan.online and (way.create_group or any(step.old is None for step in plan.queues)):
            self._missing = await _missing(admin, plan.group, brokers)
            self._refusing = await _refusing(admin, self._missing)
        return plan

    def _show_plan(self, plan: ResetPlan, way: Way) -> None:
        """Show the old and new offsets. With `--json`, only a dry run prints them: a reset prints one
        document at its end.
        """
        if self._settings.json:
            if way.dry_run:
                self._output.json(document(plan, self._origins) | {"dryRun": True})
            return
        show_rows(self._settings, *_table(plan, self._origins))
        self._output.flush()
        where = self._missing if way.create_group else self._refusing
        for line in plan_lines(plan, missing=where, create=way.create_group):
            warn(line)

    def _offered(self, plan: ResetPlan, way: Way) -> Way:
        """Offer on a terminal to create the group on brokers that would refuse its offsets."""
        if way.create_group or not self._refusing or not sys.stdin.isatty() or way.yes:
            return way
        question = f"create group {plan.group} on {', '.join(self._refusing)} first?"
        if not agreed(question):
            return way
        self._missing = self._refusing
        return replace(way, create_group=True)

    def _apply(self, plan: ResetPlan, way: Way) -> None:
        """Apply the plan, after writing the undo file."""
        path = write_undo(plan, self._home, self._settings)
        try:
            result = with_admin(self._settings, lambda admin: self._changed(admin, plan, way))
        except BaseException as error:
            if path is not None:
                # Even after Ctrl-C or a lost connection, offsets may have changed.
                line = f"the old offsets are in {path}; undo with: {undo_command(path, self._settings)}"
                say_done(self._settings, error, [line])
            raise
        self._report(plan, result, path)

    async def _changed(self, admin: Admin, plan: ResetPlan, way: Way) -> ResetResult:
        if way.create_group and self._missing:
            from rmqcli.codec.bodies.config import SubscriptionGroupConfig

            config = SubscriptionGroupConfig(group_name=plan.group)
            made = await admin.groups.create(config, brokers=self._missing)
            for error in made.failures.values():
                raise error
            note(f"group {plan.group} created on {', '.join(made.brokers)}")
        return await admin.offsets.reset(plan, settle=way.wait)

    def _report(self, plan: ResetPlan, result: ResetResult, path: Path | None) -> None:
        moved = sum(queue.confirmed for queue in result.queues)
        for line in failure_lines(plan, result):
            warn(line)
        if self._settings.json:
            undo = None if path is None else str(path)
            self._output.json(
                document(plan, self._origins) | {"online": result.online, "moved": moved, "undo": undo}
            )
        elif plan.changed:
            self._say_moved(plan, moved, path)
        if not result.complete:
            if result.online:
                words = shlex.join([plan.group, "-T", plan.topic])
                warn(f"check later with: rmq offsets show {words} {self._settings.endpoint_words}")
            summary = f"{moved} of {many(len(plan.changed), 'queue')} moved"
            raise Ended(partial_code(done=moved > 0), summary=summary)

    def _say_moved(self, plan: ResetPlan, moved: int, path: Path | None) -> None:
        there = len(plan.queues) - len(plan.changed)
        others = f"; no change: {many(there, 'queue')}" if there else ""
        note(f"moved {moved} of {many(len(plan.changed), 'queue')} of group {plan.group}{others}")
        if path is not None:
            note(f"undo with: {undo_command(path, self._settings)}")
        else:
            note(f"no undo: group {plan.group} had no offsets on topic {plan.topic}")


class Move:
    """A group whose offsets on a topic are translated to another topic or cluster."""

    def __init__(self, settings: Settings, target: Settings, group: str, topic: str, to_topic: str) -> None:
        self._settings = settings
        self._target = target
        self._group = group
        self._topic = topic
        self._to_topic = to_topic

    def run(self, to_group: str, margin_ms: int, way: Way) -> None:
        """Translate the offsets and carry out the reset of `to_group`."""
        if (self._topic, self._settings) == (self._to_topic, self._target):
            raise usage_error(f"topic {self._topic} of the same cluster: name another one, or omit --by-time")
        found = run_async(lambda: self._translated(to_group, margin_ms))
        if not found:
            raise CommandError(f"group {self._group} has nothing to translate to topic {self._to_topic}")
        origins = {one.queue: _origin(one) for one in found}
        exact = {one.queue: one.offset for one in found}
        job = Reset(
            self._target,
            to_group,
            self._to_topic,
            ResetTarget("exact", exact=exact),
            queue_id=None,
            origins=origins,
        )
        job.run(way, f"set the offsets of group {to_group} on topic {self._to_topic}?")

    async def _translated(self, to_group: str, margin_ms: int) -> list[Translated]:
        from rmqcli.client import PullConsumer

        async with (
            Admin(**self._settings.client_options) as admin,
            PullConsumer(instance=admin.instance) as source,
            Admin(**self._target.client_options) as target_admin,
            PullConsumer(instance=target_admin.instance) as target,
        ):
            if running := await target_admin.clients.consumer_ids(to_group, self._to_topic):
                raise CommandError(
                    f"group {to_group} has {many(len(running), 'running client')} at {self._target.namesrv}: "
                    "stop them first; they would commit offsets of their own"
                )
            positions = await admin.offsets.positions(self._group, self._topic)
            clients = await admin.clients.consumer_ids(self._group, self._topic)
            if clients:
                warn(
                    f"group {self._group} has {many(len(clients), 'running client')} at {self._settings.namesrv}: "
                    "messages that they consume from now on will be consumed again"
                )
            behind = await self._behind_ms()
            return await translated(
                source, target, positions, self._to_topic, margin_ms=margin_ms, behind_ms=behind
            )

    async def _behind_ms(self) -> int:
        """Return how far the clocks of the target are behind those of the source."""
        ours, theirs = await clock_skews(self._settings), await clock_skews(self._target)
        return max(ours.values(), default=0) - min(theirs.values(), default=0)


def _origin(one: Translated) -> Origin:
    if one.source is None:
        return Origin(
            "time", datetime.fromtimestamp(one.at / 1000).astimezone().isoformat(timespec="milliseconds")
        )
    return Origin("copy", f"{one.source.broker_name}:{one.source.queue_id} at {one.at}")


async def _refusing(admin: Admin, brokers: Collection[str]) -> tuple[str, ...]:
    """Return the brokers that run 5.x or do not report their version: they refuse offsets of a group that
    they do not know.
    """
    if not brokers:
        return ()
    masters = [
        one for one in await admin.brokers.summaries() if one.broker_name in brokers and not one.broker_id
    ]
    versions = {one.broker_name: (one.runtime or {}).get("brokerVersionDesc", "") for one in masters}
    return tuple(name for name in brokers if not versions.get(name, "").startswith(("V3_", "V4_")))


async def _missing(admin: Admin, group: str, brokers: set[str]) -> tuple[str, ...]:
    """Return the brokers without the group, except those that did not respond."""
    failures: dict[str, ClientError] = {}
    try:
        known = set(await admin.groups.settings(group, failures=failures))
    except GroupNotFound:
        known = set()
    return tuple(sorted(brokers - known - failures.keys()))
