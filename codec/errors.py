"""Errors in data. The type says which side is at fault.

Nothing in `codec` lets a foreign exception (struct, construct, msgspec, zlib …) out: it is mapped here at
the border.
"""

from __future__ import annotations

__all__ = [
    "BodyError",
    "CodecError",
    "CorruptionError",
    "HeaderError",
    "LocalProtocolError",
    "ProtocolError",
    "RemoteProtocolError",
    "SelectorError",
]


class CodecError(Exception):
    """Base of every error that `codec` raises about data."""


class ProtocolError(CodecError):
    """A frame or the order of frames breaks the remoting protocol."""


class LocalProtocolError(ProtocolError):
    """Our side tried to send something that the protocol cannot carry; nothing was sent."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that is not the protocol; its connection must be closed."""


class HeaderError(CodecError):
    """The ext fields do not form the header of the code; `field` is the wire name."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class BodyError(CodecError):
    """A JSON, properties or batch body cannot be read as the type of the code."""


class CorruptionError(CodecError):
    """Stored bytes (record, queue entry, index, table, compressed body) are damaged.

    `position` is the byte offset, in the buffer that was given, where the damage was noticed; None when it
    has no place.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class SelectorError(CodecError):
    """A tag or SQL92 expression cannot be parsed."""
