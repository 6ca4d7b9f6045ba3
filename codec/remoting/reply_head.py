"""Heads of replies and requests that differ in only a few values; their common parts are written once, by the
general writers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from rmqcli.codec.codes import RPC_RESPONSE, RequestCode, ResponseCode, SerializeType
from rmqcli.codec.core.replies import ReplyHead
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.headers.signed import SIGNATURE
from rmqcli.codec.remoting.binary_header import lengthened, pieces_between
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import FRAME_HEAD, MAX_FRAME, encode_frame, unsendable
from rmqcli.codec.remoting.json_header import encode_json_header, write_json
from rmqcli.codec.remoting.signature import Signer, content_order

_SAMPLE: Final = 1_234_567_800
"""The opaque number in headers from the general writers, where it is searched for."""


def reply_head(
    code: int, ext_fields: Mapping[str, str], names: Sequence[str], remark: str | None = None
) -> ReplyHead:
    """Return the head of replies that share code, remark and first ext fields; the values of the ext fields
    in `names` vary.
    """
    return common_head(code, ext_fields, names, RPC_RESPONSE, remark)


def common_head(
    code: int, ext_fields: Mapping[str, str], names: Sequence[str], flag: int = 0, remark: str | None = None
) -> ReplyHead:
    """Return the head of commands that share code, flag, remark and ext fields; the values of the ext fields
    in `names` vary. These are in the order of `ext_fields`, or new. Raises UnicodeEncodeError.
    """
    command = RemotingCommand(code, {**ext_fields, **dict.fromkeys(names, "")}, b"", _SAMPLE, flag, remark)
    rest, json = encode_json_header(command), []
    # No value contains these bytes, because its quotes are escaped.
    for before in (*(f'"{name}":"' for name in names), '"opaque":'):
        piece, found, rest = rest.partition(before.encode())
        json.append(piece + found)
    return ReplyHead((*json, rest.removeprefix(b"%d" % _SAMPLE)), pieces_between(command, names), MAX_FRAME)


# The request to store a message, and its reply, as whole frames: what clients and brokers write most often.
#
# The bytes are those of the general encoder, which takes three times as long. What all sends of plain
# messages to one queue, or all replies of one broker, have in common is computed once.

_pack_head: Final = FRAME_HEAD.pack
_WIRE: Final = {field.name: field.encode_name for field in msgspec.structs.fields(SendMessageRequestHeaderV2)}
_VARYING: Final = (_WIRE["born_timestamp"], _WIRE["properties"])
_CODE: Final = RequestCode.SEND_MESSAGE_V2
_PLACE: Final = "@msgId@"
"""A placeholder for message ids that are inserted later."""


class SendTemplate:
    """The common parts of the JSON headers of all messages to a queue: everything but born timestamp,
    properties, opaque number and, with a `signer`, signature.

    Raises LocalProtocolError if one of its texts cannot be sent.
    """

    __slots__ = ("head", "signing")

    def __init__(self, header: SendMessageRequestHeaderV2, signer: Signer | None = None) -> None:
        ext = to_ext(msgspec.structs.replace(header, properties=""))
        if signer is not None:
            ext |= signer.ext_fields
        varying = _VARYING if signer is None else (*_VARYING, SIGNATURE)
        try:
            self.head = common_head(_CODE, ext, varying)
            self.signing = None if signer is None else _Signing(ext, signer)
        except UnicodeEncodeError as error:
            raise unsendable(error) from error


class _Signing:
    """The signatures of all messages to a queue. The signed bytes before the born timestamp are hashed only
    once.
    """

    __slots__ = ("_content", "_mac")

    def __init__(self, ext: Mapping[str, str], signer: Signer) -> None:
        order = content_order(ext)
        born, properties = (order.index(name) for name in _VARYING)
        pieces = (order[:born], order[born + 1 : properties], order[properties + 1 :])
        beginning, between, end = ("".join(ext[name] for name in piece).encode() for piece in pieces)
        self._mac = signer.mac(beginning)
        self._content = b"%%d%b%%b%b" % (between.replace(b"%", b"%%"), end.replace(b"%", b"%%"))

    def signature(self, born_timestamp: int, properties: str, body: bytes) -> bytes:
        """Return the signature of one message. Raises UnicodeEncodeError for a lone surrogate."""
        return self._mac.base64(self._content % (born_timestamp, properties.encode()), body)


class SendRequest:
    """A SEND_MESSAGE_V2 request made from a template. A Connection numbers and writes it like a
    RemotingCommand.
    """

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
        """Return the whole frame. Raises LocalProtocolError if it is too long, or if the properties contain a
        lone surrogate.
        """
        body, template = self.body, self.template
        try:
            values = [b"%d" % self.born_timestamp, write_json(self.properties)[1:-1]]
            if template.signing is not None:
                values.append(template.signing.signature(self.born_timestamp, self.properties, body))
        except UnicodeEncodeError as error:
            raise unsendable(error) from error
        return template.head.frame(False, self.opaque, values, len(body)) + body


class SendReplyFrames:
    """Frames of the replies to sends, whose headers begin with `ext_fields`. `id_prefix` is the store address
    in message ids, in upper-case hex.
    """

    __slots__ = ("_ext_fields", "head", "id_prefix")

    def __init__(self, ext_fields: Mapping[str, str], id_prefix: str) -> None:
        self._ext_fields = {**ext_fields, "msgId": ""}
        self.head = reply_head(ResponseCode.SUCCESS, ext_fields, ("msgId", "queueId", "queueOffset"))
        self.id_prefix = id_prefix.encode()

    def frame(
        self, kind: SerializeType, opaque: int, msg_ids: bytes, queue_id: int, queue_offset: int
    ) -> bytes:
        """Return the frame of a SUCCESS reply to one message, or to a short batch with all message ids."""
        return self.head.frame(bool(kind), opaque, [msg_ids, b"%d" % queue_id, b"%d" % queue_offset], 0)

    def pieces(
        self,
        kind: SerializeType,
        code: int,
        opaque: int,
        msg_ids: Sequence[bytes],
        queue_id: int,
        queue_offset: int,
    ) -> list[bytes]:
        """Return the frame of the reply to a batch as chunks. Its message ids are the concatenated `msg_ids`,
        which are not copied.
        """
        texts = {"msgId": _PLACE, "queueId": str(queue_id), "queueOffset": str(queue_offset)}
        ext_fields = {**self._ext_fields, **texts}
        command = RemotingCommand(code, ext_fields, b"", opaque, RPC_RESPONSE, serialize_type=kind)
        # The frame is encoded with a stand-in, and the lengths are corrected: joining and encoding a megabyte
        # of message ids would hold up the event loop for 3 ms.
        begin, _, end = encode_frame(command).rpartition(_PLACE.encode())
        size = sum(map(len, msg_ids))
        more = size - len(_PLACE)
        length, mark = FRAME_HEAD.unpack_from(begin)
        header = begin[FRAME_HEAD.size :]
        if kind == SerializeType.ROCKETMQ:
            header = lengthened(header, size, more)
        return [_pack_head(length + more, mark + more) + header, *msg_ids, end]
