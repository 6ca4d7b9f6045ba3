"""Rows over several readings: their trends, and the last figures of rows to which a lost broker contributes.

Times are in seconds of any monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from rmqcli.top.loads import Carried, Reading, Trend, Trends

NO_TREND = Trend((), None, None)
GONE = "the name server no longer knows it"


class Row(NamedTuple):
    """A line of `rmq top`. `lost_at`: the time since which a contributing broker is lost. `timers` are
    waiting timer messages, `clients` the running clients of a group.
    """

    name: str
    group: str | None
    rate_in: float | None
    rate_out: float | None
    figure: int | None
    trend: Trend
    lost_at: float | None = None
    timers: int | None = None
    clients: int | None = None

    def value(self, column: str) -> Any:
        """Return the value to sort by, None if it is unknown."""
        return {
            "name": self.name,
            "in": self.rate_in,
            "out": self.rate_out,
            "lag": self.figure,
            "change": self.trend.change,
            "eta": self.trend.eta,
        }[column]


class Loss(NamedTuple):
    """A broker that does not respond, the time since which it has not, and the reason."""

    broker: str
    at: float
    why: str


class _Known(NamedTuple):
    """A row: its last complete figures, its figures in the last reading, the trend, and when it was itself
    lost.
    """

    whole: Carried
    answered: Carried
    trend: Trend
    lost_at: float | None = None


class Board:
    """The rows of one kind. A broker is lost from the first reading without it to the next with it.

    A row to which a lost broker contributes keeps its figures; a row first seen while a broker is lost has
    the figures of the others.
    """

    def __init__(self) -> None:
        self._trends = Trends()
        self._known: dict[tuple[str, str | None], _Known] = {}
        self._registered: frozenset[str] = frozenset()
        self._losses: dict[str, Loss] = {}

    @property
    def losses(self) -> list[Loss]:
        return [self._losses[name] for name in sorted(self._losses)]

    @property
    def rows(self) -> list[Row]:
        """The rows; those to which a lost broker contributes have their last complete figures."""
        return [self._row(one, one.whole) for one in self._known.values()]

    @property
    def answered(self) -> list[Row]:
        """The rows as in the last reading: those to which a lost broker contributes have the figures of the
        others.
        """
        return [self._row(one, one.answered) for one in self._known.values()]

    def update(self, reading: Reading, now: float) -> None:
        """Add a reading. Rows that it lacks are kept if a lost broker contributes to them."""
        self._registered |= reading.registered
        reasons = dict.fromkeys(self._registered - reading.registered, GONE)
        reasons |= {name: str(error) for name, error in reading.lost.items()}
        self._losses = {
            name: Loss(name, self._losses[name].at if name in self._losses else now, why)
            for name, why in reasons.items()
        }
        found = {(one.name, one.group): one for one in reading.found}
        former = self._known
        self._known = {
            place: one._replace(answered=Carried(*place, None, None, None))
            for place, one in former.items()
            if place not in found and self._is_partial(one.whole)
        } | {place: self._note(former.get(place), one, now) for place, one in found.items()}

    def forget(self) -> None:
        """Drop the rows to which lost brokers contribute: later readings have them with the figures of the
        others.
        """
        self._known = {place: one for place, one in self._known.items() if self._lost_at(one) is None}
        self._registered -= self._losses.keys()

    def _note(self, former: _Known | None, one: Carried, now: float) -> _Known:
        if one.lost:
            since = now if former is None or former.lost_at is None else former.lost_at
            return (
                _Known(one, one, NO_TREND, since)
                if former is None
                else former._replace(answered=one, lost_at=since)
            )
        if former is not None and self._is_partial(former.whole):
            # The whole figures and the trend remain those from before the loss.
            return former._replace(answered=one, lost_at=None)
        place = one.name, one.group
        one = one._replace(brokers=one.brokers - self._losses.keys())
        if former is not None and not one.brokers <= former.whole.brokers:
            self._trends.drop(place)  # another broker contributes to the figures now
        return _Known(one, one, self._trends.note(place, one.figure, now))

    def _is_partial(self, one: Carried) -> bool:
        return not one.brokers.isdisjoint(self._losses)

    def _lost_at(self, one: _Known) -> float | None:
        times = [self._losses[name].at for name in one.whole.brokers if name in self._losses]
        return min(times if one.lost_at is None else [*times, one.lost_at], default=None)

    def _row(self, one: _Known, figures: Carried) -> Row:
        return Row(*figures[:5], one.trend, self._lost_at(one), figures.timers, figures.clients)


def chosen(rows: Iterable[Row], column: str, text: str = "", *, backwards: bool = False) -> list[Row]:
    """Return the rows whose names contain a string, sorted by a column: figures in descending order, names in
    ascending order, unknown values last.
    """
    found = [row for row in rows if text in row.name or text in (row.group or "")]
    found.sort(key=lambda row: (row.name, row.group or ""))
    known = [row for row in found if row.value(column) is not None]
    unknown = [row for row in found if row.value(column) is None]
    known.sort(key=lambda row: row.value(column), reverse=(column != "name") != backwards)
    return known + unknown


def plain(row: Row, now: float) -> list[Any]:
    """Return a row as plain data; the change of a lost row is unknown."""
    lost, trend = row.lost_at is not None, row.trend
    change = None if lost or trend.change is None else round(trend.change, 2)
    eta = None if lost or trend.eta is None else round(trend.eta, 1)
    since = None if row.lost_at is None else round(now - row.lost_at, 1)
    return [*row[:5], change, eta, list(trend.values), lost, since, row.timers]
