"""The heads of replies that vary in a few values have the bytes of the general encoder."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from rmqcli.codec.codes import RPC_RESPONSE, SerializeType
from rmqcli.codec.core.replies import offset_text
from rmqcli.codec.errors import LocalProtocolError
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import MAX_FRAME, encode_frame_head
from rmqcli.codec.remoting.reply_head import reply_head

TEXTS = st.text(max_size=8) | st.sampled_from(
    ["@msgId@", "", "%d", "100 % of it", '"quoted"\\', "\x00\n", "ü😀", "1234567800", '"opaque":1234567800']
)
NAMES = st.lists(st.sampled_from(["msgId", "queueId", "queueOffset", "a"]), min_size=1, unique=True)
VALUES = st.text("0123456789ABCDEFabc-., %@", max_size=40).map(str.encode)
BODIES = st.sampled_from([0, 1, 5000, MAX_FRAME, 2**31, 2**40]) | st.integers(MAX_FRAME - 500, MAX_FRAME)


@given(
    st.sampled_from(SerializeType),
    st.integers(-(2**15), 2**15 - 1),
    st.none() | TEXTS,
    st.dictionaries(st.sampled_from(["MSG_REGION", "TRACE_ON", 'n"', "ü", ""]), TEXTS),
    NAMES,
    st.data(),
    st.sampled_from([0, -1, -(2**31), 2**31 - 1]) | st.integers(-(2**31), 2**31 - 1),
    BODIES,
)
def test_any_reply(
    kind: SerializeType,
    code: int,
    remark: str | None,
    constant: dict[str, str],
    names: list[str],
    data: st.DataObject,
    opaque: int,
    body_size: int,
) -> None:
    head = reply_head(code, constant, names, remark)
    for _ in range(2):
        values = data.draw(st.tuples(*[VALUES] * len(names)))
        ext = {**constant, **{name: value.decode() for name, value in zip(names, values, strict=True)}}
        command = RemotingCommand(code, ext, b"", opaque, RPC_RESPONSE, remark, serialize_type=kind)
        out = BytesWriter()
        try:
            expected = encode_frame_head(command, body_size)
        except LocalProtocolError as error:
            with pytest.raises(LocalProtocolError) as refused:
                head.write(out, kind != SerializeType.JSON, opaque, list(values), body_size)
            assert str(refused.value) == str(error)
            assert out.getvalue() == b"", "nothing of a frame that is refused"
            continue
        assert head.frame(kind != SerializeType.JSON, opaque, list(values), body_size) == expected
        out.write(b"before")
        head.write(out, kind != SerializeType.JSON, opaque, list(values), body_size)
        assert out.getvalue() == b"before" + expected


@pytest.mark.parametrize("kind", SerializeType)
def test_the_longest_frame(kind: SerializeType) -> None:
    """A value that makes it one byte longer is refused, whatever has the other bytes."""
    head, is_binary = reply_head(0, {}, ("a",)), kind != SerializeType.JSON
    size = len(head.frame(is_binary, 7, [b""], 0))
    assert len(head.frame(is_binary, 7, [bytes(1000)], MAX_FRAME - size - 1000)) == size + 1000
    for value, body_size in ((bytes(1001), MAX_FRAME - size - 1000), (b"", MAX_FRAME - size + 1)):
        with pytest.raises(LocalProtocolError, match=f"a frame of {MAX_FRAME + 1} bytes is over the limit"):
            head.frame(is_binary, 7, [value], body_size)


@given(st.integers(0, 2**63 - 1))
@example(0)
@example(2**63 - 1)
def test_the_offset_in_a_message_id(offset: int) -> None:
    assert offset_text(offset) == b"%016X" % offset
