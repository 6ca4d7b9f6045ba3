"""The messages of a SQL92 pull: first the bit map of the queue's extension decides, then their properties."""

from __future__ import annotations

import pytest

from rmqcli.broker.filters import FilterTable, SqlSelection, is_tag_type
from rmqcli.codec.bodies.heartbeat import SubscriptionData
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.store.consume_queue import ExtensionEntry
from tests.codec.samples import make_record

TOPIC = "TopicA"
BORN = 1_000


def table_of(**texts: str) -> FilterTable:
    table = FilterTable(lambda: BORN)
    for group, text in texts.items():
        table.register(
            group, [SubscriptionData(topic=TOPIC, sub_string=text, sub_version=1, expression_type="SQL92")]
        )
    return table


def selection(table: FilterTable, group: str) -> SqlSelection:
    return SqlSelection(table, TOPIC, table.get(TOPIC, group))


def entry(bit_map: bytes | None, store_timestamp: int = BORN + 1) -> ExtensionEntry:
    return ExtensionEntry(0, store_timestamp, bit_map or b"")


def test_the_bit_map_names_the_groups_that_want_a_message() -> None:
    table = table_of(one="a = 1", two="a = 2", both="a > 0", broken="a > 'x'")
    wanting = {
        value: [group for group in ("one", "two", "both") if selection(table, group).accepts_extension(entry(table.bit_map(TOPIC, {"a": value})))]
        for value in ("1", "2", "0", "x")
    }  # fmt: skip
    assert wanting == {"1": ["one", "both"], "2": ["two", "both"], "0": [], "x": []}
    assert table.bit_map(TOPIC, {"a": "0"}) == bytes(14)
    assert table.bit_map("TopicB", {"a": "1"}) is None


def test_the_dead_count_for_bit_maps() -> None:
    table = table_of(one="a = 1")
    table.unregister("one")
    assert table.bit_map(TOPIC, {"a": "1"}) == table.bloom.bit_map([table.bloom.data(f"one#{TOPIC}")])


@pytest.mark.parametrize(
    "extension",
    [None, entry(None), entry(bytes(13)), entry(bytes(14), BORN), entry(b"\xff" * 14)],
    ids=["no extension", "no bit map", "another length", "older than the filter", "all bits"],
)
def test_a_queue_entry_that_says_nothing_passes(extension: ExtensionEntry | None) -> None:
    assert selection(table_of(one="a = 1"), "one").accepts_extension(extension)


def test_a_queue_entry_without_the_groups_bits_does_not_pass() -> None:
    assert not selection(table_of(one="a = 1"), "one").accepts_extension(entry(bytes(14)))


def test_a_filter_of_one_pull_has_no_bits() -> None:
    table = table_of()
    own = SqlSelection(table, TOPIC, table.build(TOPIC, "one", "a = 1", "SQL92", 1))
    assert own.accepts_extension(entry(bytes(14)))
    assert own.accepts({"a": "1"})
    assert not own.accepts({"a": "2"})
    assert list(table) == []


def test_without_a_filter_everything_passes() -> None:
    none = selection(table_of(), "one")
    assert none.accepts_extension(entry(bytes(14)))
    assert none.accepts({})


@pytest.mark.parametrize(("value", "wanted"), [("1", True), ("2", False), ("x", False), (None, False)])
def test_the_properties_decide(value: str | None, wanted: bool) -> None:
    one = selection(table_of(one="a = 1"), "one")
    properties = {"a": value} if value is not None else {"b": "1"}
    assert one.accepts(properties) is wanted
    record = make_record(topic=TOPIC.encode(), properties=encode_properties(properties))
    assert one.accepts_record(memoryview(record)) is wanted


@pytest.mark.parametrize(
    ("retry_topics", "properties", "wanted"),
    [
        (False, {"RETRY_TOPIC": TOPIC, "a": "2"}, True),
        (True, {"RETRY_TOPIC": TOPIC, "a": "2"}, False),
        (True, {"RETRY_TOPIC": TOPIC, "a": "1"}, True),
        (True, {"RETRY_TOPIC": "TopicB", "a": "2"}, True),
        (True, {"a": "2"}, True),
    ],
)
def test_retries_are_judged_by_their_own_topic(
    retry_topics: bool, properties: dict[str, str], wanted: bool
) -> None:
    table = table_of(one="a = 1")
    retries = SqlSelection(table, "%RETRY%one", None, retry_topics=retry_topics)
    assert retries.accepts(properties) is wanted


def test_types_of_tags() -> None:
    assert [is_tag_type(text) for text in (None, "", "TAG", "SQL92", "tag")] == [
        True,
        True,
        True,
        False,
        False,
    ]
