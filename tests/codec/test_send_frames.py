"""The frames of sends have the bytes of the general encoder, which refuses what they refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rmqcli.codec.codes import RequestCode, ResponseCode, SerializeType
from rmqcli.codec.core.replies import offset_text
from rmqcli.codec.errors import LocalProtocolError
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection
from rmqcli.codec.remoting.frame import MAX_FRAME, encode_frame
from rmqcli.codec.remoting.reply_head import SendReplyFrames, SendRequest, SendTemplate
from tests.codec.samples import INT32, INT64
from tests.codec.values import TEXT, structs

HEADERS = structs(SendMessageRequestHeaderV2)
HEADER = SendMessageRequestHeaderV2(
    producer_group="G",
    topic="T",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=0,
    sys_flag=0,
    born_timestamp=0,
    flag=0,
)


@given(HEADERS, INT64, TEXT | st.just("TAGS\x01a\x02KEYS\x01%d"), st.binary(max_size=20), INT32)
def test_a_request_has_the_bytes_of_the_general_encoder(
    header: SendMessageRequestHeaderV2, born: int, properties: str, body: bytes, opaque: int
) -> None:
    ext = to_ext(replace(header, born_timestamp=born, properties=properties))
    general = encode_frame(RemotingCommand(RequestCode.SEND_MESSAGE_V2, ext, body, opaque))
    assert SendRequest(SendTemplate(header), born, properties, body, opaque).frame() == general


def test_a_connection_numbers_it_like_any_other() -> None:
    connection = Connection(first_opaque=7)
    tokens = [object(), object()]
    request = SendRequest(SendTemplate(HEADER), 1, "", b"body")
    for token in tokens:
        [command] = Connection().receive(connection.request(request, token))
        assert command.opaque == request.opaque
        assert connection.match(command.reply(0)) is token
    assert request.opaque == 8


@pytest.mark.parametrize("size", [MAX_FRAME, MAX_FRAME - 400])
def test_a_frame_over_the_limit_is_refused_like_any_other(size: int) -> None:
    template = SendTemplate(HEADER)
    room = MAX_FRAME - len(SendRequest(template, 0, "", b"").frame())
    assert len(SendRequest(template, 0, "", bytes(room)).frame()) == MAX_FRAME
    with pytest.raises(LocalProtocolError, match=f"a frame of {MAX_FRAME + 1} bytes is over the limit"):
        SendRequest(template, 0, "", bytes(room + 1)).frame()
    with pytest.raises(LocalProtocolError):
        Connection().request(SendRequest(template, 0, "x" * 500, bytes(size)), None)


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be sent as JSON"):
        SendTemplate(replace(HEADER, topic="\ud800"))
    with pytest.raises(LocalProtocolError, match="cannot be sent as JSON"):
        SendRequest(SendTemplate(HEADER), 0, "\ud800", b"").frame()


@given(
    st.dictionaries(TEXT, TEXT, max_size=3),
    st.lists(
        st.tuples(
            st.sampled_from(SerializeType),
            INT32,
            st.integers(0, 2**63 - 1),
            INT32 | st.integers(0, 20),
            st.integers(0, 2**63 - 1) | st.integers(0, 20),
        ),
        min_size=1,
    ),
)
def test_replies_have_the_bytes_of_the_general_encoder(
    common: dict[str, str], replies: list[tuple[SerializeType, int, int, int, int]]
) -> None:
    prefix = "7F00000100002A9F"
    frames = SendReplyFrames(common, prefix)
    for kind, opaque, physical_offset, queue_id, queue_offset in replies:
        ext = {
            **common,
            "msgId": f"{prefix}{physical_offset:016X}",
            "queueId": str(queue_id),
            "queueOffset": str(queue_offset),
        }
        request = RemotingCommand(0, opaque=opaque, serialize_type=kind)
        general = encode_frame(request.reply(ResponseCode.SUCCESS, None, ext))
        ids = prefix.encode() + offset_text(physical_offset)
        assert frames.frame(kind, opaque, ids, queue_id, queue_offset) == general


@given(
    st.dictionaries(TEXT, TEXT, max_size=3),
    st.sampled_from(SerializeType),
    st.sampled_from([ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT]),
    INT32,
    st.lists(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=3), min_size=1, max_size=4),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
)
def test_the_pieces_of_a_reply_have_the_bytes_of_the_general_encoder(
    common: dict[str, str],
    kind: SerializeType,
    code: int,
    opaque: int,
    parts: list[list[int]],
    queue_id: int,
    queue_offset: int,
) -> None:
    prefix = "7F00000100002A9F"
    texts = [",".join(f"{prefix}{offset:016X}" for offset in offsets).encode() for offsets in parts]
    msg_ids = [texts[0], *(b"," + text for text in texts[1:])]
    ext = {
        **common,
        "msgId": b"".join(msg_ids).decode(),
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
    }
    request = RemotingCommand(0, opaque=opaque, serialize_type=kind)
    pieces = SendReplyFrames(common, prefix).pieces(kind, code, opaque, msg_ids, queue_id, queue_offset)
    whole = encode_frame(request.reply(code, None, ext))
    assert b"".join(pieces) == whole
    if code == ResponseCode.SUCCESS:
        frames, ids = SendReplyFrames(common, prefix), b"".join(msg_ids)
        for _ in range(2):
            assert frames.frame(kind, opaque, ids, queue_id, queue_offset) == whole
    assert all(text is piece for text, piece in zip(msg_ids, pieces[1:], strict=False))
