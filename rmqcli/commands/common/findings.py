"""Lines of findings, as `rmq doctor` and `rmq group check` print them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rmqcli.cli.settings import Settings
from rmqcli.doctor.finding import Finding, Status


def show_findings(settings: Settings, findings: Sequence[Finding]) -> None:
    """Print one line for each finding, or one JSON document."""
    from rmqcli.render import Output
    from rmqcli.render.text import tsv_line

    output = Output()
    if settings.json:
        output.json({"namesrv": settings.namesrv, "checks": [finding._asdict() for finding in findings]})
        return
    for finding in findings:
        output.line(_line(finding) if settings.terminal else tsv_line(finding))


def _line(finding: Finding) -> str:
    from rmqcli.render.text import printable

    status = finding.status.upper() if finding.status is Status.FAIL else finding.status.value
    what: list[Any] = [finding.check, finding.target]
    text = f"{status:<5} {' '.join(filter(None, what))}: {finding.text}"
    return printable(text if finding.fix is None else f"{text}; {finding.fix}")
