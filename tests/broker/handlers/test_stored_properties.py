"""The properties text that a send is stored with: edited or made anew, it holds the same pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.broker.context import OwnProperties
from rmqcli.broker.handlers.send import stored_properties
from rmqcli.codec.properties import decode_properties

OWN = OwnProperties({"CLUSTER": "c1", "MSG_REGION": "r1", "TRACE_ON": "true"})
ADDED = b"CLUSTER\x01c1\x02MSG_REGION\x01r1\x02TRACE_ON\x01true"
NAMES = st.sampled_from(["WAIT", "AWAIT", "CLUSTER", "TRACE_ON", "KEYS", "", "W", "é"])
VALUES = st.sampled_from(["true", "false", "", "a\x01b", "WAIT\x01true", "é", "\ud800", "c"])
PAIRS = st.builds("{}\x01{}".format, NAMES, VALUES) | st.sampled_from(["", "WAIT", "\x01", "x"])
TEXTS = st.lists(PAIRS, max_size=6).map("\x02".join)


@given(TEXTS, st.booleans())
def test_the_pairs_with_those_of_the_broker_and_without_wait(text: str, keeps_wait: bool) -> None:
    properties = decode_properties(text.encode("utf-8", "replace"))
    expected = {**properties, **OWN.values}
    stored = stored_properties(text.encode("utf-8", "replace"), properties, OWN, keeps_wait=keeps_wait)
    assert properties == expected
    if not keeps_wait:
        expected.pop("WAIT", None)
    assert decode_properties(stored) == decode_properties(_joined(expected))


def _joined(properties: dict[str, str]) -> bytes:
    return "\x02".join(f"{name}\x01{value}" for name, value in properties.items()).encode("utf-8", "replace")


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("", ADDED),
        ("WAIT\x01true", ADDED),
        ("WAIT\x01true\x02KEYS\x01k", b"KEYS\x01k\x02" + ADDED),
        ("AWAIT\x01true\x02WAIT\x01true\x02KEYS\x01k", b"AWAIT\x01true\x02KEYS\x01k\x02" + ADDED),
        ("KEYS\x01k", b"KEYS\x01k\x02" + ADDED),
        ("KEYS\x01k\x02", b"KEYS\x01k\x02" + ADDED),
        ("CLUSTER\x01other", ADDED),
    ],
)
def test_examples(text: str, stored: bytes) -> None:
    assert stored_properties(text.encode(), decode_properties(text), OWN, keeps_wait=False) == stored


def test_a_property_without_a_value_is_not_added() -> None:
    own = OwnProperties({"CLUSTER": "c1", "MSG_REGION": "", "TRACE_ON": "false"})
    assert own.text == b"CLUSTER\x01c1\x02TRACE_ON\x01false"
