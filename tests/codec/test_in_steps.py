"""A body that is decoded in steps is the body that is decoded at once."""

from __future__ import annotations

import re

import pytest

from rmqcli.codec.bodies.base import Body, decode_body, encode_body
from rmqcli.codec.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from rmqcli.codec.bodies.in_steps import PIECE, NotPlainJson, decode_body_in_steps
from rmqcli.codec.bodies.offsets import LockBatchRequestBody
from rmqcli.codec.errors import BodyError
from rmqcli.codec.message_queue import MessageQueue


def heartbeat(groups: int, topics: int, text: str = "*") -> HeartbeatData:
    subscriptions = [SubscriptionData(topic=f"T{n}", sub_string=text) for n in range(topics)]
    return HeartbeatData(
        client_id="c",
        consumer_data_set=[
            ConsumerData(group_name=f"G{n}", subscription_data_set=subscriptions) for n in range(groups)
        ],
        producer_data_set=[ProducerData(group_name=f"P{n}") for n in range(groups)],
    )


def in_steps(cls: type[Body], data: bytes) -> tuple[object, int]:
    """The value and the number of steps."""
    work, steps = decode_body_in_steps(cls, data), 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, steps
        steps += 1


LONG = [
    heartbeat(2000, 1),
    heartbeat(400, 9),
    heartbeat(1, 3000),
    heartbeat(300, 2, 'a"},{"b\\"},'),
    heartbeat(3, 1),
    HeartbeatData(client_id="}," * PIECE),
    LockBatchRequestBody(
        consumer_group="G", client_id="c", mq_set=[MessageQueue("},", "b", n) for n in range(4000)]
    ),
]


@pytest.mark.parametrize("body", LONG, ids=range(len(LONG)))
def test_the_steps_give_what_one_step_gives(body: Body) -> None:
    for data in (
        encode_body(body),
        encode_body(body).replace(b'},{"', b' } ,\n{ "'),
        encode_body(body, pretty=True),
    ):
        assert in_steps(type(body), data)[0] == decode_body(type(body), data)


def test_a_long_list_takes_as_many_steps_as_it_has_pieces() -> None:
    data = encode_body(heartbeat(2000, 1))
    assert in_steps(HeartbeatData, data)[1] >= len(data) // PIECE
    assert in_steps(HeartbeatData, encode_body(heartbeat(1, 1)))[1] <= 2


@pytest.mark.parametrize("old, new", [(b'"T5999"', b"5999"), (b'"T5999"', b'"T5999"')], ids=["odd", "usual"])
@pytest.mark.parametrize("body", [heartbeat(1, 6000), heartbeat(2, 6000), heartbeat(6000, 1)], ids=range(3))
def test_long_items_and_odd_values_take_as_many_steps(body: HeartbeatData, old: bytes, new: bytes) -> None:
    """A number where a text is expected has the items of its piece read as fastjson reads them."""
    data = encode_body(body).replace(old, new)
    value, steps = in_steps(HeartbeatData, data)
    assert value == decode_body(HeartbeatData, data)
    assert steps >= len(data) // PIECE


@pytest.mark.parametrize(
    "data", [b"[1]", b"{", b"{'clientID':1}", b'{"clientID":{"$ref":"$"}}', b"", b"{}{}", b"\xff"]
)
def test_what_is_no_standard_json_is_named(data: bytes) -> None:
    with pytest.raises(NotPlainJson):
        in_steps(HeartbeatData, data)


@pytest.mark.parametrize(
    "body, wrong",
    [(heartbeat(2000, 1), b'"G1999"'), (heartbeat(1, 3000), b'"T2999"')],
    ids=["group", "topic"],
)
def test_an_item_that_is_wrong_is_refused_as_in_one_step(body: HeartbeatData, wrong: bytes) -> None:
    data = encode_body(body).replace(wrong, b"[%b]" % wrong)
    with pytest.raises(BodyError) as at_once:
        decode_body(HeartbeatData, data)
    with pytest.raises(BodyError, match=re.escape(str(at_once.value))):
        in_steps(HeartbeatData, data)
