"""Errors in data. The type states which side is at fault.

No foreign exception (struct, construct, msgspec, zlib …) leaves `codec`: each is converted at the boundary.
"""

from __future__ import annotations


class CodecError(Exception):
    """Base of every error that `codec` raises about data."""


class ProtocolError(CodecError):
    """A frame or the order of frames violates the remoting protocol."""


class LocalProtocolError(ProtocolError):
    """Our side tried to send something that the protocol cannot carry; nothing was sent."""


class PropertiesTooLong(LocalProtocolError):
    """The properties of a message are longer than a record can hold."""


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol; its connection must be closed."""


class TlsError(RemoteProtocolError):
    """The peer refused TLS, broke it or left the handshake; `__cause__` is OpenSSL's error, if it raised one."""


class HeaderError(CodecError):
    """The ext fields do not form the header of the request code; `field` is the wire name."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class BodyError(CodecError):
    """A JSON, properties or batch body cannot be read as the type for its code."""


class CorruptionError(CodecError):
    """Stored bytes (record, queue entry, index, table, compressed body) are damaged.

    `position` is the byte offset of the damage in the given buffer, or None.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class MissingLibrary(CorruptionError):
    """A body is compressed by a library that is not installed, so it is as unreadable as a damaged one."""


class SelectorError(CodecError):
    """A tag or SQL92 expression cannot be parsed."""
