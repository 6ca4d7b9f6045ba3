from __future__ import annotations

import json

import pytest

from rmqcli.monitor.measures import BROKERS, DISK, LAG, SEND
from rmqcli.monitor.verdict import (
    Figure,
    Limits,
    Measured,
    State,
    document,
    judge,
    nagios,
    parse_threshold,
    prometheus,
    unknown,
)

LIMITS = Limits(parse_threshold("10"), parse_threshold("100"))
LOST = {"broker-b": "no | answer"}


@pytest.mark.parametrize(
    ("values", "lost", "state"),
    [
        ([5, 10], {}, State.OK),
        ([5, 11], {}, State.WARNING),
        ([500, 11], {}, State.CRITICAL),
        ([5], LOST, State.UNKNOWN),
        ([50], LOST, State.WARNING),
        ([500], LOST, State.CRITICAL),
        ([], {}, State.OK),
    ],
)
def test_what_is_known_to_be_bad_counts_most(values: list[float], lost: dict[str, str], state: State) -> None:
    figures = [Figure(value, f"g{value}") for value in values]
    assert judge(LAG, Measured(figures, lost), LIMITS).state is state


def test_a_send_that_fails_is_critical() -> None:
    assert judge(SEND, Measured([Figure(1, "a")], LOST), Limits()).state is State.CRITICAL


def test_losses_that_a_figure_counts_are_judged_by_it() -> None:
    warn = Limits(parse_threshold("0"))
    assert judge(BROKERS, Measured([Figure(1)], LOST, counted=True), warn).state is State.WARNING


def test_the_line_of_a_plugin() -> None:
    figures = [Figure(5, "billing"), Figure(50, "it's")]
    assert nagios(judge(LAG, Measured(figures, LOST), LIMITS)) == (
        "RMQ LAG WARNING - highest lag 50 (it's), no answer from broker-b"
        " | lag_billing=5;10;100;0; 'lag_it''s'=50;10;100;0;\n"
        "broker-b: no / answer"
    )
    assert nagios(judge(BROKERS, Measured([Figure(0)]), Limits())) == (
        "RMQ BROKERS OK - brokers that do not answer: 0 | lost=0;;;0;"
    )
    assert nagios(judge(DISK, Measured([Figure(28.4, "a b")]), Limits())) == (
        "RMQ DISK OK - fullest disk 28.4% (a b) | 'used_a b'=28.4%;;;0;100"
    )
    assert nagios(judge(LAG, Measured([Figure(1, "a|b")]), Limits())) == (
        "RMQ LAG OK - highest lag 1 (a/b) | lag_a_b=1;;;0;"
    )
    assert nagios(judge(LAG, Measured([]), LIMITS)) == "RMQ LAG OK - highest lag: none"
    assert nagios(unknown(LAG, "cannot\nconnect")) == "RMQ LAG UNKNOWN - cannot connect"


def test_prometheus() -> None:
    verdict = judge(LAG, Measured([Figure(50, 'a"\\b')]), LIMITS)
    assert prometheus(verdict).splitlines() == [
        "# HELP rmq_check_state 0 ok, 1 warning, 2 critical, 3 unknown",
        "# TYPE rmq_check_state gauge",
        'rmq_check_state{check="lag"} 1',
        "# HELP rmq_group_lag_messages highest lag",
        "# TYPE rmq_group_lag_messages gauge",
        'rmq_group_lag_messages{group="a\\"\\\\b"} 50',
    ]
    assert prometheus(judge(BROKERS, Measured([Figure(1)]), Limits())).endswith("rmq_brokers_lost 1")
    assert len(prometheus(unknown(LAG, "x")).splitlines()) == 3


def test_the_document() -> None:
    assert json.loads(document(judge(LAG, Measured([Figure(50, "g")], LOST), LIMITS))) == {
        "version": 1,
        "check": "lag",
        "state": "WARNING",
        "text": "highest lag 50 (g), no answer from broker-b",
        "warn": "10",
        "crit": "100",
        "unit": "",
        "figures": [{"target": "g", "value": 50, "state": "WARNING"}],
        "details": ["broker-b: no | answer"],
    }
