"""Heads of replies that differ in only a few values, with either kind of header."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64

from rmqcli.codec.errors import LocalProtocolError

_LENGTH: Final[i64] = 4
"""Bytes of each of these: the length of a frame, its mark, the length of a block of ext fields, the length of
a value.
"""
_BINARY: Final[i64] = 1 << 24
"""The serialize type of a binary header, in its position in a mark."""
_ZERO: Final[i64] = ord("0")
_LETTER: Final[i64] = ord("A") - 10


class ReplyHead:
    """The parts that the headers of similar replies have in common.

    `json` are the parts before, between and after the variable ones: the values of the last ext fields, then
    the opaque number. `binary` are the parts before the opaque number, between it and the length of the ext
    fields, and before the length of each value. A frame has at most `longest` bytes.
    """

    def __init__(self, json: Sequence[bytes], binary: Sequence[bytes], longest: i64) -> None:
        self._json = list(json)
        self._binary = list(binary)
        self._longest: i64 = longest
        self._json_size: i64 = len(b"".join(json))
        # The opaque number, the length of the ext fields and those of the values have the same size.
        self._binary_size: i64 = len(b"".join(binary)) + len(binary) * _LENGTH

    def frame(self, is_binary: bool, opaque: i64, values: list[bytes], body_size: i64) -> bytes:
        """Return a frame up to its body. The values must be ASCII that JSON does not escape.

        Raises LocalProtocolError if the frame is too long.
        """
        out = BytesWriter()
        self.write(out, is_binary, opaque, values, body_size)
        return out.getvalue()

    def write(
        self, out: BytesWriter, is_binary: bool, opaque: i64, values: list[bytes], body_size: i64
    ) -> None:
        """Write the bytes that `frame` returns."""
        size: i64 = 0
        for value in values:
            size += len(value)
        number = b""
        if is_binary:
            size += self._binary_size
        else:
            number = str(opaque).encode()
            size += self._json_size + len(number)
        length: i64 = _LENGTH + size + body_size
        if length + _LENGTH > self._longest:
            raise LocalProtocolError(
                f"a frame of {length + _LENGTH} bytes is over the limit of {self._longest}"
            )
        write_i32_be(out, i32(length))
        place: i64 = 0
        if not is_binary:
            pieces = self._json
            write_i32_be(out, i32(size))
            for value in values:
                out.write(pieces[place])
                out.write(value)
                place += 1
            out.write(pieces[place])
            out.write(number)
            out.write(pieces[place + 1])
            return
        pieces = self._binary
        write_i32_be(out, i32(_BINARY | size))
        out.write(pieces[0])
        write_i32_be(out, i32(opaque))
        out.write(pieces[1])
        write_i32_be(out, i32(size - len(pieces[0]) - len(pieces[1]) - 2 * _LENGTH))
        for value in values:
            out.write(pieces[2 + place])
            write_i32_be(out, i32(len(value)))
            out.write(value)
            place += 1


def offset_text(offset: i64) -> bytes:
    """Return the 16 hex digits of a commit-log offset in a message id."""
    out = BytesWriter()
    shift: i64 = 60
    while shift >= 0:
        digit: i64 = (offset >> shift) & 15
        out.append((_ZERO if digit < 10 else _LETTER) + digit)
        shift -= 4
    return out.getvalue()
