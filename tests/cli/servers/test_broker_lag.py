"""`rmq broker lag`."""

from __future__ import annotations

from tests.cli.conftest import Run


def test_lag_by_broker_and_queue(both: Run) -> None:
    both("topic", "create", "behind", "--queues", "1")
    for name in ("broker-a", "broker-a", "broker-b"):
        both("send", "behind", "x", "-b", name)
    both("consume", "behind", "-g", "slow", "--from", "start", "-c", "3")
    both("send", "behind", "-b", "broker-b", stdin=b"y\nz\n")
    rows = [row for row in both("broker", "lag").lines if row[2] == "behind"]
    assert [row[:7] for row in rows] == [
        ["broker-a", "slow", "behind", "0", "2", "2", "0"],
        ["broker-b", "slow", "behind", "0", "1", "3", "2"],
    ]
    assert all(row[7].isdigit() for row in rows)
    found = both("broker", "lag", "--least", "2", "--json").json
    (one,) = [row for row in found if row["topic"] == "behind"]
    assert (one["brokerName"], one["lag"], one["maxOffset"], one["consumerOffset"]) == ("broker-b", 2, 3, 1)
    assert b"behind" not in both("broker", "lag", "-b", "broker-a", "--least", "2").out
    both("topic", "delete", "behind", "--yes")


def test_queues_that_are_only_read_have_a_lag(both: Run) -> None:
    """How one takes queues out of use: no more is written, consumers empty them. Brokers list write queues."""
    both("topic", "create", "leaving", "--queues", "2", "-b", "broker-a")
    both("send", "leaving", "x", "-q", "1")
    both("group", "create", "leavers")
    both("offsets", "reset", "leavers", "leaving", "--to", "start", "--yes")
    for left in ("1", "0"):
        both("topic", "update", "leaving", "--write-queues", left)
        rows = [row for row in both("broker", "lag").lines if row[2] == "leaving"]
        assert [[row[3], row[6]] for row in rows] == [["0", "0"], ["1", "1"]]
        shown = both("metrics", "show").out.decode().splitlines()
        sums = [
            one.split()[-1] for one in shown if one.startswith("rocketmq_group_diff{") and "leavers" in one
        ]
        assert sums == ["1.0"]
    both("topic", "delete", "leaving", "--yes")


def test_a_broker_that_does_not_answer_is_named(half: Run) -> None:
    result = half("broker", "lag")
    assert result.code == 3
    assert result.err.startswith("rmq: broker-b: cannot connect to 127.0.0.2:")
