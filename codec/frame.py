"""One frame of the remoting protocol (`RemotingCommand`, `RocketMQSerializable`), with either kind of header.

    int32 length of what follows | int8 serialize type, int24 header length | header | body

Rules and limits. All integers are big-endian. A frame, its length field included, has at most 16 MiB. A JSON header is
written as Java does (compact, members in alphabetical order, null left out): the Go client reads nothing else. What is
read is what Java reads: numbers as text, ext values that are numbers, booleans or objects, unknown members and
languages, missing members. A binary header has 16 bits for code and version: the POP codes of 5.x need JSON. In it an
empty remark and an empty block of ext fields are the same as none. The order of ext fields is kept in both.
Text that is not UTF-8 is read with replacement characters, as Java does.
"""

from __future__ import annotations

import math
import re
import struct
from functools import lru_cache
from typing import Annotated, Final

import msgspec
from construct import (
    Bytes,
    GreedyBytes,
    GreedyRange,
    Int8sb,
    Int16sb,
    Int32sb,
    Int32ub,
    Prefixed,
    Struct,
    this,
)

from codec.codes import CURRENT_VERSION, RPC_ONEWAY, RPC_RESPONSE, LanguageCode, SerializeType
from codec.errors import LocalProtocolError, RemoteProtocolError
from codec.layout import fused

__all__ = [
    "BINARY_HEADER",
    "FRAME_HEAD",
    "MAX_FRAME",
    "UNKNOWN_LANGUAGE",
    "UNKNOWN_OPAQUE",
    "RemotingCommand",
    "decode_frame",
    "decode_span",
    "encode_frame",
    "encode_frame_head",
]

MAX_FRAME: Final = 16 * 1024 * 1024
"""Bytes of the longest frame, its length field included (JVM property ``com.rocketmq.remoting.frameMaxLength``)."""

UNKNOWN_LANGUAGE: Final = -1
"""`language` of a peer that named none, or one that we do not know; Java reads null."""

UNKNOWN_OPAQUE: Final = -1
"""`opaque` of a frame that had none: no request of ours ever has this number."""

# `mark` is the serialize type in the top byte and the length of the header in the other three
FRAME_HEAD = fused(Struct("length" / Int32sb, "mark" / Int32ub))

# Java's lengths are signed; a negative int32 read as unsigned is longer than any header, so one comparison refuses both
_BINARY_HEAD = Struct(
    "code" / Int16sb,
    "language" / Int8sb,
    "version" / Int16sb,
    "opaque" / Int32sb,
    "flag" / Int32sb,
    "remark_length" / Int32ub,
)
_EXT_FIELD = Struct("name" / Prefixed(Int16sb, GreedyBytes), "value" / Prefixed(Int32ub, GreedyBytes))

BINARY_HEADER = Struct(
    "head" / _BINARY_HEAD,
    "remark" / Bytes(this.head.remark_length),
    "ext_fields" / Prefixed(Int32ub, GreedyRange(_EXT_FIELD)),
)
"""The whole binary header as a declaration: what the fast reader below is tested against."""

_HEAD: Final = fused(_BINARY_HEAD)
_LENGTH16: Final = fused(Struct("length" / Int16sb))
_LENGTH32: Final = fused(Struct("length" / Int32ub))

_BINARY_MARK: Final = SerializeType.ROCKETMQ << 24
_read_mark: Final = FRAME_HEAD.part("mark").unpack_from
_read16: Final = _LENGTH16.unpack_from
_read32: Final = _LENGTH32.unpack_from
_pack_frame_head: Final = FRAME_HEAD.pack

_LANGUAGE_NUMBERS: Final = {language.name: int(language) for language in LanguageCode}
_LANGUAGE_NAMES: Final = {int(language): language.name for language in LanguageCode}

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class RemotingCommand(msgspec.Struct, gc=False):
    """A request or a response (`RemotingCommand`).

    `language` is a `LanguageCode`, or any other number that a binary header had. `body` may be a view when we send;
    what `decode_frame` returns has its own bytes.
    """

    code: int
    ext_fields: dict[str, str] | None = None
    body: bytes | memoryview = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    language: int = LanguageCode.PYTHON
    version: int = CURRENT_VERSION
    serialize_type: SerializeType = SerializeType.JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RPC_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & RPC_ONEWAY)

    def reply(
        self,
        code: int,
        remark: str | None = None,
        ext_fields: dict[str, str] | None = None,
        body: bytes | memoryview = b"",
    ) -> RemotingCommand:
        """The response to this request: same opaque number, same kind of header."""
        return RemotingCommand(
            code,
            ext_fields,
            body,
            self.opaque,
            RPC_RESPONSE,
            remark,
            LanguageCode.PYTHON,
            CURRENT_VERSION,
            self.serialize_type,
        )


# ------------------------------------------------------------------------------------------------------------ encoding


class _WrittenHeader(msgspec.Struct, gc=False):
    """The members of a JSON header in the order and under the names that Java writes."""

    code: int
    extFields: dict[str, str] | msgspec.UnsetType
    flag: int
    language: str | msgspec.UnsetType
    opaque: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str
    version: int


_UNSET: Final = msgspec.UNSET
_write_json: Final = msgspec.json.Encoder().encode


def encode_frame(command: RemotingCommand) -> bytes:
    """The frame with its length field; LocalProtocolError when the protocol cannot carry the command."""
    body = command.body
    return b"".join((encode_frame_head(command, len(body)), body))


def encode_frame_head(command: RemotingCommand, body_length: int) -> bytes:
    """All of the frame before the body, for a body of `body_length` bytes that is sent apart (as memory views)."""
    kind = command.serialize_type
    try:
        header = _encode_binary(command) if kind else _encode_json(command)
    except (UnicodeEncodeError, struct.error) as error:
        raise LocalProtocolError(f"this header cannot be sent as {kind.name}: {error}") from error
    size = len(header)
    if size + body_length > MAX_FRAME - 8:
        raise LocalProtocolError(
            f"a frame of {size + body_length + 8} bytes is over the limit of {MAX_FRAME}"
        )
    return _pack_frame_head(4 + size + body_length, kind << 24 | size) + header


def _encode_json(command: RemotingCommand) -> bytes:
    ext_fields = command.ext_fields
    remark = command.remark
    return _write_json(
        _WrittenHeader(
            command.code,
            _UNSET if ext_fields is None else ext_fields,
            command.flag,
            _LANGUAGE_NAMES.get(command.language, _UNSET),
            command.opaque,
            _UNSET if remark is None else remark,
            "JSON",
            command.version,
        )
    )


def _encode_binary(command: RemotingCommand) -> bytes:
    remark = command.remark.encode() if command.remark else b""
    head = _HEAD.pack(
        command.code, command.language, command.version, command.opaque, command.flag, len(remark)
    )
    block = b"".join(_entry_parts(command.ext_fields)) if command.ext_fields else b""
    return b"".join((head, remark, _LENGTH32.pack(len(block)), block))


def _entry_parts(ext_fields: dict[str, str]) -> list[bytes]:
    parts: list[bytes] = []
    for name, value in ext_fields.items():
        text = value.encode()
        parts += (_written_name(name), _LENGTH32.pack(len(text)), text)
    return parts


@lru_cache(maxsize=1024)
def _written_name(name: str) -> bytes:
    written = name.encode()
    return _LENGTH16.pack(len(written)) + written


# ------------------------------------------------------------------------------------------------------------ decoding


def decode_frame(frame: bytes | bytearray | memoryview) -> RemotingCommand:
    """Read one whole frame WITHOUT its 4-byte length; RemoteProtocolError when it is none."""
    data = frame if isinstance(frame, bytes) else memoryview(frame)
    return decode_span(data, 0, len(data))


def decode_span(data: bytes | memoryview, start: int, end: int) -> RemotingCommand:
    """`decode_frame` for the frame (again without its length) that lies in ``data[start:end]``; body is copied out."""
    if end - start < 4:
        raise RemoteProtocolError(f"a frame of {end - start} bytes has no room for its header length")
    mark: int = _read_mark(data, start)[0]
    body_at = start + 4 + (mark & 0xFFFFFF)
    if body_at > end:
        raise RemoteProtocolError(f"header of {mark & 0xFFFFFF} bytes in a frame of {end - start}")
    header, body = data[start + 4 : body_at], data[body_at:end]
    if not isinstance(header, bytes) or not isinstance(body, bytes):
        header, body = bytes(header), bytes(body)
    if mark < _BINARY_MARK:
        return _decode_json(header, body)
    if mark < 2 * _BINARY_MARK:
        return _decode_binary(header, body)
    raise RemoteProtocolError(f"unknown serialize type {mark >> 24}")


class _StrictHeader(msgspec.Struct, gc=False):
    """A JSON header as all known peers write it: the fast way."""

    code: Int32 = 0
    extFields: dict[str, str] | None = None
    flag: Int32 = 0
    language: str | None = None
    opaque: Int32 = UNKNOWN_OPAQUE
    remark: str | None = None
    version: Int32 = 0


_Number = int | float | str | bool | None


class _LooseHeader(msgspec.Struct):
    """A JSON header with all that Java tolerates; every value is still to be made sense of."""

    code: _Number = 0
    extFields: dict[str, msgspec.Raw] | None = None
    flag: _Number = 0
    language: msgspec.Raw = msgspec.Raw(b"null")
    opaque: _Number = UNKNOWN_OPAQUE
    remark: msgspec.Raw = msgspec.Raw(b"null")
    version: _Number = 0


_read_strict: Final = msgspec.json.Decoder(_StrictHeader).decode
_read_loose: Final = msgspec.json.Decoder(_LooseHeader).decode
_read_text: Final = msgspec.json.Decoder(str).decode
_BAD_JSON: Final = (msgspec.MsgspecError, ValueError, RecursionError)
_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]{1,10}\s*", re.ASCII)


def _decode_json(header: bytes, body: bytes) -> RemotingCommand:
    try:
        read = _read_strict(header)
    except _BAD_JSON:
        return _decode_json_loosely(header, body)
    return RemotingCommand(
        read.code,
        read.extFields,
        body,
        read.opaque,
        read.flag,
        read.remark,
        _LANGUAGE_NUMBERS.get(read.language, UNKNOWN_LANGUAGE),  # type: ignore[arg-type]
        read.version,
        SerializeType.JSON,
    )


def _decode_json_loosely(header: bytes, body: bytes) -> RemotingCommand:
    try:
        read = _read_loose(header.decode("utf-8", "replace"))
        return RemotingCommand(
            _int32(read.code),
            None if read.extFields is None else _ext_texts(read.extFields),
            body,
            _int32(read.opaque),
            _int32(read.flag),
            _raw_text(read.remark),
            _language_number(_raw_text(read.language)),
            _int32(read.version),
            SerializeType.JSON,
        )
    except _BAD_JSON as error:
        raise RemoteProtocolError(f"unreadable JSON header: {error}") from error


def _int32(value: _Number) -> int:
    """What Java makes of a number member: null and empty text are 0, a fraction is cut off."""
    if value is None or value == "":
        return 0
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value):
            raise ValueError(f"{value[:40]!r} is not an int")
        value = int(value)
    if not math.isfinite(value) or not -(2**31) <= value < 2**31:
        raise ValueError("a number does not fit an int")
    return int(value)


def _ext_texts(ext_fields: dict[str, msgspec.Raw]) -> dict[str, str]:
    texts = {name: _raw_text(raw) for name, raw in ext_fields.items()}
    return {name: text for name, text in texts.items() if text is not None}


def _raw_text(raw: msgspec.Raw) -> str | None:
    """Java's text of any JSON value: a string's content, the digits of a number, the compact JSON of an object."""
    written = bytes(raw)
    if written == b"null":
        return None
    if written.startswith(b'"'):
        return _read_text(written)
    return msgspec.json.format(written, indent=-1).decode()


def _language_number(text: str | None) -> int:
    if text is None:
        return UNKNOWN_LANGUAGE
    if text.isdecimal() and text.isascii() and len(text) < 3:
        return int(text) if int(text) in _LANGUAGE_NAMES else UNKNOWN_LANGUAGE
    return _LANGUAGE_NUMBERS.get(text.upper(), UNKNOWN_LANGUAGE)


def _decode_binary(header: bytes, body: bytes) -> RemotingCommand:
    try:
        code, language, version, opaque, flag, remark_size = _HEAD.unpack_from(header)
        remark_end = _HEAD.size + remark_size
        (ext_size,) = _LENGTH32.unpack_from(header, remark_end)
        start = remark_end + 4
        ext_fields = _read_entries(header, start, start + ext_size) if ext_size else None
    except struct.error as error:
        raise RemoteProtocolError(f"a binary header of {len(header)} bytes ends too early") from error
    remark = header[_HEAD.size : remark_end].decode("utf-8", "replace") if remark_size else None
    return RemotingCommand(
        code, ext_fields, body, opaque, flag, remark, language, version, SerializeType.ROCKETMQ
    )


def _read_entries(header: bytes, position: int, end: int) -> dict[str, str]:
    if end > len(header):
        raise RemoteProtocolError(f"ext fields end at {end} in a binary header of {len(header)} bytes")
    # slices of a text are cheaper than bytes decoded one by one, and right while they are ASCII
    text = header.decode("latin-1")
    ext_fields: dict[str, str] = {}
    while position < end:
        name_at = position + 2
        name_end = name_at + _read16(header, position)[0]
        value_at = name_end + 4
        if name_end < name_at:
            raise RemoteProtocolError(f"the name of an ext field has {name_end - name_at} bytes")
        position = value_at + _read32(header, name_end)[0]
        if position > end:
            raise RemoteProtocolError(f"an ext field ends at {position}, their block at {end}")
        name, value = text[name_at:name_end], text[value_at:position]
        if not name.isascii():
            name = header[name_at:name_end].decode("utf-8", "replace")
        if not value.isascii():
            value = header[value_at:position].decode("utf-8", "replace")
        ext_fields[name] = value
    return ext_fields
