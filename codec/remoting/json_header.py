"""The JSON header of a frame.

It is written as Java writes it: compact, members in alphabetical order, null omitted; the Go client reads no
other form. It is read as tolerantly as Java reads it: numbers as text, ext values that are numbers, booleans
or objects, unknown members and languages, missing members. Text that is not UTF-8 is read with replacement
characters.

A header as all known peers write it takes one typed pass; only a header that this pass refuses is read again,
tolerantly. A `DirectReader` also creates the typed header of a request in that one pass, and leaves headers
that it cannot read to the other passes.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import Final, Generic, TypeVar

import msgspec

from rmqcli.codec.codes import LanguageCode, SerializeType
from rmqcli.codec.errors import RemoteProtocolError
from rmqcli.codec.headers.base import Header, Int32, bool_attributes, bool_names
from rmqcli.codec.remoting.command import UNKNOWN_LANGUAGE, UNKNOWN_OPAQUE, RemotingCommand
from rmqcli.codec.versions import CURRENT_VERSION

_LANGUAGE_NUMBERS: Final = {language.name: int(language) for language in LanguageCode}
_LANGUAGE_NAMES: Final = {int(language): language.name for language in LanguageCode}


class _WrittenHeader(msgspec.Struct, gc=False):
    """The members of a JSON header, ordered and named as Java writes them."""

    code: int
    extFields: dict[str, str] | msgspec.UnsetType
    flag: int
    language: str | msgspec.UnsetType
    opaque: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str
    version: int


_JSON: Final = SerializeType.JSON
_UNSET: Final = msgspec.UNSET
write_json: Final = msgspec.json.Encoder().encode


def encode_json_header(command: RemotingCommand) -> bytes:
    """Return the header as compact JSON. Raises UnicodeEncodeError if a text contains a lone surrogate."""
    ext_fields = command.ext_fields
    remark = command.remark
    return write_json(
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


def end_of_header(flag: int) -> bytes:
    """Return the part after the ext fields in a header of our own, as a format of the opaque number."""
    end = b',"flag":%d,"language":"%b","opaque":%%d,"serializeTypeCurrentRPC":"JSON","version":%d}'
    return end % (flag, LanguageCode.PYTHON.name.encode(), CURRENT_VERSION)


class _StrictHeader(msgspec.Struct, gc=False):
    """A JSON header in the form of all known peers, for the fast pass."""

    code: Int32 = 0
    extFields: dict[str, str] | None = None
    flag: Int32 = 0
    language: str | None = None
    opaque: Int32 = UNKNOWN_OPAQUE
    remark: str | None = None
    version: Int32 = 0


HeaderT = TypeVar("HeaderT", bound=Header)


class _DirectHeader(msgspec.Struct, Generic[HeaderT], gc=False):
    """A JSON header whose ext fields are the typed header of the request."""

    extFields: HeaderT
    code: Int32 = 0
    flag: Int32 = 0
    language: str | None = None
    opaque: Int32 = UNKNOWN_OPAQUE
    remark: str | None = None
    version: Int32 = 0


_Number = int | float | str | bool | None


class _LooseHeader(msgspec.Struct):
    """A JSON header in any form that Java tolerates, with values still to be converted."""

    code: _Number = 0
    extFields: dict[str, msgspec.Raw] | None = None
    flag: _Number = 0
    language: msgspec.Raw = msgspec.Raw(b"null")
    opaque: _Number = UNKNOWN_OPAQUE
    remark: msgspec.Raw = msgspec.Raw(b"null")
    version: _Number = 0


_read_strict: Final = msgspec.json.Decoder(_StrictHeader).decode
_read_loose: Final = msgspec.json.Decoder(_LooseHeader).decode
read_json_text: Final = msgspec.json.Decoder(str).decode
_BAD_JSON: Final = (msgspec.MsgspecError, ValueError, RecursionError)
_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]{1,10}\s*", re.ASCII)


def decode_json_header(header: bytes, body: bytes) -> RemotingCommand:
    try:
        read = _read_strict(header)
    except _BAD_JSON:
        return decode_json_header_loosely(header, body)
    return RemotingCommand(
        read.code,
        read.extFields,
        body,
        read.opaque,
        read.flag,
        read.remark,
        _LANGUAGE_NUMBERS.get(read.language, UNKNOWN_LANGUAGE),  # type: ignore[arg-type]
        read.version,
        _JSON,
    )


class DirectReader(Generic[HeaderT]):
    """A reader of the requests with one code that creates their typed header. Their JSON headers start with
    `beginning`.

    The header class must forbid unknown fields, so that a request with more ext fields is read in the general
    way, which keeps them all.
    """

    # All beginnings have the same length, so that one slice of a header finds its reader.
    BEGINNING_SIZE: Final = len(b'{"code":200050,')

    def __init__(self, code: int, header: type[HeaderT]) -> None:
        if not header.__struct_config__.forbid_unknown_fields:
            raise TypeError(f"{header.__name__} must forbid unknown fields: a DirectReader would lose them")
        self.beginning = f'{{"code":{code},"extFields":'.encode()[: self.BEGINNING_SIZE]
        self._read = msgspec.json.Decoder(_DirectHeader[header], strict=False).decode  # type: ignore[valid-type]
        # msgspec reads "1" as true, Java as false; a search for it costs half as much as reading the value.
        self._doubtful = tuple(f'"{name}":"1"'.encode() for name in bool_names(header))
        flags = bool_attributes(header)
        # Each name twice: for a single name, attrgetter would not return a tuple.
        self._flags = attrgetter(*flags, *flags) if flags else None

    def decode(self, header: bytes, body: bytes) -> RemotingCommand | None:
        """Return the command, or None if only the tolerant pass can read the header."""
        try:
            read = self._read(header)
        except _BAD_JSON:
            return None
        flags = self._flags
        # Only a bool that was read as true can be wrong.
        if flags and True in flags(read.extFields) and any(text in header for text in self._doubtful):
            return None
        return RemotingCommand(
            read.code,
            None,
            body,
            read.opaque,
            read.flag,
            read.remark,
            _LANGUAGE_NUMBERS.get(read.language, UNKNOWN_LANGUAGE),  # type: ignore[arg-type]
            read.version,
            _JSON,
            read.extFields,
        )


def decode_json_header_loosely(header: bytes, body: bytes) -> RemotingCommand:
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
            _JSON,
        )
    except _BAD_JSON as error:
        raise RemoteProtocolError(f"unreadable JSON header: {error}") from error


def _int32(value: _Number) -> int:
    """Convert a number as Java does: null and empty text are 0, fractions are truncated."""
    if value is None or value == "":
        return 0
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value):
            raise ValueError(f"{value[:40]!r} is not an int")
        value = int(value)
    if not -(2**31) <= value < 2**31:
        raise ValueError("a number does not fit an int")
    return int(value)


def _ext_texts(ext_fields: dict[str, msgspec.Raw]) -> dict[str, str]:
    texts = {name: _raw_text(raw) for name, raw in ext_fields.items()}
    return {name: text for name, text in texts.items() if text is not None}


def _raw_text(raw: msgspec.Raw) -> str | None:
    """Return Java's text of a JSON value: the content of a string, the digits of a number, the compact JSON
    of an object.
    """
    written = bytes(raw)
    if written == b"null":
        return None
    if written.startswith(b'"'):
        return read_json_text(written)
    return msgspec.json.format(written, indent=-1).decode()


def _language_number(text: str | None) -> int:
    if text is None:
        return UNKNOWN_LANGUAGE
    if text.isdecimal() and text.isascii() and len(text) < 3:
        return int(text) if int(text) in _LANGUAGE_NAMES else UNKNOWN_LANGUAGE
    return _LANGUAGE_NUMBERS.get(text.upper(), UNKNOWN_LANGUAGE)
