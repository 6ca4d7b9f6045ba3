"""Preparation of messages: the short ways give the same results as the long ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqcli.client import ClientInstance, InvalidRequest
from rmqcli.client.produce.outgoing import Preparer, SendHeaders, properties_bytes, properties_text
from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.message import Message, PropertyName
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.property_names import MAX_PROPERTIES_LENGTH
from rmqcli.codec.remoting.connection import Connection
from rmqcli.codec.remoting.reply_head import SendRequest

QUEUE = MessageQueue("T", "broker-a", 3)
LONGEST = MAX_PROPERTIES_LENGTH - len("n\x01")


def outcome(function: Any, properties: dict[str, Any]) -> str:
    try:
        return str(function(properties))
    except InvalidRequest as error:
        return f"refused: {error}"


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers(), max_size=4))
@example({"n": "x" * LONGEST})
@example({"n": "x" * (LONGEST + 1)})
@example({"n": "ä" * (LONGEST // 2 + 1)})
@example({"n": "\ud800"})
@example({"n": "a\x02b"})
@example({"n\x02": "a", "m": "b"})
@example({"n\x01": "a", "m": "b"})
@example({"n": 5})
@example({})
def test_properties_as_text_are_those_as_bytes(properties: dict[str, Any]) -> None:
    expected = outcome(lambda found: properties_bytes(found).decode(), properties)
    assert outcome(properties_text, properties) == expected


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"P": ""}, "property 'P' has no value"),
        ({"": "v"}, "a property has no name"),
        ({"n\x02": "a", "m": "b"}, r"holds the character U\+0002"),
        ({"n\x01": "a"}, r"the name of a property holds the character U\+0001"),
    ],
)
def test_a_property_that_readers_would_not_find_is_refused(properties: dict[str, str], said: str) -> None:
    message = Message(topic="T", body=b"x", properties=properties)
    with pytest.raises(InvalidRequest, match=said):
        Preparer("ID".__str__).single(message)


@pytest.mark.parametrize(
    ("topic", "options", "is_plain"),
    [
        ("T", {}, True),
        ("T", {"flag": 7}, False),
        ("T", {"properties": {PropertyName.TRAN_MSG: "true"}}, False),
        ("T", {"properties": {PropertyName.MSG_TYPE: "reply"}}, False),
        ("%RETRY%g", {"properties": {PropertyName.RECONSUME_TIME: "2"}}, False),
        ("%RETRY%g", {"properties": {PropertyName.MAX_RECONSUME_TIMES: "0"}}, False),
        ("%RETRY%g", {}, True),
    ],
)
@pytest.mark.parametrize("size", [10, 5000])
async def test_the_request_equals_the_general_one(
    topic: str, options: dict[str, Any], is_plain: bool, size: int
) -> None:
    instance = ClientInstance(now_ms=lambda: 1_700_000_000_000)
    headers = SendHeaders(instance, "PG")
    for number in range(2):  # the first of a queue may make a template, the second finds it
        message = Message(topic=topic, body=bytes(size), **options)
        preparer = Preparer(f"ID{number}".__str__)
        packed = await preparer.packed(message) if size >= preparer.compress_over else None
        outgoing = preparer.single(message, packed)
        request = headers.request(outgoing, QUEUE)
        assert isinstance(request, SendRequest) is (is_plain and size < 4096)
        general = Connection().request(headers.command(outgoing, QUEUE), None)
        assert Connection().request(request, None) == general
        assert f"ID{number}" in outgoing.properties
    assert bool(outgoing.sys_flag & MessageSysFlag.COMPRESSED) is (size > 4096)
