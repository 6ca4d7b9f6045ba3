"""The steps of a reset: plan, show, ask, write the undo file, apply, report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import CommandError
from rmqcli.cli.settings import Settings
from rmqcli.client import Admin, ClientError, GroupNotFound, ResetPlan, ResetResult, ResetTarget
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import agreed, confirm, partial_code, say_done
from rmqcli.commands.offsets.report import PLAN_COLUMNS, document, failure_lines, plan_lines, plan_row
from rmqcli.commands.offsets.undo import Home, undo_command, write_undo
from rmqcli.render import Output
from rmqcli.render.output import note, warn
from rmqcli.render.table import show_rows
from rmqcli.render.text import many


@dataclass(frozen=True, slots=True)
class Way:
    """The way in which a reset is carried out: `wait` is the seconds that running clients get."""

    wait: float
    dry_run: bool
    yes: bool
    create_group: bool


class Reset:
    """One reset, from the plan to the result."""

    def __init__(
        self, settings: Settings, group: str, topic: str, target: ResetTarget, *, queue_id: int | None
    ) -> None:
        self._settings = settings
        self._request = (group, topic, target)
        self._queue_id = queue_id
        self._output = Output()
        self._missing: tuple[str, ...] = ()
        self._refusing: tuple[str, ...] = ()
        self._home = Home(settings.namesrv, ())

    def run(self, way: Way, question: str, home: Home | None = None) -> None:
        """Carry out all steps; `question` is asked before the change.

        CommandError if the offsets belong to another cluster than `home`. Exit code 3 or 1 if a queue has not
        moved.
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
                self._output.json(document(plan) | {"dryRun": True})
            return
        show_rows(self._settings, PLAN_COLUMNS, list(map(plan_row, plan.queues)))
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
        """Apply the plan; the undo file is written before."""
        path = write_undo(plan, self._home, self._settings)
        try:
            result = with_admin(self._settings, lambda admin: self._changed(admin, plan, way))
        except BaseException as error:
            if path is not None:
                line = f"the old offsets are in {path}; undo with: {undo_command(path, self._settings)}"
                say_done(self._settings, error, [line])
            raise
        self._report(plan, result, path)

    async def _changed(self, admin: Admin, plan: ResetPlan, way: Way) -> ResetResult:
        if way.create_group and self._missing:
            from codec.bodies.config import SubscriptionGroupConfig

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
            self._output.json(document(plan) | {"online": result.online, "moved": moved, "undo": undo})
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


async def _refusing(admin: Admin, brokers: Collection[str]) -> tuple[str, ...]:
    """Return the brokers that are of 5.x, or do not say their version: they refuse offsets of a group that they
    do not know.
    """
    if not brokers:
        return ()
    masters = [
        one for one in await admin.brokers.summaries() if one.broker_name in brokers and not one.broker_id
    ]
    versions = {one.broker_name: (one.runtime or {}).get("brokerVersionDesc", "") for one in masters}
    return tuple(name for name in brokers if not versions.get(name, "").startswith(("V3_", "V4_")))


async def _missing(admin: Admin, group: str, brokers: set[str]) -> tuple[str, ...]:
    """Return the brokers without the group; none that did not respond."""
    failures: dict[str, ClientError] = {}
    try:
        known = set(await admin.groups.settings(group, failures=failures))
    except GroupNotFound:
        known = set()
    return tuple(sorted(brokers - known - failures.keys()))
