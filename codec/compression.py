"""Compressed bodies (Java `CompressionType`): zlib (RFC 1950), LZ4 or Zstandard frames, by the sys flag.

Output is bounded, so that a small body cannot fill the memory. lz4 and zstandard are imported on first use.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.errors import CorruptionError, LocalProtocolError
from rmqcli.codec.layout import Buffer

_Function = Callable[[Buffer, int], bytes]

COMPRESSED = MessageSysFlag.COMPRESSED
MAX_DECOMPRESSED = 64 * 1024 * 1024
"""The default maximum size of one decompressed body, in bytes."""
MAX_ZSTD_WINDOW = 64 * 1024 * 1024
ZSTD_PIECE = 1024
"""The number of input bytes decompressed at a time; 4 can become 128 KiB, so this bounds the excess over the
limit.
"""
DEFAULT_LEVEL = 5
"""Java's `rocketmq.message.compressLevel`."""


def compress(body: Buffer, kind: str = "zlib", level: int = DEFAULT_LEVEL) -> tuple[bytes, int]:
    """Return the compressed body, and the sys flag bits to set. Raises LocalProtocolError for an unknown
    kind.
    """
    if kind not in _COMPRESSORS:
        raise LocalProtocolError(f"unknown compression {kind!r}, one of {', '.join(_COMPRESSORS)}")
    bits, function = _COMPRESSORS[kind]
    return function(body, level), COMPRESSED | bits


def decompress(body: Buffer, sys_flag: int, *, limit: int = MAX_DECOMPRESSED) -> bytes:
    """Return the plain body; a body without the COMPRESSED bit is returned as it is.

    Raises CorruptionError for damaged or truncated data, an unknown type, or more than `limit` bytes of
    output.
    """
    if not sys_flag & COMPRESSED:
        return bytes(body)
    kind = sys_flag & MessageSysFlag.COMPRESSION_MASK
    function = _DECOMPRESSORS.get(kind)
    if function is None:
        raise CorruptionError(f"unknown compression type {kind >> 8}")
    plain = function(body, limit)
    if len(plain) > limit:
        raise CorruptionError(f"the body decompresses to more than {limit} bytes")
    return plain


def _lz4(body: Buffer, level: int) -> bytes:
    import lz4.frame

    return bytes(lz4.frame.compress(body, compression_level=level))


def _zstd(body: Buffer, level: int) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=level).compress(body)


def _unzlib(body: Buffer, limit: int) -> bytes:
    machine = zlib.decompressobj()
    try:
        # The extra byte shows that the limit is exceeded.
        plain = machine.decompress(body, limit + 1)
    except zlib.error as error:
        raise CorruptionError(f"zlib body: {error}") from None
    return _complete(plain, machine.eof, limit)


def _unlz4(body: Buffer, limit: int) -> bytes:
    import lz4.frame

    machine = lz4.frame.LZ4FrameDecompressor()
    try:
        plain = machine.decompress(body, max_length=limit + 1)
    except (RuntimeError, EOFError) as error:
        raise CorruptionError(f"lz4 body: {error}") from None
    return _complete(plain, machine.eof, limit)


def _unzstd(body: Buffer, limit: int) -> bytes:
    import zstandard

    machine = zstandard.ZstdDecompressor(max_window_size=MAX_ZSTD_WINDOW).decompressobj()
    pieces: list[bytes] = []
    size = 0
    view = memoryview(body)
    try:
        for start in range(0, len(view), ZSTD_PIECE):
            pieces.append(machine.decompress(view[start : start + ZSTD_PIECE]))
            size += len(pieces[-1])
            if machine.eof or size > limit:
                break
    except zstandard.ZstdError as error:
        raise CorruptionError(f"zstd body: {error}") from None
    return _complete(b"".join(pieces), machine.eof, limit)


def _complete(plain: bytes, ended: bool, limit: int) -> bytes:
    if not ended and len(plain) <= limit:
        raise CorruptionError("the compressed body is cut short")
    return plain


_COMPRESSORS: dict[str, tuple[int, _Function]] = {
    "zlib": (MessageSysFlag.ZLIB, zlib.compress),
    "lz4": (MessageSysFlag.LZ4, _lz4),
    "zstd": (MessageSysFlag.ZSTD, _zstd),
}
_DECOMPRESSORS: dict[int, _Function] = {
    0: _unzlib,
    MessageSysFlag.LZ4: _unlz4,
    MessageSysFlag.ZSTD: _unzstd,
    MessageSysFlag.ZLIB: _unzlib,
}
