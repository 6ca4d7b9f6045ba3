"""The forms of a verdict: a line of Monitoring Plugins, Prometheus text, JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rmqcli.monitor.verdict import Figure, Measure, Verdict
from rmqcli.render.output import JSON_VERSION, json_line
from rmqcli.render.text import one_line, printable

_NEEDS_QUOTES = frozenset(" ='")


def nagios(verdict: Verdict) -> str:
    """Return `RMQ LAG OK - text | performance data`, and a line for each detail."""
    first = f"RMQ {verdict.measure.check.upper()} {verdict.state.name} - {_plain(verdict.text)}"
    performance = " ".join(_performance(verdict, figure) for figure in verdict.figures)
    lines = [f"{first} | {performance}" if performance else first, *map(_plain, verdict.details)]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Return text without `|`, which begins performance data, and without control characters."""
    return printable(" ".join(text.replace("|", "/").split()))


def _performance(verdict: Verdict, figure: Figure) -> str:
    """Return `'label'=value[unit];warn;crit;min;max`."""
    measure, limits = verdict.measure, verdict.limits
    label = f"{measure.name}_{figure.target}" if figure.target else measure.name
    label = label.replace("|", "_")  # begins performance data, and is allowed in names of groups
    label = one_line(label)
    if _NEEDS_QUOTES & set(label):
        label = "'" + label.replace("'", "''") + "'"
    warn, crit = ("" if limit is None else limit.text for limit in (limits.warn, limits.crit))
    top = "100" if measure.unit == "%" else ""
    return f"{label}={figure.value:g}{measure.unit};{warn};{crit};0;{top}"


def prometheus(verdict: Verdict) -> str:
    """Return the exposition format of Prometheus, for the text file collector of its node exporter."""
    return "\n".join(_families(verdict))


def _families(verdict: Verdict) -> Iterator[str]:
    measure = verdict.measure
    yield "# HELP rmq_check_state 0 ok, 1 warning, 2 critical, 3 unknown"
    yield "# TYPE rmq_check_state gauge"
    yield f"rmq_check_state{_labels({'check': measure.check})} {int(verdict.state)}"
    if verdict.figures:
        yield f"# HELP {measure.metric} {measure.text.rstrip(':')}"
        yield f"# TYPE {measure.metric} gauge"
    for figure in verdict.figures:
        yield f"{measure.metric}{_labels(_own_labels(measure, figure))} {figure.value:g}"


def _own_labels(measure: Measure, figure: Figure) -> dict[str, str]:
    return {measure.label: figure.target} if measure.label else {}


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def document(verdict: Verdict) -> str:
    """Return one JSON object."""
    measure, limits = verdict.measure, verdict.limits
    value: dict[str, Any] = {
        "check": measure.check,
        "state": verdict.state.name,
        "text": verdict.text,
        "warn": limits.warn and limits.warn.text,
        "crit": limits.crit and limits.crit.text,
        "unit": measure.unit,
        "figures": [
            {"target": figure.target, "value": figure.value, "state": limits.state(figure.value).name}
            for figure in verdict.figures
        ],
        "details": list(verdict.details),
        "version": JSON_VERSION,
    }
    return json_line(value).decode()


FORMATS: Mapping[str, Callable[[Verdict], str]] = {
    "nagios": nagios,
    "prometheus": prometheus,
    "json": document,
}
