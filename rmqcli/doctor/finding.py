"""The result of one check of one thing."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """WARN: it works, but not for everybody, or not for long. SKIP: it could not be looked at."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class Finding(NamedTuple):
    """`check` is a name of `rmqcli.doctor.checks.CHECKS`, `target` what was looked at, `fix` the remedy."""

    status: Status
    check: str
    target: str
    text: str
    fix: str | None = None


def worst(findings: Sequence[Finding]) -> Status:
    """Return FAIL or WARN if there is one, else OK."""
    found = {finding.status for finding in findings}
    return next((status for status in (Status.FAIL, Status.WARN) if status in found), Status.OK)
