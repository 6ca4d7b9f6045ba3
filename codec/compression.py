"""Compressed bodies (Java `CompressionType`): zlib (RFC 1950), LZ4 or Zstandard frames, by the sys flag.

Output is bounded, so that a small body cannot fill the memory. Libraries are imported on first use: cramjam
for LZ4, because the package lz4 has no wheels for musl and Python 3.15; for Zstandard, `compression.zstd` of
Python 3.14, and its backport before that, because zstandard takes 23 MB.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from rmqcli.codec.codes import MessageSysFlag
from rmqcli.codec.errors import CorruptionError, LocalProtocolError, MissingLibrary
from rmqcli.codec.layout import Buffer

_Function = Callable[[Buffer, int], bytes]

COMPRESSED = MessageSysFlag.COMPRESSED
MAX_DECOMPRESSED = 64 * 1024 * 1024
"""The default maximum size of one decompressed body, in bytes."""
MAX_ZSTD_WINDOW_LOG = 26
"""64 MiB."""
LZ4_HEAD = bytes.fromhex("04224d18607073")
"""Magic, version 1 with independent blocks of at most 4 MiB, no checksums or size, checksum of the header."""
LZ4_BLOCK = 4 * 1024 * 1024
LZ4_STORED = 1 << 31
"""The bit of a block's length that marks a block that is not compressed."""
LZ4_HIGH_LEVEL = 3
"""The first level with LZ4's slow, better compression."""
LZ4_USUAL_RATIO = 8
LZ4_LEAST_ROOM = 16 * 1024
DEFAULT_LEVEL = 5
"""Java's `rocketmq.message.compressLevel`."""


def compress(body: Buffer, kind: str = "zlib", level: int = DEFAULT_LEVEL) -> tuple[bytes, int]:
    """Return the compressed body, and the sys flag bits to set. Raises LocalProtocolError for an unknown
    kind, MissingLibrary.
    """
    if kind not in _COMPRESSORS:
        raise LocalProtocolError(f"unknown compression {kind!r}, one of {', '.join(_COMPRESSORS)}")
    bits, function = _COMPRESSORS[kind]
    return function(body, level), COMPRESSED | bits


def decompress(body: Buffer, sys_flag: int, *, limit: int = MAX_DECOMPRESSED) -> bytes:
    """Return the plain body; a body without the COMPRESSED bit is returned as it is.

    Raises CorruptionError for damaged or truncated data, an unknown type, or more than `limit` bytes of
    output, and its subclass MissingLibrary.
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
    """Return an LZ4 frame of independent blocks.

    lz4-java reads no others; in the frames of cramjam, blocks depend on each other.
    """
    library = _library("cramjam").lz4
    how = {"mode": "high_compression", "compression": level} if level >= LZ4_HIGH_LEVEL else {}
    pieces: list[Any] = [LZ4_HEAD]
    view = memoryview(body)
    for start in range(0, len(view), LZ4_BLOCK):
        plain = view[start : start + LZ4_BLOCK]
        packed = memoryview(library.compress_block(plain, store_size=False, **how))
        if len(packed) < len(plain):
            pieces += len(packed).to_bytes(4, "little"), packed
        else:
            pieces += (len(plain) | LZ4_STORED).to_bytes(4, "little"), plain
    return b"".join([*pieces, bytes(4)])


def _zstd(body: Buffer, level: int) -> bytes:
    machine = _zstd_library().ZstdCompressor(level=level)
    # Without its size, a small body gets the tables of a large one: 250 instead of 20 µs.
    machine.set_pledged_input_size(len(body))
    return bytes(machine.compress(body, machine.FLUSH_FRAME))


@cache
def _zstd_library() -> Any:
    """Return Python's module for Zstandard, which came with 3.14 and not every build has, or its backport."""
    try:
        return import_module("compression.zstd")
    except ImportError:
        return _library("backports.zstd")


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        text = f"package {name} is not installed, which this compression requires: pip install {name}"
        raise MissingLibrary(text) from None


def _unzlib(body: Buffer, limit: int) -> bytes:
    machine = zlib.decompressobj()
    try:
        # The extra byte shows that the limit is exceeded.
        plain = machine.decompress(body, limit + 1)
    except zlib.error as error:
        raise CorruptionError(f"zlib body: {error}") from None
    return _complete(plain, machine.eof, limit)


def _unlz4(body: Buffer, limit: int) -> bytes:
    library = _library("cramjam")
    size = min(max(LZ4_USUAL_RATIO * len(body), LZ4_LEAST_ROOM), limit + 1)
    while True:
        room = bytearray(size)
        try:
            del room[library.lz4.decompress_into(body, room) :]
        except library.DecompressionError as error:
            # WriteZero of Rust's standard library: the room is too small.
            if "failed to write whole buffer" not in str(error):
                raise CorruptionError(f"lz4 body: {error}") from None
            if size > limit:
                return bytes(room)
            size = min(LZ4_USUAL_RATIO * size, limit + 1)
        else:
            return bytes(room)


def _unzstd(body: Buffer, limit: int) -> bytes:
    library = _zstd_library()
    machine = library.ZstdDecompressor(
        options={library.DecompressionParameter.window_log_max: MAX_ZSTD_WINDOW_LOG}
    )
    try:
        plain = machine.decompress(body, limit + 1)
    except library.ZstdError as error:
        raise CorruptionError(f"zstd body: {error}") from None
    return _complete(plain, machine.eof, limit)


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
