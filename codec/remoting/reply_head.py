"""Heads of replies that differ in numbers only, written by a template.

The general writer makes the template: it writes a head with numbers that occur nowhere else in it, and where
these are go the others.
"""

from __future__ import annotations

from typing import Final

from codec.codes import RPC_RESPONSE
from codec.headers.base import Header, to_ext
from codec.remoting.command import RemotingCommand
from codec.remoting.frame import FRAME_HEAD, MAX_FRAME, too_long
from codec.remoting.json_header import encode_json_header

_SAMPLE: Final = 1_234_567_800
"""The opaque number of the sample; the fields have the next ones."""
_pack_head: Final = FRAME_HEAD.pack


class ReplyHead:
    """The heads of replies with a JSON header, one code and remark, and a header whose `fields` are whole
    numbers and the only ones that are set."""

    __slots__ = ("_format",)

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
        self._format = written

    def frame_head(self, body_length: int, opaque: int, *values: int) -> bytes:
        """As `encode_frame_head`, for the values of the fields. Raises LocalProtocolError."""
        header = self._format % (*values, opaque)
        size = len(header)
        if size + body_length > MAX_FRAME - 8:
            raise too_long(size + body_length + 8)
        return _pack_head(4 + size + body_length, size) + header
