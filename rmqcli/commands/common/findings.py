"""Lines of findings, as `rmq doctor` and `rmq group check` print them.

They stand apart because `rmqcli.doctor.finding` imports msgspec, which the help of other
commands does not need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rmqcli.cli.settings import Settings
from rmqcli.doctor.finding import Finding, Status


def show_findings(settings: Settings, findings: Sequence[Finding]) -> None:
    """Print one line for each finding, or one JSON document."""
    from rmqcli.render import Column, Output, show_rows

    output = Output()
    if settings.json:
        output.json({"namesrv": settings.namesrv, "checks": [finding._asdict() for finding in findings]})
    elif settings.terminal:
        for finding in findings:
            output.line(_line(finding))
    else:
        show_rows(settings, [Column(name.upper(), name) for name in Finding._fields], findings)


def _line(finding: Finding) -> str:
    from rmqcli.render.text import one_line

    status = finding.status.upper() if finding.status is Status.FAIL else finding.status.value
    what: list[Any] = [finding.check, finding.target]
    text = f"{status:<5} {' '.join(filter(None, what))}: {finding.text}"
    return one_line(text if finding.fix is None else f"{text}; {finding.fix}")
