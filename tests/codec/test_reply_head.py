"""Heads of replies written by a template equal those of the general writer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.codes import RPC_RESPONSE, SerializeType
from codec.errors import LocalProtocolError
from codec.headers.base import to_ext
from codec.headers.pull import PullMessageResponseHeader
from codec.remoting.frame import RemotingCommand, encode_frame_head
from codec.remoting.reply_head import ReplyHead

FIELDS = "suggest_which_broker_id", "next_begin_offset", "min_offset", "max_offset"
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(
    st.sampled_from(SerializeType),
    st.integers(0, 300),
    st.sampled_from(["FOUND", None, '100 % of "it"', "ü"]),
    st.integers(0, 1 << 20),
    INT32,
    st.tuples(INT64, INT64, INT64, INT64),
)
def test_a_template_writes_what_the_general_writer_does(
    kind: SerializeType,
    code: int,
    remark: str | None,
    body_length: int,
    opaque: int,
    values: tuple[int, ...],
) -> None:
    header = PullMessageResponseHeader(**dict(zip(FIELDS, values, strict=True)))
    command = RemotingCommand(code, to_ext(header), b"", opaque, RPC_RESPONSE, remark, serialize_type=kind)
    head = ReplyHead(code, PullMessageResponseHeader, FIELDS, remark).frame_head
    for _ in range(2):
        assert head(kind, body_length, opaque, *values) == encode_frame_head(command, body_length)


def test_fields_in_another_order_than_the_header_are_refused() -> None:
    with pytest.raises(ValueError, match="in another order"):
        ReplyHead(0, PullMessageResponseHeader, FIELDS[::-1], None)


def test_a_reply_over_the_limit_of_frames_is_refused() -> None:
    head = ReplyHead(0, PullMessageResponseHeader, FIELDS, "FOUND").frame_head
    for kind in SerializeType:
        with pytest.raises(LocalProtocolError, match="is over the limit"):
            head(kind, 16 << 20, 1, 0, 0, 0, 0)
