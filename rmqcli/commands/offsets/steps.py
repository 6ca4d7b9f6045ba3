"""The steps of a reset: plan, show, write the undo file, apply, report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import typer

from rmqcli.cli.settings import Settings
from rmqcli.client import (
    Admin,
    GroupNotFound,
    QueueReset,
    QueueResetResult,
    ResetPlan,
    ResetResult,
    ResetTarget,
)
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import partial_code
from rmqcli.commands.offsets.undo import undo_command, write_undo
from rmqcli.render import Column, Output
from rmqcli.render.columns import BROKER, QUEUE
from rmqcli.render.output import note, warn
from rmqcli.render.table import objects, show_rows
from rmqcli.render.text import many

_COLUMNS = (
    BROKER,
    QUEUE,
    Column("OLD", "old", number=True),
    Column("NEW", "new", number=True),
    Column("REPLAYED", "replayed", number=True),
    Column("SKIPPED", "skipped", number=True),
)


def _row(step: QueueReset) -> list[Any]:
    return [step.queue.broker_name, step.queue.queue_id, step.old, step.new, step.replayed, step.skipped]


class Reset:
    """One reset, from the plan to the result."""

    def __init__(
        self, settings: Settings, group: str, topic: str, target: ResetTarget, *, queue_id: int | None
    ) -> None:
        self._settings = settings
        self._request = (group, topic, target)
        self._queue_id = queue_id
        self._unknown = False
        self._output = Output()

    def plan(self) -> ResetPlan:
        """Return the planned changes."""
        return with_admin(self._settings, self._plan)

    async def _plan(self, admin: Admin) -> ResetPlan:
        plan = await admin.offsets.plan_reset(*self._request, queue_id=self._queue_id)
        if not plan.online and not any(step.old for step in plan.queues):
            self._unknown = await _is_unknown(admin, plan.group)
        return plan

    def show_plan(self, plan: ResetPlan, *, dry_run: bool) -> None:
        """Show the old and new offsets. With `--json`, only a dry run prints them: a reset prints one
        document at its end.
        """
        if self._settings.json:
            if dry_run:
                self._output.json(_document(plan) | {"dryRun": True})
            return
        show_rows(self._settings, _COLUMNS, list(map(_row, plan.queues)))
        self._output.flush()
        way = (
            f"{many(len(plan.clients), 'running client')} will be moved, which can take 10 s"
            if plan.online
            else "no clients are running"
        )
        warn(f"{many(plan.replayed, 'message')} will be consumed again, {plan.skipped:,} skipped; {way}")
        if self._unknown:
            warn(f"group {plan.group} does not exist yet: it will start there")

    def apply(self, plan: ResetPlan, wait: float) -> None:
        """Apply the plan, waiting up to `wait` seconds for running clients; exit code 3 or 1 if a queue has
        not moved.
        """
        path = write_undo(plan)
        try:
            result = with_admin(self._settings, lambda admin: admin.offsets.reset(plan, settle=wait))
        except BaseException:
            warn(f"the old offsets are in {path}; undo with: {undo_command(path)}")
            raise
        self._report(plan, result, path)

    def _report(self, plan: ResetPlan, result: ResetResult, path: Path) -> None:
        moved = sum(queue.confirmed for queue in result.queues)
        for queue, step in zip(result.queues, plan.queues, strict=True):
            if not queue.confirmed:
                warn(f"{queue.queue}: {queue.error or _doubt(queue, step)}")
        if self._settings.json:
            self._output.json(_document(plan) | {"online": result.online, "moved": moved, "undo": str(path)})
        else:
            note(f"moved {moved} of {len(result.queues)} queues of group {plan.group}")
            note(f"undo with: {undo_command(path)}")
        if not result.complete:
            if result.online:
                group, topic = shlex.quote(plan.group), shlex.quote(plan.topic)
                warn(f"check later with: rmq offsets show {group} -T {topic}")
            raise typer.Exit(partial_code(done=moved > 0))


async def _is_unknown(admin: Admin, group: str) -> bool:
    try:
        await admin.groups.settings(group)
    except GroupNotFound:
        return True
    return False


def _doubt(queue: QueueResetResult, step: QueueReset) -> str:
    """Return why a queue that no broker refused does not count as moved."""
    if queue.found is not None and step.old is not None and queue.found >= step.old > step.new:
        return f"at offset {queue.found}: it may or may not have moved to {step.new} before"
    return f"at offset {queue.found}, not yet at {queue.wanted}"


def _document(plan: ResetPlan) -> dict[str, Any]:
    return {
        "group": plan.group,
        "topic": plan.topic,
        "target": str(plan.target),
        "clients": list(plan.clients),
        "replayed": plan.replayed,
        "skipped": plan.skipped,
        "queues": objects(_COLUMNS, map(_row, plan.queues)),
    }
