"""The short way to the reply of a send gives the bytes of the general encoder."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codec.codes import ResponseCode
from codec.remoting.frame import RemotingCommand, encode_frame
from codec.remoting.send_reply import SendReplyFrames

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
INT32 = st.integers(-(2**31), 2**31 - 1)


@given(
    st.dictionaries(TEXT, TEXT, max_size=3),
    INT32,
    st.integers(0, 2**63 - 1),
    INT32,
    st.integers(0, 2**63 - 1),
)
def test_the_same_bytes_as_the_general_encoder(
    common: dict[str, str], opaque: int, physical_offset: int, queue_id: int, queue_offset: int
) -> None:
    prefix = "7F00000100002A9F"
    ext = {
        **common,
        "msgId": f"{prefix}{physical_offset:016X}",
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
    }
    general = encode_frame(RemotingCommand(0, opaque=opaque).reply(ResponseCode.SUCCESS, None, ext))
    frames = SendReplyFrames(common, prefix)
    assert frames.json_frame(opaque, physical_offset, queue_id, queue_offset) == general
