"""Conditions over columns and properties, and the distribution of records."""

from __future__ import annotations

import re

import pytest

from rmqcli.codec.errors import SelectorError
from rmqcli.codec.records.filter import COLUMNS, Columns, record_filter
from rmqcli.codec.records.reading import decode_record
from rmqcli.render.distribution import sparkline
from rmqcli.store.select.conditions import row_test
from rmqcli.store.stats.distribution import MAX_STEPS, Distribution
from tests.support import JavaStore


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("topic = 'SeedNormal'", 1500),
        ("topic = 'SeedNormal' AND queue_id = 0", 375),
        ("queue_id IN ('0') AND topic = 'SeedNormal'", 375),
        ("topic = 'SeedNormal' AND queue_offset BETWEEN 10 AND 19", 40),
        ("commit_log_offset = 0", 1),
        ("store_size < 0", 0),
        (
            "topic = 'SeedNormal' AND store_timestamp > 0 AND NOT (born_timestamp < 1 OR 0 > born_timestamp)",
            1500,
        ),
        ("tags IS NULL AND TAGS IS NOT NULL", 0),
        ("DELAY > 0 AND topic = 'SCHEDULE_TOPIC_XXXX' AND DELAY <= 18", 43),
    ],
)
def test_conditions(store_clean: JavaStore, where: str, count: int) -> None:
    chosen = record_filter(where=where)
    log = store_clean.commit_log
    messages = [decode_record(log, line["phy"]) for line in store_clean.of_kind("msg")]
    assert sum(map(chosen.accepts, messages)) == count


def test_integers_of_a_condition_have_64_bits() -> None:
    """Small ones, too, which a broker compares with 32 bits."""
    for where in (
        "offset > 5",
        "NOT (offset <= 5)",
        "5 < offset",
        "offset BETWEEN 5 AND 3000000000",
        "-5 < offset",
    ):
        assert row_test(["offset"], where)([3_000_000_000]), where
    assert not row_test(["offset"], "offset > 5")([2**63])


def test_every_column_is_text(store_clean: JavaStore) -> None:
    message = decode_record(store_clean.commit_log, 0)
    row = Columns(message)
    assert set(row) == set(COLUMNS) | set(message.properties)
    assert len(row) == len(list(row))
    assert all(isinstance(row[name], str) for name in row)


def test_a_condition_that_is_none() -> None:
    with pytest.raises(SelectorError):
        record_filter(where="queue_id =")


def test_the_spread(store_clean: JavaStore) -> None:
    spread = Distribution()
    lines = store_clean.of_kind("msg")
    for line in lines:
        spread.add(decode_record(store_clean.commit_log, line["phy"]))
    assert sum(spread.sizes.values()) == sum(spread.rate.counts) == len(lines)
    assert spread.sizes[256] == sum(128 <= line["size"] < 256 for line in lines)
    assert len(spread.rate.counts) <= MAX_STEPS
    assert spread.rate.begin <= lines[0]["storeTimestamp"] < spread.rate.begin + spread.rate.step


def test_a_sparkline() -> None:
    assert sparkline([0, 1, 4, 8]) == " ▁▄█"
    assert sparkline([]) == ""


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("maxOffset > 3", "there is no column maxOffset; there are topic, max_offset"),
        ("topic = 'a' OR NOT (max_offset BETWEEN 1 AND lag)", "there is no column lag"),
        ("topic = 'a' OR NOT (max_offset IN ('1') AND lag IS NULL)", "there is no column lag"),
        ("topic = 'a' max_offset > 3", "found 'max_offset'"),
        ("topic AND max_offset )", "expected the end, found ')'"),
    ],
)
def test_conditions_over_a_table_that_cannot_be_meant(where: str, said: str) -> None:
    """No row, or only a part of the rows, could meet them."""
    with pytest.raises(SelectorError, match=re.escape(said)):
        row_test(["topic", "maxOffset"], where)


def test_conditions_over_a_table() -> None:
    meets = row_test(["topic", "maxOffset", "lag"], "topic = 'a' AND max_offset > 3 AND lag IS NULL")
    assert [row for row in (("a", 4, None), ("a", 3, None), ("b", 4, None), ("a", 4, 0)) if meets(row)] == [
        ("a", 4, None)
    ]
