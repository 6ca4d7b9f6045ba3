"""The page about a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from rmqcli.doctor.survey import Reading
from rmqcli.report import cells
from rmqcli.report.cluster.brokers import brokers_section, drift_section, unanswered_section
from rmqcli.report.cluster.checks import Lag, drift_of, findings_of, lags_of, member_findings
from rmqcli.report.cluster.groups import (
    clients_section,
    dead_section,
    lag_section,
    rate_section,
    topics_section,
)
from rmqcli.report.cluster.reading import ClusterReading
from rmqcli.report.page import Cell, Page, Tile, attention

_NAMED = 10


def cluster_page(found: ClusterReading, namesrv: str, made_ms: int, count: int) -> Page:
    """Return the page; tables have at most `count` rows."""
    lags, drift = lags_of(found), drift_of(found)
    sections = [
        brokers_section(found, count),
        rate_section(found),
        topics_section(found, count),
        lag_section(found, lags, made_ms, count),
        dead_section(found, count),
        clients_section(found, member_findings(found), count),
        drift_section(found, drift, count),
        *unanswered_section(found.failures, count),
    ]
    name = ", ".join(sorted(found.survey.view.cluster_addr_table)) or namesrv
    facts = [("Name servers", Cell(namesrv)), *_missing(found)]
    findings = attention(findings_of(found, lags, drift))
    return Page("Cluster", name, made_ms, facts, _tiles(found, lags), findings, sections)


def _missing(found: ClusterReading) -> list[tuple[str, Cell]]:
    """Return the brokers that the figures do not include."""
    if not found.failures:
        return []
    names, rest = sorted(found.failures)[:_NAMED], len(found.failures) - _NAMED
    text = ", ".join([*names, *([f"{rest:,} more"] if rest > 0 else [])])
    return [("Without", Cell(text, "these did not answer: all figures lack their part", "fail"))]


def _tiles(found: ClusterReading, lags: Sequence[Lag]) -> list[Tile]:
    readings = found.survey.readings.values()
    answered = sum(isinstance(one, Reading) for one in readings)
    brokers = Cell(f"{answered:,} of {len(readings):,}", kind="ok" if answered == len(readings) else "fail")
    lag, dead = sum(one.lag or 0 for one in lags), sum(one.messages for one in found.dead)
    day = sum(map(sum, found.hours.counts.values()))
    unknown = sum(bool(one.unknown) for one in lags)
    return [
        Tile("Brokers", brokers, "answer"),
        Tile(
            "Topics",
            cells.number(len(found.topics)),
            f"{sum(len(one.queues) for one in found.topics):,} queues",
        ),
        Tile("Messages", cells.number(day), "in the last day"),
        Tile("In/s", cells.rate(sum(one.rate or 0.0 for one in found.topics)), "last minute"),
        Tile("Groups", cells.number(len(found.groups)), f"{_running(found):,} with clients"),
        Tile("Lag", cells.number(lag), f"unknown of {unknown:,}" if unknown else "messages"),
        Tile("Dead letters", cells.number(dead)._replace(kind="warn" if dead else "number"), "messages"),
    ]


def _running(found: ClusterReading) -> int:
    return sum(one.connection is not None for one in found.members.values())
