from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.codec.message import Message
from rmqcli.grammar.values import GrammarError
from rmqcli.render.message_json import message_from_json, message_line, message_object, sendable
from tests.cli.messages import stored

FIELDS = [
    "topic",
    "brokerName",
    "queueId",
    "queueOffset",
    "commitLogOffset",
    "msgId",
    "offsetMsgId",
    "tags",
    "keys",
    "properties",
    "bornTimestamp",
    "bornHost",
    "storeTimestamp",
    "storeHost",
    "flag",
    "sysFlag",
    "reconsumeTimes",
    "storeSize",
    "bodyCrc",
]

text = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=20
)
properties = st.dictionaries(text | st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY"]), text, max_size=5)


def test_the_names_and_their_order() -> None:
    line = json.loads(message_line(stored()))
    assert list(line) == [*FIELDS, "body"]
    assert line["keys"] == ["k1", "k2"]
    assert line["tags"] == "paid"
    assert line["msgId"] == "7F0000010001"
    assert line["offsetMsgId"] == "0A00000200002A9F0000000000001000"
    assert line["properties"]["shop"] == "berlin"
    assert line["body"] == "hello"


def test_a_body_that_is_no_text() -> None:
    line = json.loads(message_line(stored(body=b"\xff\x00")))
    assert line["bodyBase64"] == "/wA="
    assert "body" not in line


def test_no_tags_and_no_keys() -> None:
    found = message_object(stored(properties={}))
    assert (found["tags"], found["keys"], found["properties"]) == (None, [], {})
    assert found["msgId"] == found["offsetMsgId"]


@given(st.binary(max_size=50), properties, st.integers(-(2**31), 2**31 - 1))
def test_nothing_is_lost_there_and_back(body: bytes, named: dict[str, str], flag: int) -> None:
    message = stored(body=body, properties=named, flag=flag)
    assert message_from_json(message_line(message)) == Message(
        topic="orders", body=body, flag=flag, properties=named
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"body": "x"}', Message(topic="t", body=b"x")),
        ('{"body": "x", "topic": "other"}', Message(topic="t", body=b"x")),
        ('{"body": "", "keys": ["a", "b"]}', Message(topic="t", properties={"KEYS": "a b"})),
        ('{"body": "", "keys": "a"}', Message(topic="t", properties={"KEYS": "a"})),
        ('{"body": "", "keys": "a b"}', Message(topic="t", properties={"KEYS": "a b"})),
        ('{"body": "", "tags": "", "properties": {"TAGS": ""}}', Message(topic="t")),
        (
            '{"body": "", "tags": "new", "properties": {"TAGS": "old"}}',
            Message(topic="t", properties={"TAGS": "new"}),
        ),
        ('{"body": "", "tags": null, "properties": {"TAGS": "old"}}', Message(topic="t")),
        ('{"body": "", "keys": [], "properties": {"KEYS": "old"}}', Message(topic="t")),
        (
            '{"body": "", "keys": ["a"], "properties": {"KEYS": " a  "}}',
            Message(topic="t", properties={"KEYS": " a  "}),
        ),
        ('{"body": "", "properties": {"KEYS": "a"}}', Message(topic="t", properties={"KEYS": "a"})),
        ('{"bodyBase64": "/wA=", "flag": -1, "unknown": 1}', Message(topic="t", body=b"\xff\x00", flag=-1)),
    ],
)
def test_edited_lines(line: str, expected: Message) -> None:
    assert message_from_json(line, "t") == expected


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("", "truncated"),
        ("[]", "an object"),
        ("{}", "either body or bodyBase64"),
        ('{"body": 5}', "either body or bodyBase64"),
        ('{"body": "x", "bodyBase64": "eA=="}', "either body or bodyBase64"),
        ('{"bodyBase64": "*"}', "bodyBase64"),
        ('{"bodyBase64": "ä"}', "bodyBase64"),
        ('{"body": "", "flag": true}', "flag"),
        ('{"body": "", "flag": 2147483648}', "flag"),
        ('{"body": "", "properties": {"a": 1}}', "properties"),
        ('{"body": "", "properties": []}x', "trailing"),
        ('{"body": "", "keys": [1]}', "keys"),
        ('{"body": "", "keys": {"a": "b"}}', "keys"),
        ('{"body": "", "keys": ["a b"]}', "a key contains a space"),
        ('{"body": "", "properties": {"": "v"}}', "property ''"),
        ('{"body": "", "properties": {"a": ""}}', "property 'a'"),
        ('{"body": "", "properties": {"a\\u0001b": "v"}}', "U+0001"),
        ('{"body": "", "tags": 1}', "tags"),
        ('{"body": "", "properties": {"TRAN_MSG": "true"}}', "reserves the property name TRAN_MSG"),
        ('{"body": "", "properties": {"KEYS": "k", "MSG_TYPE": "reply"}}', "property name MSG_TYPE"),
        ('{"body": "\\ud800"}', "not a message"),
        ('{"body": "\\udc00"}', "not a message"),
    ],
)
def test_what_is_no_message_line(line: str, part: str) -> None:
    with pytest.raises(GrammarError) as caught:
        message_from_json(line, "t")
    assert part in str(caught.value)


def test_bytes_that_are_no_text_at_all() -> None:
    with pytest.raises(GrammarError):
        message_from_json(b'{"body": "\xff"}', "t")


def test_a_line_without_a_topic_needs_one() -> None:
    with pytest.raises(GrammarError, match="no topic"):
        message_from_json('{"body": ""}')


def test_what_was_stamped_on_the_way_is_not_sent_again() -> None:
    named = {
        "TRAN_MSG": "true",
        "MSG_TYPE": "reply",
        "MIN_OFFSET": "0",
        "REAL_TOPIC": "x",
        "UNIQ_KEY": "1",
        "mine": "2",
    }
    assert sendable(Message(topic="t", properties=named)).properties == {"UNIQ_KEY": "1", "mine": "2"}


def test_a_delay_is_spent_on_a_message_that_was_delivered_after_it() -> None:
    delivered = {"DELAY": "3", "REAL_TOPIC": "t", "REAL_QID": "0", "mine": "1"}
    assert sendable(Message(topic="t", properties=delivered)).properties == {"mine": "1"}
    asked = {"DELAY": "3", "mine": "1"}
    assert sendable(Message(topic="t", properties=asked)).properties == asked
