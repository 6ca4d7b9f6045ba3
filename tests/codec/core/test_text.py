"""The reader of properties finds what `rmqcli.codec.properties` and `rmqcli.codec.records.dispatch` find, in any bytes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqcli.codec.core.hashing import index_key_hash, index_seed, tags_code
from rmqcli.codec.core.text import DECIDES, OWN, TIMER, UNSOUND, TextReader
from rmqcli.codec.properties import decode_properties, properties_problem
from rmqcli.codec.records.dispatch import index_keys

TOPICS = st.sampled_from(["T", "TopicA", "ü", "%RETRY%group"])
NAMES = st.sampled_from(
    [
        "TAGS",
        "KEYS",
        "UNIQ_KEY",
        "WAIT",
        "DELAY",
        "TRACE_ON",
        "TIMER_DELAY_MS",
        "TAG",
        "XKEYS",
        "UNIQ_KEYS",
        "a",
        "",
    ]
)
VALUES = st.sampled_from(
    ["", " ", "a", "a b", " a  b ", "true", "1", "x\x01y", "é", "😀 ü", "k" * 70]
) | st.text(st.characters(codec="utf-8", exclude_characters="\x02"), max_size=5)
PAIRS = st.tuples(NAMES, st.sampled_from(["\x01", ""]), VALUES).map("".join)
TEXTS = st.lists(PAIRS, max_size=6).map("\x02".join).map(str.encode)


@given(TEXTS | st.binary(max_size=60), TOPICS)
def test_any_text(text: bytes, topic: str) -> None:
    properties = decode_properties(text)
    reader = TextReader()
    traits = reader.read(text, 0, len(text))
    waits = sum(pair.startswith(b"WAIT\x01") and len(pair) > 5 for pair in text.split(b"\x02"))
    assert bool(traits & UNSOUND) == (properties_problem(text) is not None or waits > 1)
    if traits & UNSOUND:
        return
    assert bool(traits & TIMER) == ("TIMER_DELAY_MS" in properties)
    assert bool(traits & DECIDES) == ("DELAY" in properties)
    assert bool(traits & OWN) == ("TRACE_ON" in properties)
    assert reader.code(text) == tags_code(properties.get("TAGS"))
    assert reader.hashes(text, index_seed(topic)) == [
        index_key_hash(topic, key) for key in index_keys(properties)
    ]
    wait = text[reader.wait_begin : reader.wait_end].decode() if reader.wait_begin >= 0 else None
    assert wait == (f"WAIT\x01{properties['WAIT']}" if "WAIT" in properties else None)


@given(TEXTS | st.binary(max_size=60), TOPICS)
@example(b"a\x01b\x02WAIT\x01true", "T")
@example(b"WAIT\x01true\x02", "T")
@example(b"\x02WAIT\x01true", "T")
@example(b"WAIT\x01true", "T")
@example(b"TAGS\x01t\x02WAIT\x01false\x02KEYS\x01k\x02", "T")
def test_what_is_left_without_wait_has_the_same_facts(text: bytes, topic: str) -> None:
    reader, fresh, seed = TextReader(), TextReader(), index_seed(topic)
    traits = reader.read(text, 0, len(text))
    if traits & UNSOUND:
        return
    pairs = text.split(b"\x02")
    left = reader.without_wait(text)
    assert left == b"\x02".join(pair for pair in pairs if not pair.startswith(b"WAIT\x01") or len(pair) == 5)
    assert fresh.read(left, 0, len(left)) == traits
    assert fresh.code(left) == reader.code(text)
    assert fresh.hashes(left, seed) == reader.hashes(text, seed)
    assert fresh.has_facts == reader.has_facts
    assert fresh.wait_begin == -1
    assert fresh.without_wait(left) is left
    properties = decode_properties(text)
    assert reader.waits(text) == (properties.pop("WAIT", "true") == "true")
    assert decode_properties(left) == properties


@given(TEXTS, st.binary(max_size=9), st.binary(max_size=9))
def test_only_the_given_part_is_read(text: bytes, before: bytes, after: bytes) -> None:
    alone, inside = TextReader(), TextReader()
    framed, end = before + text + after, len(before) + len(text)
    assert alone.read(text, 0, len(text)) == inside.read(framed, len(before), end)
    assert alone.code(text) == inside.code(framed)


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_every_timer_is_found(name: str) -> None:
    text = f"KEYS\x01k\x02{name}\x011".encode()
    assert TextReader().read(text, 0, len(text)) == TIMER


@pytest.mark.parametrize(
    ("name", "trait"),
    [
        ("DELAY", DECIDES),
        ("TRAN_MSG", DECIDES),
        ("_SYS_MSG_PRIORITY_", DECIDES),
        ("CLUSTER", OWN),
        ("MSG_REGION", OWN),
        ("TRACE_ON", OWN),
    ],
)
def test_what_a_broker_decides_by(name: str, trait: int) -> None:
    text = f"{name}\x01true".encode()
    assert TextReader().read(text, 0, len(text)) == trait
