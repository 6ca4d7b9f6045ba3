"""Splits a stream into frames; `rmqcli.codec.remoting.frame` has their layout."""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

_LENGTH: Final[i64] = 4
"""Bytes of the length of a frame, and of its mark. The length includes the mark."""
_HEADER_BITS: Final[i64] = 0xFFFFFF
"""The bits of a mark that hold the length of the header."""
_MARK_BITS: Final[i64] = 0xFFFFFFFF
_USUAL_HEADER: Final[i64] = 512
"""This many bytes of a header count as one more frame."""

Parts = tuple[int, bytes, bytes]
"""The mark, the header and the body of a frame."""


def split_frames(
    data: bytes, at: i64, longest: i64, longest_header: i64, most: i64
) -> tuple[list[Parts], i64, bool]:
    """Return the whole frames from a position on, the position after them, and True if about `most` were read
    and more follow.

    Stops before a frame that is not whole, that has over `longest` bytes after its length, or whose header
    has over `longest_header` bytes or does not fit.
    """
    found: list[Parts] = []
    last: i64 = len(data) - 2 * _LENGTH
    while at <= last:
        length: i64 = i64(read_i32_be(data, at))
        mark: i64 = i64(read_i32_be(data, at + _LENGTH)) & _MARK_BITS
        size: i64 = mark & _HEADER_BITS
        header_at: i64 = at + 2 * _LENGTH
        end: i64 = at + _LENGTH + length
        if not _LENGTH <= length <= longest or end > len(data):
            break
        if size > longest_header or header_at + size > end:
            break
        if most <= 0:
            return found, at, True
        found.append((mark, data[header_at : header_at + size], data[header_at + size : end]))
        # Decoding a long header takes time, so it counts for more than one frame.
        most -= 1 + size // _USUAL_HEADER
        at = end
    return found, at, False
