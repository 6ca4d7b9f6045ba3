"""The reply to a stored message as a whole frame: what a broker writes most often.

The bytes are those of the general encoder, which takes three times as long. What all replies of a broker
have in common is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from codec.codes import CURRENT_VERSION, RPC_RESPONSE, LanguageCode, ResponseCode
from codec.remoting.frame import FRAME_HEAD

_pack_head: Final = FRAME_HEAD.pack


class SendReplyFrames:
    """Frames that begin with `ext_fields`; `id_prefix` is the store address in message ids, in upper-case
    hex."""

    __slots__ = ("_header",)

    def __init__(self, ext_fields: Mapping[str, str], id_prefix: str) -> None:
        common = msgspec.json.encode(dict(ext_fields))[1:-1].decode()
        first = f"{common}," if common else ""
        before = f'{{"code":{ResponseCode.SUCCESS:d},"extFields":{{{first}"msgId":"{id_prefix}'
        between = f'"}},"flag":{RPC_RESPONSE},"language":"{LanguageCode.PYTHON.name}","opaque":'
        end = f',"serializeTypeCurrentRPC":"JSON","version":{CURRENT_VERSION}}}'
        before, between, end = (part.replace("%", "%%") for part in (before, between, end))
        self._header = f'{before}%016X","queueId":"%d","queueOffset":"%d{between}%d{end}'.encode()

    def json_frame(self, opaque: int, physical_offset: int, queue_id: int, queue_offset: int) -> bytes:
        """The frame of a SUCCESS with a JSON header, the message id of `physical_offset`, queue id and
        offset."""
        header = self._header % (physical_offset, queue_id, queue_offset, opaque)
        size = len(header)
        return _pack_head(4 + size, size) + header
