"""The texts, headers and bodies of pop consumption, against what a Java client and a Java broker exchanged."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from rmqcli.codec import receipt_handle as texts
from rmqcli.codec.bodies.base import decode_body, encode_body
from rmqcli.codec.bodies.pop import BatchAckMessageRequestBody, PopAck, PopCheckPoint
from rmqcli.codec.errors import HeaderError
from rmqcli.codec.headers.base import from_ext, to_ext
from rmqcli.codec.headers.pop import AckMessageRequestHeader, PopMessageResponseHeader
from rmqcli.codec.receipt_handle import PartInfo, ReceiptHandle
from rmqcli.codec.records.reading import decode_records
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import decode_frame, encode_frame
from tests.codec.wire import load_wire
from tests.operations import OPERATIONS

POP, ACK, CHANGE, BATCH_ACK = 200050, 200051, 200053, 200151


def exchanged() -> list[tuple[dict[str, Any], RemotingCommand]]:
    wire = load_wire("pop")
    return [(row, decode_frame(frame[4:])) for row, frame in zip(wire.index, wire.frames, strict=True)]


def found() -> list[RemotingCommand]:
    """The replies to pops that have messages."""
    return [one for row, one in exchanged() if row.get("reqcode") == POP and one.code == 0]


def test_every_recorded_frame_is_typed_and_written_again() -> None:
    wire = load_wire("pop")
    assert len(wire.frames) == 305
    for (row, command), frame in zip(exchanged(), wire.frames, strict=True):
        assert encode_frame(command) == frame
        operation = OPERATIONS[row.get("reqcode") or row["code"]]
        side = "reply" if command.is_response else "request"
        header, body = getattr(operation, side), getattr(operation, f"{side}_body")
        if header is not None and command.ext_fields:
            assert to_ext(from_ext(header, command.ext_fields)) == command.ext_fields
        if body not in (None, bytes) and command.body:
            assert encode_body(decode_body(body, command.body)) == bytes(command.body)


def test_the_texts_of_recorded_replies_are_written_again() -> None:
    replies = found()
    assert len(replies) == 12
    for reply in replies:
        header = from_ext(PopMessageResponseHeader, reply.ext_fields)
        parts = texts.parse_part_infos(header.start_offset_info, header.msg_offset_info)
        assert texts.start_offset_info(parts) == header.start_offset_info
        assert texts.msg_offset_info(parts) == header.msg_offset_info
        stored = [
            (texts.retry_flag(one.topic), one.queue_id, one.queue_offset)
            for one in decode_records(reply.body)
        ]
        named = [(part.retry, part.queue_id, offset) for part in parts for offset in part.offsets]
        assert [one for one in named if one[0] == texts.NORMAL] == [one for one in stored if one in named]


def test_recorded_handles_are_written_again() -> None:
    handles = [
        (command.ext_fields or {})["extraInfo"]
        for row, command in exchanged()
        if row["code"] in (ACK, CHANGE) and not command.is_response
    ]
    assert len(handles) == 104
    for text in handles:
        assert ReceiptHandle.decode(text).encode() == text


def test_recorded_acks_name_what_the_replies_told() -> None:
    """The handles that Java's client made of the headers of pop replies are those that we would make."""
    told = set()
    for reply in found():
        header = from_ext(PopMessageResponseHeader, reply.ext_fields)
        for part in texts.parse_part_infos(header.start_offset_info, header.msg_offset_info):
            for offset in part.offsets:
                handle = ReceiptHandle(
                    part.start_offset,
                    header.pop_time,
                    header.invisible_time,
                    header.revive_qid,
                    part.retry,
                    "broker-a",
                    part.queue_id,
                    offset,
                )
                told.add(handle.encode())
    acks = [
        from_ext(AckMessageRequestHeader, command.ext_fields)
        for row, command in exchanged()
        if row["code"] == ACK and not command.is_response
    ]
    made = [ack.extra_info for ack in acks]
    assert len(told & set(made)) >= 100
    assert all(ReceiptHandle.decode(ack.extra_info).offset == ack.offset for ack in acks)


def test_the_commit_log_offset_is_a_ninth_field() -> None:
    handle = ReceiptHandle(1, 2, 3, texts.ORDER_QUEUE, texts.RETRY_V2, "b", 4, 5, 6)
    assert handle.encode() == "1 2 3 999 2 b 4 5 6"
    assert ReceiptHandle.decode(handle.encode() + " more") == handle
    assert handle.is_order
    assert handle.topic("G", "T") == "%RETRY%G+T"
    assert ReceiptHandle.decode("1 2 3 0 1 b 4 5").topic("G", "T") == "%RETRY%G_T"
    assert ReceiptHandle.decode("1 2 3 0 0 b 4 5").topic("G", "T") == "T"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 2 3 0 0 b 4",
        "x 2 3 0 0 b 4 5",
        "1 2 3 0 7 b 4 5",
        f"{1 << 63} 2 3 0 0 b 4 5",
        "1 " * 400,
        "1 2 3 0 0 b 4 5_x",
    ],
)
def test_what_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(HeaderError, match="no receipt handle"):
        ReceiptHandle.decode(text)


@pytest.mark.parametrize(
    ("starts", "offsets"), [("0 0", "0 0 1"), ("0 0 0", "0 1 1"), ("0 0 x", "0 0 1"), ("0 0 0", "0 0 ")]
)
def test_texts_that_do_not_fit_are_refused(starts: str, offsets: str) -> None:
    with pytest.raises(HeaderError):
        texts.parse_part_infos(starts, offsets)


def test_the_texts_of_fifo_replies() -> None:
    text = texts.order_count_info(texts.NORMAL, 3, {7: 1, 8: 2}, 0)
    assert text == "0 qo3%7 1;0 qo3%8 2;0 3 0"
    assert texts.parse_order_counts(text) == {("0", 3, 7): 1, ("0", 3, 8): 2}
    assert texts.parse_part_infos(None, None) == []
    assert texts.parse_part_infos("1 0 5", "1 0 5,6") == [PartInfo("1", 0, 5, [5, 6])]
    with pytest.raises(HeaderError):
        texts.parse_order_counts("0 qo3%x 1")


def test_the_bit_set_of_a_recorded_batch_ack() -> None:
    (command,) = [one for row, one in exchanged() if row["code"] == BATCH_ACK]
    (ack,) = decode_body(BatchAckMessageRequestBody, command.body).acks
    bits = int.from_bytes(base64.b64decode(ack.bit_set or ""), "little")
    assert [bit for bit in range(bits.bit_length()) if bits >> bit & 1] == [2]
    assert ack.start_offset == 3


def test_records_of_the_revive_topic_are_read() -> None:
    point = decode_body(
        PopCheckPoint,
        b'{"bm":0,"bn":"broker-a","c":"G","d":[0,2],"it":10000,"n":2,"pt":5,"q":1,"ro":-1,"so":7,"t":"T"}',
    )
    assert (point.group, point.topic, point.queue_id, point.start_offset, point.distances) == (
        "G",
        "T",
        1,
        7,
        [0, 2],
    )
    ack = decode_body(PopAck, b'{"ao":9,"bn":"broker-a","c":"G","pt":5,"q":1,"so":7,"t":"T"}')
    assert (ack.ack_offset, ack.start_offset, ack.ack_offsets) == (9, 7, [])
