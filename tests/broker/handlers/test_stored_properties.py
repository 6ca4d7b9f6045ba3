"""The properties text that a send is stored with: edited or made anew, it holds the same pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.handlers.send import stored_properties
from codec.properties import decode_properties

NAMES = st.sampled_from(["WAIT", "AWAIT", "CLUSTER", "KEYS", "", "W", "é"])
VALUES = st.sampled_from(["true", "false", "", "a\x01b", "WAIT\x01true", "é", "\ud800", "c"])
PAIRS = st.builds("{}\x01{}".format, NAMES, VALUES) | st.sampled_from(["", "WAIT", "\x01", "x"])
TEXTS = st.lists(PAIRS, max_size=6).map("\x02".join)


@given(TEXTS, st.booleans())
def test_the_pairs_with_the_cluster_and_without_wait(text: str, keeps_wait: bool) -> None:
    properties = decode_properties(text)
    expected = {**properties, "CLUSTER": "c1"}
    stored = stored_properties(text, properties, "c1", keeps_wait=keeps_wait)
    assert properties == expected
    if not keeps_wait:
        expected.pop("WAIT", None)
    assert decode_properties(stored) == decode_properties(_joined(expected))


def _joined(properties: dict[str, str]) -> bytes:
    return "\x02".join(f"{name}\x01{value}" for name, value in properties.items()).encode("utf-8", "replace")


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("", b"CLUSTER\x01c1"),
        ("WAIT\x01true", b"CLUSTER\x01c1"),
        ("WAIT\x01true\x02KEYS\x01k", b"CLUSTER\x01c1\x02KEYS\x01k"),
        ("AWAIT\x01true\x02WAIT\x01true\x02KEYS\x01k", b"AWAIT\x01true\x02CLUSTER\x01c1\x02KEYS\x01k"),
        ("KEYS\x01k", b"KEYS\x01k\x02CLUSTER\x01c1"),
        ("KEYS\x01k\x02", b"KEYS\x01k\x02CLUSTER\x01c1"),
        ("CLUSTER\x01other", b"CLUSTER\x01c1"),
    ],
)
def test_examples(text: str, stored: bytes) -> None:
    assert stored_properties(text, decode_properties(text), "c1", keeps_wait=False) == stored
