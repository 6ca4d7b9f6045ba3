"""Measured figures, and the verdict of thresholds on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from rmqcli.monitor.threshold import Threshold


class State(IntEnum):
    """Exit codes of Monitoring Plugins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


_WORST = (State.CRITICAL, State.WARNING, State.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number. `target` is what it belongs to (a group, a broker), "" for the whole cluster."""

    value: float
    target: str = ""


@dataclass(frozen=True, slots=True)
class Measure:
    """The kind of the figures of a check.

    `name` is a word for performance data, `metric` the name for Prometheus, `label` the name of its label,
    `unit` that of performance data (%, ms or nothing), `text` what a person reads. `lost_state` is what it
    means that something did not answer, or that no broker is registered at all.
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
    """The figures of one run. `lost` holds errors by what did not answer; `counted`: figures include these.
    `notes` are about the run itself.
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
    """The state, one line about it, and what it was made from. `details` has a line for each loss."""

    measure: Measure
    state: State
    text: str
    figures: Sequence[Figure] = ()
    limits: Limits = Limits()
    details: Sequence[str] = ()


def worst(states: Sequence[State]) -> State:
    """Return the state that counts: what is known to be bad comes before what is not known."""
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
    """Return the verdict of a check that could not be made."""
    return Verdict(measure, state, why, details=details)


def _text(measure: Measure, measured: Measured, limits: Limits) -> str:
    """Name the figure that counts most, and the number of losses."""
    if measured.figures:
        first = max(measured.figures, key=lambda one: (limits.state(one.value), one.value))
        of = f" ({first.target})" if first.target else ""
        text = f"{measure.text} {first.value:g}{measure.unit}{of}"
    else:
        text = f"{measure.text}: none"
    missing = ", ".join(filter(None, measured.lost))
    return f"{text}, no answer from {missing}" if missing else text
