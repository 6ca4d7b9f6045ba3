"""The table of SQL92 filters: versions, death, oblivion, and the file that keeps it."""

from __future__ import annotations

import pytest

from rmqcli.broker.filters import Compiler, FilterTable
from rmqcli.codec.bodies.base import decode_body, encode_body
from rmqcli.codec.bodies.filters import ConsumerFilterManager
from rmqcli.codec.bodies.heartbeat import SubscriptionData
from rmqcli.codec.errors import SelectorError
from rmqcli.codec.fastjson import FASTJSON
from rmqcli.codec.selector import BloomFilter, Dialect

TOPIC = "TopicA"
GROUP = "CG_SQL"
DAY_MS = 24 * 3600 * 1000
SAVED = b"""{"filterDataByTopic":{"TopicA":{"groupFilterData":{"CG_SQL":{"bloomFilterData":{"bitNum":112,
"bitPos":[37,11,60]},"bornTime":1795222484355,"clientVersion":1795222484638,"consumerGroup":"CG_SQL","dead":false,
"deadTime":0,"expression":"a > 5 AND a <> '7'","expressionType":"SQL92","topic":"TopicA"}},"topic":"TopicA"}}}"""
BORN = 1795222484355


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(clock: Clock) -> FilterTable:
    return FilterTable(clock)


def sql(text: str, version: int = 1, topic: str = TOPIC, expression_type: str = "SQL92") -> SubscriptionData:
    return SubscriptionData(
        topic=topic, sub_string=text, sub_version=version, expression_type=expression_type
    )


def expression(table: FilterTable, topic: str = TOPIC) -> str | None:
    one = table.get(topic, GROUP)
    return one.expression if one is not None else None


def is_dead(table: FilterTable, topic: str = TOPIC) -> bool:
    one = table.get(topic, GROUP)
    assert one is not None
    return one.is_dead


def test_a_heartbeat_registers_its_filters(table: FilterTable, clock: Clock) -> None:
    assert table.register(GROUP, [sql("a > 5", 7), sql("*", 7, "Tags", "TAG"), sql("", 7, "Empty")]) == []
    (one,) = table
    assert (one.topic, one.group, one.expression, one.client_version) == (TOPIC, GROUP, "a > 5", 7)
    assert one.born_time == clock.now
    assert not one.is_dead
    assert one.bloom == BloomFilter.of(20, 32).data("CG_SQL#TopicA")
    assert one.predicate is not None
    assert one.predicate.matches({"a": "6"})
    assert table.get(TOPIC, GROUP) is one
    assert table.get("Tags", GROUP) is None
    assert table.dirty


@pytest.mark.parametrize(
    ("version", "text", "kept"),
    [(6, "b = 1", "a > 5"), (7, "b = 1", "a > 5"), (8, "b = 1", "b = 1"), (8, "a > 5", "a > 5")],
)
def test_only_a_newer_version_replaces(table: FilterTable, version: int, text: str, kept: str) -> None:
    table.register(GROUP, [sql("a > 5", 7)])
    table.register(GROUP, [sql(text, version)])
    one = table.get(TOPIC, GROUP)
    assert one is not None
    assert one.expression == kept
    assert one.client_version == max(version, 7)


def test_the_same_text_keeps_its_birth(table: FilterTable, clock: Clock) -> None:
    table.register(GROUP, [sql("a > 5", 7)])
    born = clock.now
    clock.now += 10
    table.register(GROUP, [sql("a > 5", 8)])
    one = table.get(TOPIC, GROUP)
    assert one is not None
    assert one.born_time == born
    table.register(GROUP, [sql("a > 6", 9)])
    one = table.get(TOPIC, GROUP)
    assert one is not None
    assert one.born_time == clock.now


@pytest.mark.parametrize("bad", [sql("a >", 8), sql("a = 1", 8, expression_type="XPATH")])
def test_what_does_not_compile_takes_the_old_one_with_it(table: FilterTable, bad: SubscriptionData) -> None:
    table.register(GROUP, [sql("a > 5", 7), sql("b = 1", 7, "Other")])
    (error,) = table.register(GROUP, [bad, sql("b = 2", 8, "Other")])
    assert isinstance(error, SelectorError)
    assert table.get(TOPIC, GROUP) is None
    assert expression(table, "Other") == "b = 2"
    with pytest.raises(SelectorError):
        table.build(TOPIC, GROUP, bad.sub_string, bad.expression_type, 8)


def test_a_filter_dies_with_its_topic_or_group_and_comes_back(table: FilterTable, clock: Clock) -> None:
    table.register(GROUP, [sql("a > 5", 7), sql("b = 1", 7, "Other")])
    table.register("another", [sql("c = 1", 7)])
    clock.now += 10
    table.register(GROUP, [sql("b = 1", 7, "Other")])
    assert (is_dead(table), is_dead(table, "Other")) == (True, False)
    table.unregister(GROUP)
    assert (is_dead(table), is_dead(table, "Other")) == (True, True)
    table.register(GROUP, [sql("a > 5", 7), sql("b = 1", 8, "Other")])
    assert (is_dead(table), is_dead(table, "Other")) == (False, False)
    other = table.get(TOPIC, "another")
    assert other is not None
    assert not other.is_dead


def test_an_older_version_does_not_revive(table: FilterTable, clock: Clock) -> None:
    table.register(GROUP, [sql("a > 5", 7)])
    table.unregister(GROUP)
    table.register(GROUP, [sql("a > 5", 6)])
    assert is_dead(table)


def test_a_tag_subscription_kills_nothing_of_its_topic(table: FilterTable) -> None:
    """Java only looks whether the topic is still named."""
    table.register(GROUP, [sql("a > 5", 7)])
    table.register(GROUP, [sql("*", 8, TOPIC, "TAG")])
    assert not is_dead(table)


def test_the_dead_are_forgotten_after_a_day(table: FilterTable, clock: Clock) -> None:
    table.register(GROUP, [sql("a > 5", 7)])
    clock.now += 10 * DAY_MS
    table.clean()
    assert expression(table) == "a > 5"
    table.unregister(GROUP)
    clock.now += DAY_MS - 1
    table.clean()
    assert expression(table) == "a > 5"
    clock.now += 1
    table.dirty = False
    assert table.wrapper() == ConsumerFilterManager()
    assert table.dirty
    assert list(table) == []


def test_javas_file_is_read(clock: Clock) -> None:
    clock.now = BORN + 100_000
    table = FilterTable(clock)
    table.load(decode_body(ConsumerFilterManager, SAVED))
    one = table.get(TOPIC, GROUP)
    assert one is not None
    assert (one.born_time, one.dead_time, one.client_version) == (BORN, clock.now - 30_000, 1795222484638)
    assert one.predicate is not None
    assert [one.predicate.matches({"a": value}) for value in "678"] == [True, False, True]
    assert not table.dirty


def test_a_filter_is_not_dead_before_it_is_born(clock: Clock) -> None:
    clock.now = BORN + 5
    table = FilterTable(clock)
    table.load(decode_body(ConsumerFilterManager, SAVED))
    one = table.get(TOPIC, GROUP)
    assert one is not None
    assert one.dead_time == BORN
    assert one.is_dead


def test_what_is_written_is_what_java_writes(clock: Clock) -> None:
    clock.now = BORN
    table = FilterTable(clock)
    table.register(GROUP, [sql("a > 5 AND a <> '7'", 1795222484638)])
    written = encode_body(table.wrapper(), dialect=FASTJSON)
    assert sorted(written) == sorted(SAVED.replace(b"\n", b""))
    assert decode_body(ConsumerFilterManager, written) == decode_body(ConsumerFilterManager, SAVED)
    pretty = encode_body(table.wrapper(), dialect=FASTJSON, pretty=True)
    assert decode_body(ConsumerFilterManager, pretty) == table.wrapper()


def test_another_bloom_filter_drops_everything(clock: Clock) -> None:
    table = FilterTable(clock, bloom=BloomFilter.of(20, 64))
    table.load(decode_body(ConsumerFilterManager, SAVED))
    assert list(table) == []


def test_a_saved_text_that_does_not_compile_is_kept_without_effect(clock: Clock) -> None:
    table = FilterTable(clock)
    table.load(decode_body(ConsumerFilterManager, SAVED.replace(b"a > 5 AND", b"a > > AND")))
    one = table.get(TOPIC, GROUP)
    assert one is not None
    assert one.predicate is None
    assert (
        table.wrapper().filter_data_by_topic[TOPIC].group_filter_data[GROUP].expression
        == "a > > AND a <> '7'"
    )


def test_a_saved_text_that_does_not_compile_has_no_bits(clock: Clock) -> None:
    table = FilterTable(clock)
    table.load(decode_body(ConsumerFilterManager, SAVED.replace(b"a > 5 AND", b"a > > AND")))
    table.register("Other", [sql("a > 5")])
    other = table.get(TOPIC, "Other")
    assert other is not None and other.bloom is not None
    assert table.bit_map(TOPIC, {"a": "6"}) == table.bloom.bit_map([other.bloom])


def test_the_dialect_is_the_tables(clock: Clock) -> None:
    for dialect, wanted in ((Dialect.V4_9, False), (Dialect.V5, True)):
        table = FilterTable(clock, compiler=Compiler(dialect))
        table.register(GROUP, [sql("s CONTAINS 'b'")])
        one = table.get(TOPIC, GROUP)
        assert one is not None
        assert one.predicate is not None
        assert one.predicate.matches({"s": "abc"}) is wanted
