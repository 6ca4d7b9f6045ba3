"""Headers and bodies that no client would send: every handler answers with a code that 4.9.8 has for it.

Each request is a right one with one or two wrong values. A header or body that cannot be read is SYSTEM_ERROR
in Java, too; nothing else may come out of a handler as an exception.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from rmqcli.broker.errors import NotReady, Refusal
from rmqcli.broker.handlers import HANDLERS
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.errors import BodyError, HeaderError
from rmqcli.codec.headers.base import Header
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.support import Client, fake_broker
from tests.operations import OPERATIONS
from tests.seeds import times

R = RequestCode
ROUNDS = times(15)
MOMENT = 12.0
"""Seconds until everything that was left to a task has been answered, or its time is over."""

NUMBERS = (
    *("1", "-1", "3", "2147483647", "-2147483648", "9223372036854775807", "-9223372036854775808"),
    *("9223372036854775808", "1e3", "", " 1", "NaN", "9" * 400),
)
TEXTS = (
    *(
        "%RETRY%G",
        "%DLQ%G",
        "",
        " ",
        "../../../etc",
        "a/b",
        "\x00",
        "x" * 300,
        "\ud800",
        "é€",
        "T@G",
        "Unknown",
    ),
    *("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TBW102", "%RETRY%"),
    *(
        "TAGS\x01A\x02DELAY\x01999",
        "DELAY\x01-5\x02",
        "TRAN_MSG\x01true\x02",
        "k\x01" + "v" * 40_000,
        "\x01\x02\x01",
    ),
    *(
        "REAL_TOPIC\x01x\x02TRAN_MSG\x01true",
        "REPLY_TO_CLIENT\x01client-40000\x02",
        "INNER_MULTI_DISPATCH\x01a,b",
    ),
    *("SQL92", "a >", "||", "7F00000100002A9F0000000000000000", "7F00000100002A9F7FFFFFFFFFFFFFFF", "zz"),
)
RIGHT = {
    **dict.fromkeys(("topic", "b", "originTopic", "statsKey"), "T"),
    **dict.fromkeys(("group", "consumerGroup", "srcGroup", "destGroup", "compareGroup", "groupName"), "G"),
    **dict.fromkeys(("clientId", "clientID", "clientAddr"), "client-40000"),
    "msgId": "7F00000100002A9F0000000000000000",
    "key": "k",
    "properties": "a\x011\x02",
    "i": "a\x011\x02",
    "defaultTopic": "TBW102",
    "c": "TBW102",
    "topicFilterType": "SINGLE_TAG",
    "subscription": "*",
    "statsName": "TOPIC_PUT_NUMS",
    "expressionType": "TAG",
    "perm": "6",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "maxNum": "32",
    "endTimestamp": "9223372036854775807",
    "commitOrRollback": "8",
    "sysFlag": "7",
    "k": "0",
    "extraInfo": "0 1700000000000 60000 0 0 broker-a 0 0",
    "maxMsgNums": "8",
    "exp": "*",
    "expType": "TAG",
}

VALUES: tuple[Any, ...] = (
    None,
    0,
    -1,
    2**31,
    2**63,
    1.5,
    True,
    "",
    "x" * 300,
    "../x",
    "\x00",
    [],
    {},
    [None],
    {"a": None},
)
QUEUE = {"topic": "T", "brokerName": "broker-a", "queueId": 0}
SUBSCRIPTION = {
    "topic": "T",
    "subString": "a > 1",
    "subVersion": 2,
    "expressionType": "SQL92",
    "tagsSet": [],
    "codeSet": [],
}
MEMBER = {
    "groupName": "G",
    "consumeType": "CONSUME_PASSIVELY",
    "messageModel": "CLUSTERING",
    "unitMode": False,
    "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
    "subscriptionDataSet": [SUBSCRIPTION],
}
GROUP = {"groupName": "G", "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0, "consumeEnable": True}
TOPIC = {
    "topicName": "T",
    "readQueueNums": 4,
    "writeQueueNums": 4,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
    "order": False,
}
ACKED = {"c": "G", "t": "T", "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 60000, "b": "Aw=="}
RIGHT_BODIES: dict[RequestCode, Any] = {
    R.BATCH_ACK_MESSAGE: {"brokerName": "broker-a", "acks": [ACKED]},
    R.SET_MESSAGE_REQUEST_MODE: {"topic": "T", "consumerGroup": "G", "mode": "POP", "popShareQueueNum": 0},
    R.HEART_BEAT: {"clientID": "c", "consumerDataSet": [MEMBER], "producerDataSet": [{"groupName": "P"}]},
    R.CHECK_CLIENT_CONFIG: {"clientId": "c", "group": "G", "subscriptionData": SUBSCRIPTION},
    R.LOCK_BATCH_MQ: {"clientId": "c", "consumerGroup": "G", "mqSet": [QUEUE]},
    R.UNLOCK_BATCH_MQ: {"clientId": "c", "consumerGroup": "G", "mqSet": [QUEUE]},
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: GROUP,
    R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: {"groupConfigList": [GROUP]},
    R.UPDATE_AND_CREATE_TOPIC_LIST: {"topicConfigList": [TOPIC]},
}
BODIES = (
    *(b"", b"null", b"{}", b"[]", b"0", b'"x"', b"{", b"\xff\xfe", b"k=v\n=\n#", b"x" * 100_000),
    *(
        b"listenPort=x",
        b"maxMessageSize=-1\ntransactionTimeOut=99999999999999999999",
        b"[" * 5000,
        b'{"x":' * 2000,
    ),
)


def wrong_headers(cls: type[Header], rng: random.Random) -> Iterator[dict[str, str]]:
    fields = {field.encode_name: "str" in str(field.type) for field in msgspec.structs.fields(cls)}
    while True:
        ext = {name: RIGHT.get(name, "x" if is_text else "0") for name, is_text in fields.items()}
        for name in rng.sample(sorted(fields), min(len(fields), rng.choice((1, 1, 2)))):
            ext[name] = rng.choice(TEXTS if fields[name] and rng.random() < 0.9 else NUMBERS)
        yield ext


def wrong_value(value: Any, rng: random.Random) -> Any:
    """The same JSON with one value of it replaced."""
    if not value or rng.random() < 0.1 or not isinstance(value, (dict, list)):
        return rng.choice(VALUES)
    if isinstance(value, list):
        return [wrong_value(value[0], rng), *value[1:]]
    name = rng.choice(sorted(value))
    return {**value, name: wrong_value(value[name], rng)}


def requests(code: RequestCode, rng: random.Random) -> Iterator[RemotingCommand]:
    cls = OPERATIONS[code].request
    headers = wrong_headers(cls, rng) if cls is not None else None
    for number in range(ROUNDS):
        body: bytes = rng.choice(BODIES)
        if code in RIGHT_BODIES and rng.random() < 0.8:
            body = msgspec.json.encode(wrong_value(RIGHT_BODIES[code], rng))
        ext = next(headers) if headers is not None else None
        yield RemotingCommand(code, ext, body, number, rng.choice((0, 0, 2)), version=rng.choice((0, 409)))


async def outcome(client: Client, request: RemotingCommand) -> str:
    handler = client.broker.handlers[request.code]
    while True:
        try:
            handler(client.session, request)  # type: ignore[arg-type]
        except NotReady as missing:
            await missing.ready()
            handler = missing.then or handler
        except Refusal as refusal:
            assert isinstance(refusal.remark, str)
            return "refused"
        except (HeaderError, BodyError):
            return "unreadable"
        else:
            return "served"


@pytest.mark.parametrize("code", sorted(HANDLERS), ids=lambda code: code.name)
async def test_nothing_but_a_refusal_comes_out(
    tmp_path: Path, autojump_clock: trio.abc.Clock, code: RequestCode
) -> None:
    outcomes = set()
    async with fake_broker(tmp_path, enable_property_filter=True, enable_calc_filter_bit_map=True) as broker:
        client = broker.client()
        await client.heartbeat("G", "T")
        for number in range(3):
            assert (
                await client.send("T", b"%d" % number, properties={"KEYS": "k", "a": str(number)})
            ).code == 0
        for request in requests(code, random.Random(code)):
            outcomes.add(await outcome(client, request))
        await trio.sleep(MOMENT)
        assert (await broker.client().send("Fine")).code in (0, 1, 13), "a reconfigured broker may want none"
    assert outcomes != {"unreadable"}, "nothing got as far as the handler"
