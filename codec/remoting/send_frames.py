"""The request to store a message, and its reply, as whole frames: what clients and brokers write most often.

The bytes are those of the general encoder, which takes three times as long. What all sends of plain
messages to one queue, or all replies of one broker, have in common is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from codec.codes import RPC_RESPONSE, RequestCode, ResponseCode
from codec.headers.base import to_ext
from codec.headers.send import SendMessageRequestHeaderV2
from codec.remoting.frame import FRAME_HEAD, MAX_FRAME, too_long, unsendable
from codec.remoting.json_header import end_of_header, write_json

_pack_head: Final = FRAME_HEAD.pack
_WIRE: Final = {field.name: field.encode_name for field in msgspec.structs.fields(SendMessageRequestHeaderV2)}
_VARYING: Final = (_WIRE["born_timestamp"], _WIRE["properties"])
_CODE: Final = RequestCode.SEND_MESSAGE_V2


class SendTemplate:
    """The JSON header of all messages to a queue, as a format of born timestamp, properties and opaque
    number.

    Raises LocalProtocolError when a text of it cannot be sent.
    """

    __slots__ = ("header",)

    def __init__(self, header: SendMessageRequestHeaderV2) -> None:
        ext = to_ext(msgspec.structs.replace(header, properties=""))
        names = list(ext)
        born, properties = (names.index(name) for name in _VARYING)
        try:
            members = [write_json({name: ext[name]})[1:-1].replace(b"%", b"%%") for name in names]
        except UnicodeEncodeError as error:
            raise unsendable(error) from error
        members[born] = b'"%b":"%%d"' % names[born].encode()
        members[properties] = b'"%b":%%b' % names[properties].encode()
        self.header = b'{"code":%d,"extFields":{%b}%b' % (_CODE, b",".join(members), end_of_header(0))


class SendRequest:
    """A SEND_MESSAGE_V2 with a template. A Connection numbers and writes it, like a RemotingCommand."""

    __slots__ = ("body", "born_timestamp", "opaque", "properties", "template")

    code = _CODE

    def __init__(
        self, template: SendTemplate, born_timestamp: int, properties: str, body: bytes, opaque: int = 0
    ) -> None:
        self.template = template
        self.born_timestamp = born_timestamp
        self.properties = properties
        self.body = body
        self.opaque = opaque

    def frame(self) -> bytes:
        """The whole frame. Raises LocalProtocolError over the limit, or for properties with a lone
        surrogate."""
        body = self.body
        try:
            header = self.template.header % (self.born_timestamp, write_json(self.properties), self.opaque)
        except UnicodeEncodeError as error:
            raise unsendable(error) from error
        size = len(header)
        length = 4 + size + len(body)
        if length > MAX_FRAME - 4:
            raise too_long(length + 4)
        return b"".join((_pack_head(length, size), header, body))


class SendReplyFrames:
    """Frames that begin with `ext_fields`; `id_prefix` is the store address in message ids, in upper-case
    hex."""

    __slots__ = ("_header",)

    def __init__(self, ext_fields: Mapping[str, str], id_prefix: str) -> None:
        members = write_json({**ext_fields, "msgId": id_prefix})[1:-2].replace(b"%", b"%%")
        begin = b'{"code":%d,"extFields":{%b' % (ResponseCode.SUCCESS, members)
        self._header = begin + b'%016X","queueId":"%d","queueOffset":"%d"}' + end_of_header(RPC_RESPONSE)

    def json_frame(self, opaque: int, physical_offset: int, queue_id: int, queue_offset: int) -> bytes:
        """The frame of a SUCCESS with a JSON header, the message id of `physical_offset`, queue id and
        offset."""
        header = self._header % (physical_offset, queue_id, queue_offset, opaque)
        size = len(header)
        return _pack_head(4 + size, size) + header
