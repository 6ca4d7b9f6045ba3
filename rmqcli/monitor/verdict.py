"""Measured figures, and the verdict that thresholds give."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from rmqcli.grammar.values import GrammarError
from rmqcli.render.output import JSON_VERSION, json_line
from rmqcli.render.text import one_line, printable

# Ranges of Monitoring Plugins: a figure outside its range raises an alert.
#
# `10` is 0 to 10, `10:` at least 10, `~:10` at most 10, `10:20` between; `@10:20` alerts inside instead.
# Both ends belong to the range.

_NUMBER = r"-?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"(@?)(?:(~|{_NUMBER})?:)?({_NUMBER})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A range of accepted values. `text` is the range as given."""

    text: str
    low: float
    high: float
    inside: bool = False

    def alerts(self, value: float) -> bool:
        return (self.low <= value <= self.high) == self.inside


def parse_threshold(text: str) -> Threshold:
    """Return the range. Raise GrammarError for an invalid one."""
    found = _RANGE.fullmatch(text.strip())
    if found is None or not text.strip("@ ") or text.strip() == ":":
        raise GrammarError(f"{text!r} is not a range: expected MAX, MIN:, MIN:MAX, ~:MAX or @MIN:MAX")
    inside, low, high = found.groups()
    start = -math.inf if low == "~" else float(low or 0)
    end = math.inf if high is None else float(high)
    if start > end:
        raise GrammarError(f"{text!r} is not a range: its start is above its end")
    return Threshold(text.strip(), start, end, bool(inside))


class State(IntEnum):
    """Exit codes of Monitoring Plugins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


_WORST = (State.CRITICAL, State.WARNING, State.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number. `target` is the object that it belongs to (a group, a broker), "" for the whole cluster."""

    value: float
    target: str = ""


@dataclass(frozen=True, slots=True)
class Measure:
    """The kind of the figures of a check.

    `name` is a word for performance data, `metric` the name for Prometheus, `label` the name of its label,
    `unit` that of performance data (%, ms or nothing), `text` the text for people. `lost_state` is the state
    if a server did not respond or no broker is registered at all.
    """

    check: str
    name: str
    metric: str
    text: str
    label: str = ""
    unit: str = ""
    lost_state: State = State.UNKNOWN


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one run. `lost` holds errors by the name of what did not respond; `counted`: the
    figures already include these losses. `notes` are about the run itself.
    """

    figures: Sequence[Figure]
    lost: Mapping[str, str] = field(default_factory=dict)
    counted: bool = False
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """The ranges that figures must be in; None: any value."""

    warn: Threshold | None = None
    crit: Threshold | None = None

    def state(self, value: float) -> State:
        table = ((self.crit, State.CRITICAL), (self.warn, State.WARNING))
        return next((state for limit, state in table if limit and limit.alerts(value)), State.OK)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state, one line about it, and the data that it is based on. `details` has a line for each loss."""

    measure: Measure
    state: State
    text: str
    figures: Sequence[Figure] = ()
    limits: Limits = Limits()
    details: Sequence[str] = ()


def worst(states: Sequence[State]) -> State:
    """Return the worst state: known problems take precedence over unknown states."""
    return next((state for state in _WORST if state in states), State.OK)


def judge(measure: Measure, measured: Measured, limits: Limits) -> Verdict:
    """Compare the figures with the limits."""
    states = [limits.state(figure.value) for figure in measured.figures]
    if measured.lost and not measured.counted:
        states.append(measure.lost_state)
    details = [f"{name}: {error}" if name else error for name, error in measured.lost.items()]
    details += measured.notes
    text = _text(measure, measured, limits)
    return Verdict(measure, worst(states), text, measured.figures, limits, details)


def unknown(measure: Measure, why: str, state: State = State.UNKNOWN, details: Sequence[str] = ()) -> Verdict:
    """Return the verdict of a check that could not be carried out."""
    return Verdict(measure, state, why, details=details)


def _text(measure: Measure, measured: Measured, limits: Limits) -> str:
    """Return a text with the worst figure and the number of losses."""
    if measured.figures:
        first = max(measured.figures, key=lambda one: (limits.state(one.value), one.value))
        of = f" ({first.target})" if first.target else ""
        text = f"{measure.text} {first.value:g}{measure.unit}{of}"
    else:
        text = f"{measure.text}: none"
    missing = ", ".join(filter(None, measured.lost))
    return f"{text}, no answer from {missing}" if missing else text


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
    """Return the exposition format of Prometheus, for the textfile collector of its node exporter."""
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
