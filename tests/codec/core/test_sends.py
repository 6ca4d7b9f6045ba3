"""A plain send is what a plain reading of the rules says, and is stored and answered as a single message."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from rmqcli.codec.codes import RPC_RESPONSE, ResponseCode, SerializeType
from rmqcli.codec.core.hashing import index_key_hash, index_seed, tags_code
from rmqcli.codec.core.record_writer import QueueRun, Run
from rmqcli.codec.core.sends import Sends
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.headers.send import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from rmqcli.codec.properties import decode_properties, properties_problem
from rmqcli.codec.records.dispatch import index_keys
from rmqcli.codec.records.encoding import encode_record, sized_topic
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import encode_frame
from rmqcli.codec.remoting.reply_head import reply_head

Sent = SendMessageRequestHeader | SendMessageRequestHeaderV2
BEGIN, STORED_MS = 1 << 33, 1_700_000_000_123
STORE_HOST = bytes([10, 0, 0, 1, 0, 0, 42, 159])
FIRST = {("T", 0): 0, ("T", 1): 7, ("ü" * 10, 0): 1 << 40}
"""Queues, and the offset of their next message."""
DECIDES = {"DELAY", "TRAN_MSG", "_SYS_MSG_PRIORITY_", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"}
ADDED = {"CLUSTER", "MSG_REGION", "TRACE_ON"}
NAMES = st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "a", "WAITS", "DELAYS", "TRACE"])
VALUES = st.sampled_from(["true", "a b", "ü😀", "\ud800", "k" * 30])
SOUND = st.dictionaries(NAMES, VALUES, max_size=3).map(
    lambda pairs: [f"{name}\x01{value}" for name, value in pairs.items()]
)
WAITS = "WAIT\x01true", "WAIT\x01true", "WAIT\x01false", "WAIT\x01True", "WAIT\x01", "WAIT"
ODD = st.sampled_from([*WAITS, "", "a\x01", "\x01x", "none", "a\x01b\x01c"]) | st.sampled_from(
    [f"{name}\x011" for name in sorted(DECIDES | ADDED)]
)
INT32 = st.integers(-(2**31), 2**31 - 1)


@dataclass(frozen=True)
class Setting:
    """What plain sends of a connection have in common."""

    own: bytes
    born_host: bytes
    must_wait: bool
    left: int
    """Bytes of the log."""
    free: int
    """Offsets of a queue."""
    most_body: int
    most_text: int

    def sends(self) -> Sends:
        run = Run(STORE_HOST, BEGIN, STORED_MS, BEGIN + self.left)
        made = {
            place: QueueRun(
                place[0],
                sized_topic(place[0].encode()),
                index_seed(place[0]),
                place[1],
                offset,
                offset + self.free,
            )
            for place, offset in FIRST.items()
        }
        limits = self.most_body, self.most_text, self.must_wait
        return Sends(run, lambda *place: made.get(place), self.own, self.born_host, *limits)

    def stored_text(self, header: Sent) -> bytes:
        """The properties in a record: without WAIT, and with those of the broker at the end."""
        text = (header.properties or "").encode("utf-8", "replace")
        pairs = [pair for pair in text.split(b"\x02") if not (pair.startswith(b"WAIT\x01") and pair[5:])]
        kept = b"\x02".join(pairs)
        if not kept or not self.own or kept.endswith(b"\x02"):
            return kept + self.own
        return kept + b"\x02" + self.own

    def is_plain(self, request: RemotingCommand, header: Sent) -> bool:
        """True if nothing but the place in its queue and in the log is to be decided for a message."""
        text = (header.properties or "").encode("utf-8", "replace")
        properties = decode_properties(text)
        waits = [pair for pair in text.split(b"\x02") if pair.startswith(b"WAIT\x01") and pair[5:]]
        return (
            request.flag == 0
            and not header.batch
            and (header.topic, header.queue_id) in FIRST
            and header.sys_flag & 12 == 0
            and properties_problem(text) is None
            and len(waits) < 2
            and (not self.must_wait or properties.get("WAIT", "true") == "true")
            and not (DECIDES | ADDED) & properties.keys()
            and len(request.body) <= self.most_body
            and len(self.stored_text(header)) <= self.most_text
        )

    def record(self, request: RemotingCommand, header: Sent, queue_offset: int, offset: int) -> bytes:
        """The record of a message as the encoder of single ones writes it."""
        return encode_record(
            topic=header.topic.encode(),
            queue_id=header.queue_id,
            flag=header.flag,
            queue_offset=queue_offset,
            physical_offset=offset,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            born_host=self.born_host,
            store_timestamp=STORED_MS,
            store_host=STORE_HOST,
            reconsume_times=header.reconsume_times,
            prepared_transaction_offset=0,
            body=request.body,
            properties=self.stored_text(header),
        )


SETTINGS = st.builds(
    Setting,
    st.sampled_from([b"", b"MSG_REGION\x01R\x02TRACE_ON\x01true", b"TRACE_ON\x01false\x02"]),
    st.sampled_from([bytes(8), bytes(range(20))]),
    st.booleans(),
    st.sampled_from([1 << 30, 1 << 30, 0, 300, 800]),
    st.sampled_from([1 << 20, 1 << 20, 0, 1, 3]),
    st.sampled_from([60, 60, 0]),
    st.sampled_from([150, 40]),
)


@st.composite
def texts(draw: st.DrawFn) -> str | None:
    """Properties with pairs that a store looks at, at any place among those that it does not."""
    pairs = draw(SOUND)
    for odd in draw(st.lists(ODD, max_size=2)):
        pairs.insert(draw(st.integers(0, len(pairs))), odd)
    return draw(st.sampled_from(["\x02".join(pairs), "\x02".join([*pairs, ""]), "\x02".join(pairs) or None]))


CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "topic": st.sampled_from(["Other", "", "T"]),
    "queue_id": st.sampled_from([1, 2, -1]),
    "batch": st.just(True),
    "sys_flag": st.sampled_from([4, 8, 12, -1, -16, 3, 48]),
    "properties": texts(),
    "born_timestamp": st.integers(-(2**63), 2**63 - 1),
}
"""By which a header is another than that of a plain send, or only looks so."""


@st.composite
def sends_of(draw: st.DrawFn) -> tuple[RemotingCommand, Sent]:
    """A request to send a message and its header, mostly a plain one."""
    cls = draw(st.sampled_from([SendMessageRequestHeader, SendMessageRequestHeaderV2]))
    header: Sent = cls(
        producer_group="G",
        topic=draw(st.sampled_from(["T", "ü" * 10])),
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=draw(st.sampled_from([0, 1, 16, 32])),
        born_timestamp=0,
        flag=draw(INT32),
        properties="\x02".join(draw(SOUND)),
        reconsume_times=draw(INT32),
    )
    for name in draw(st.sampled_from([[], ["properties"], *[[name] for name in CHANGES], [*CHANGES]])):
        header = structs.replace(header, **{name: draw(CHANGES[name])})
    body = draw(st.binary(max_size=60) | st.sampled_from([bytes(60), bytes(60), bytes(61)]))
    flag = draw(st.sampled_from([0] * 9 + [1, 2]))
    kind = draw(st.sampled_from(SerializeType))
    return RemotingCommand(10, None, body, draw(INT32), flag, serialize_type=kind), header


@given(SETTINGS, st.lists(sends_of(), max_size=12))
def test_any_sends(setting: Setting, requests: list[tuple[RemotingCommand, Sent]]) -> None:
    """What is not plain, or does not fit, changes nothing: here others are taken after it."""
    sends, records, replies = setting.sends(), b"", b""
    given_: dict[tuple[str, int], int] = {}
    told: dict[tuple[str, int], list[tuple[int, int, int, bytes]]] = {}
    items: list[tuple[int, int, int]] = []
    for request, header in requests:
        place, expected = (header.topic, header.queue_id), False
        if setting.is_plain(request, header) and given_.get(place, 0) < setting.free:
            queue_offset, offset = FIRST[place] + given_.get(place, 0), BEGIN + len(records)
            record = setting.record(request, header, queue_offset, offset)
            expected = len(records + record) <= setting.left
        assert sends.take(request, header) == expected
        if not expected:
            continue
        records += record
        given_[place] = given_.get(place, 0) + 1
        text = setting.stored_text(header)
        properties = decode_properties(text)
        code = tags_code(properties.get("TAGS"))
        told.setdefault(place, []).append((offset, len(record), code, text))
        items += [(index_key_hash(header.topic, key), offset, STORED_MS) for key in index_keys(properties)]
        stored = SendMessageResponseHeader(
            msg_id=f"AB{offset:016X}", queue_id=header.queue_id, queue_offset=queue_offset
        )
        ext = {"MSG_REGION": "R"} | to_ext(stored)
        replies += encode_frame(
            RemotingCommand(
                ResponseCode.SUCCESS,
                ext,
                opaque=request.opaque,
                flag=RPC_RESPONSE,
                serialize_type=request.serialize_type,
            )
        )
    assert sends.run.records() == records
    assert sends.run.end == BEGIN + len(records)
    assert sends.run.items == items
    assert [(queue.topic, queue.queue_id) for queue in sends.queues] == list(told), (
        "in the order of the sends"
    )
    for queue, expected_ones in zip(sends.queues, told.values(), strict=True):
        assert list(zip(queue.offsets, queue.sizes, queue.codes, queue.texts, strict=True)) == expected_ones
        assert (queue.queue_offset, queue.timestamp) == (FIRST[queue.topic, queue.queue_id], STORED_MS)
    assert len(sends) == sum(given_.values()) == len(sends.results())
    head = reply_head(ResponseCode.SUCCESS, {"MSG_REGION": "R"}, ("msgId", "queueId", "queueOffset"))
    assert sends.replies(head, b"AB") == replies


def one(text: str = "a\x01b", body: bytes = b"x") -> tuple[RemotingCommand, Sent]:
    """A plain send but for what it is given."""
    header = SendMessageRequestHeaderV2(
        producer_group="G",
        topic="T",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties=text,
    )
    return RemotingCommand(310, None, body), header


USUAL = Setting(
    b"MSG_REGION\x01R", bytes(8), must_wait=False, left=1 << 30, free=9, most_body=60, most_text=40
)
LONGEST = "a\x01" + "b" * (40 - len(USUAL.own) - 3)
RECORD = len(USUAL.record(*one(), 0, BEGIN))


@pytest.mark.parametrize(
    ("change", "sent", "is_plain"),
    [
        ({}, one(), True),
        ({}, one(body=bytes(60)), True),
        ({}, one(body=bytes(61)), False),
        ({}, one(LONGEST), True),
        ({}, one(LONGEST + "b"), False),
        ({}, one("WAIT\x01false\x02" + LONGEST), True),
        ({"left": RECORD}, one(), True),
        ({"left": RECORD - 1}, one(), False),
        ({"left": RECORD, "born_host": bytes(20)}, one(), False),
        ({"left": RECORD + 12, "born_host": bytes(20)}, one(), True),
        ({"free": 1}, one(), True),
        ({"free": 0}, one(), False),
        ({"must_wait": True}, one(), True),
        ({"must_wait": True}, one("WAIT\x01true"), True),
        ({"must_wait": True}, one("WAIT\x01"), True),
        ({"must_wait": True}, one("WAIT\x01false"), False),
        ({"must_wait": True}, one("WAIT\x01True"), False),
        ({}, one("WAIT\x01True"), True),
    ],
)
def test_each_limit(change: dict[str, Any], sent: tuple[RemotingCommand, Sent], is_plain: bool) -> None:
    setting = replace(USUAL, **change)
    sends = setting.sends()
    assert sends.take(*sent) == is_plain
    assert sends.run.records() == (setting.record(*sent, 0, BEGIN) if is_plain else b"")


@pytest.mark.parametrize("text", ["{}TAGS\x01t{}\x02KEYS\x01k l{}", "{}KEYS\x01k{}\x02UNIQ_KEY\x01u{}\x02"])
@pytest.mark.parametrize("place", range(3))
def test_the_facts_are_those_without_wait(text: str, place: int) -> None:
    """Tags and keys are elsewhere in what is stored than in what came."""
    wait = ["WAIT\x01true\x02", "\x02WAIT\x01true", "\x02WAIT\x01true"][place]
    facts = []
    for put in ("", wait):
        sends = USUAL.sends()
        assert sends.take(*one(text.format(*[put if at == place else "" for at in range(3)])))
        facts.append((sends.run.records(), sends.run.items, sends.queues[0].codes))
    assert facts[0] == facts[1]
    assert facts[0][1]
