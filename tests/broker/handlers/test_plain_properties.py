"""Texts of properties that were learned are read as those that are decoded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.context import OwnProperties
from broker.handlers import plain_properties
from broker.handlers.plain_properties import COST, PASSED_BY, Plain, PlainTexts, _cut, plain
from codec.store.dispatch import index_keys

OWN = OwnProperties({"CLUSTER": "c1", "MSG_REGION": "r1", "TRACE_ON": "true"})
NAMES = st.sampled_from(
    ["UNIQ_KEY", "KEYS", "WAIT", "TAGS", "MYKEYS", "DELAY", "UNIQ_KEYS", "CLUSTER", "n", ""]
)
VALUES = st.sampled_from(
    ["a", "b c", "", "true", "UNIQ_KEY\x01x", "KEYS\x01y", "\ue000", "é", "\ud800", "\x01"]
)
PAIRS = st.builds("{}\x01{}".format, NAMES, VALUES) | st.sampled_from(["", "WAIT", "KEYS", "\x01"])
TEXTS = st.lists(PAIRS, max_size=5).map("\x02".join)


def seen(found: Plain | None) -> tuple[bytes, int, list[str]] | None:
    """What is stored of a message in log, queue and index."""
    if found is None:
        return None
    stored, code, properties = found
    return stored, code, index_keys(properties)


@settings(max_examples=100)
@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_any_texts_are_read_as_they_are_decoded(some: list[str]) -> None:
    texts = PlainTexts(OWN)
    for text in some * 2:
        assert seen(texts.read(text)) == seen(plain(text, OWN))


@settings(max_examples=100)
@given(
    st.sampled_from(
        [
            "KEYS\x01{1}\x02UNIQ_KEY\x01{0}\x02WAIT\x01true\x02TAGS\x01TagA",
            "UNIQ_KEY\x01{0}\x02WAIT\x01true\x02KEYS\x01{1}\x02TAGS\x01TagA",
            "WAIT\x01false\x02TAGS\x01TagA\x02UNIQ_KEY\x01{0}",
            "x\x01y\x02UNIQ_KEY\x01{0}\x02KEYS\x01{1}\x02",
            "UNIQ_KEY\x01{0}",
        ]
    ),
    st.lists(st.tuples(VALUES, VALUES) | st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=6),
)
def test_any_values_are_read_as_they_are_decoded(form: str, values: list[tuple[str, str]]) -> None:
    texts = PlainTexts(OWN)
    texts.read(form.format("first", "k"))
    assert len(texts._shapes) == 1
    for uniq, keys in values:
        text = form.format(uniq, keys)
        assert seen(texts.read(text)) == seen(plain(text, OWN))


def test_only_the_first_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = PlainTexts(OWN)
    texts.read("UNIQ_KEY\x01a\x02WAIT\x01true")
    monkeypatch.setattr(plain_properties, "plain", None)
    assert texts.read("UNIQ_KEY\x01b\x02WAIT\x01true") == (
        b"UNIQ_KEY\x01b\x02CLUSTER\x01c1\x02MSG_REGION\x01r1\x02TRACE_ON\x01true",
        0,
        {"UNIQ_KEY": "b"},
    )


def test_a_changed_broker_adds_other_properties() -> None:
    texts, own = PlainTexts(OWN), OwnProperties({"CLUSTER": "c2"})
    texts.read("UNIQ_KEY\x01a")
    texts.follow(own)
    assert texts.read("UNIQ_KEY\x01a") == plain("UNIQ_KEY\x01a", own)


def test_what_is_kept_is_bounded_and_learning_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_properties, "MOST", 4)
    monkeypatch.setattr(plain_properties, "CREDIT", 0)
    texts = PlainTexts(OWN)
    looked_up = 10 * COST
    for n in range(looked_up * (PASSED_BY + 1)):
        texts.read(f"UNIQ_KEY\x01a\x02n\x01{n}")
        assert len(texts._shapes) <= min(4, (n + 1) // COST)
    assert texts._shapes
    texts._credit, texts._pass_by = COST, 0
    texts.read("UNIQ_KEY\x01a\x02n\x01" + "long" * 1000)
    assert texts._credit == COST + 1


def test_texts_that_teach_nothing_are_mostly_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = PlainTexts(OWN)
    asked: list[str] = []

    def counted(text: str) -> object:
        asked.append(text)
        return _cut(text)

    monkeypatch.setattr(plain_properties, "_cut", counted)
    texts._credit = 0
    for n in range(4 * (PASSED_BY + 1)):
        texts.read(f"UNIQ_KEY\x01a\x02n\x01{n}")
    assert len(asked) == 4
