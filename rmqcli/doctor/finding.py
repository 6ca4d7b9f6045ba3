"""The result of one check of one target."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from rmqcli.codec.message_queue import MessageQueue
from rmqcli.render.text import number_ranges


class Status(StrEnum):
    """WARN: it works, but not for everyone, or not for long. SKIP: it could not be checked."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class Finding(NamedTuple):
    """`check` is a name in `rmqcli.doctor.checks.CHECKS`, `target` the object that was checked, `fix` the
    remedy.
    """

    status: Status
    check: str
    target: str
    text: str
    fix: str | None = None


def worst(findings: Sequence[Finding]) -> Status:
    """Return FAIL or WARN if there is one, otherwise OK."""
    found = {finding.status for finding in findings}
    return next((status for status in (Status.FAIL, Status.WARN) if status in found), Status.OK)


def named_queues(queues: Sequence[MessageQueue]) -> str:
    """Return `queues broker-a:0-2, broker-b:1`."""
    numbers: dict[str, list[int]] = {}
    for queue in queues:
        numbers.setdefault(queue.broker_name, []).append(queue.queue_id)
    places = [f"{name}:{number_ranges(of).replace(', ', ',')}" for name, of in sorted(numbers.items())]
    return f"{'queue' if len(queues) == 1 else 'queues'} {', '.join(places)}"
