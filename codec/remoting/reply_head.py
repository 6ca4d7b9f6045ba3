"""Heads of replies and requests that differ in a few values only, written by a template.

The general writers make the templates. A JSON header has numbers in it that occur nowhere else, and where
these are go the others; a binary one has texts of the same lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from codec.codes import RPC_RESPONSE, SerializeType
from codec.core.replies import ReplyHead as Pieces
from codec.headers.base import Header, to_ext
from codec.remoting.binary_header import OPAQUE, pieces_around, pieces_between
from codec.remoting.command import RemotingCommand
from codec.remoting.frame import FRAME_HEAD, MAX_FRAME, too_long
from codec.remoting.json_header import encode_json_header

_SAMPLE: Final = 1_234_567_800
"""The opaque number of the sample; the fields have the next ones."""
_pack_head: Final = FRAME_HEAD.pack
_pack_opaque: Final = OPAQUE.pack


class ReplyHead:
    """The heads of replies with one code and remark, and a header whose `fields` are whole numbers and
    the only ones that are set."""

    __slots__ = ("_binary", "_json", "_sample", "_wire")

    def __init__(self, code: int, header: type[Header], fields: tuple[str, ...], remark: str | None) -> None:
        """ValueError if the fields are not in the order of the header."""
        samples = {name: _SAMPLE + place for place, name in enumerate(fields, 1)}
        command = RemotingCommand(code, to_ext(header(**samples)), b"", _SAMPLE, RPC_RESPONSE, remark)
        written, end = encode_json_header(command).replace(b"%", b"%%"), 0
        for sample in (*samples.values(), _SAMPLE):
            text = b"%d" % sample
            if written.count(text) != 1 or written.index(text) < end:
                raise ValueError(f"{header.__name__} has its fields in another order than {fields}")
            end = written.index(text)
            written = written.replace(text, b"%d")
        self._json = written
        self._binary: dict[tuple[int, ...], bytes] = {}
        self._sample = command
        self._wire = tuple(command.ext_fields or ())

    def frame_head(self, kind: SerializeType, body_length: int, opaque: int, *values: int) -> bytes:
        """As `encode_frame_head`, for the values of the fields. Raises LocalProtocolError."""
        if kind:
            texts = [b"%d" % value for value in values]
            sizes = tuple(map(len, texts))
            header = (self._binary.get(sizes) or self._learn(sizes)) % (_pack_opaque(opaque), *texts)
        else:
            header = self._json % (*values, opaque)
        size = len(header)
        if size + body_length > MAX_FRAME - 8:
            raise too_long(size + body_length + 8)
        return _pack_head(4 + size + body_length, kind << 24 | size) + header

    def _learn(self, sizes: tuple[int, ...]) -> bytes:
        """The format of a binary header whose values have texts of these lengths."""
        ext_fields = {name: "0" * size for name, size in zip(self._wire, sizes, strict=True)}
        sample = self._sample
        command = RemotingCommand(
            sample.code,
            ext_fields,
            flag=sample.flag,
            remark=sample.remark,
            serialize_type=SerializeType.ROCKETMQ,
        )
        pieces = [piece.replace(b"%", b"%%") for piece in pieces_around(command, self._wire)]
        template = self._binary[sizes] = b"%b".join((*pieces, b""))
        return template


def reply_head(
    code: int, ext_fields: Mapping[str, str], names: Sequence[str], remark: str | None = None
) -> Pieces:
    """Return the heads of replies with the same code, remark and first ext fields, for the values of those
    with these names.
    """
    return common_head(code, ext_fields, names, RPC_RESPONSE, remark)


def common_head(
    code: int, ext_fields: Mapping[str, str], names: Sequence[str], flag: int = 0, remark: str | None = None
) -> Pieces:
    """Return the heads of commands with the same code, flag, remark and ext fields, for the values of those
    with these names, which are in the order of `ext_fields` or new. Raises UnicodeEncodeError.
    """
    command = RemotingCommand(code, {**ext_fields, **dict.fromkeys(names, "")}, b"", _SAMPLE, flag, remark)
    rest, json = encode_json_header(command), []
    # No text has these bytes: its quotes are escaped.
    for before in (*(f'"{name}":"' for name in names), '"opaque":'):
        piece, found, rest = rest.partition(before.encode())
        json.append(piece + found)
    return Pieces((*json, rest.removeprefix(b"%d" % _SAMPLE)), pieces_between(command, names), MAX_FRAME)
