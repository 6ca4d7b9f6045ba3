"""The body of a long frame while it comes in: every byte is copied once, and none when the body is whole."""

from __future__ import annotations

from io import BytesIO
from sys import getsizeof


class LongBody:
    """The bytes of one body, of which `missing` have not come; it `received` the others."""

    __slots__ = ("_bytes", "missing", "received")

    def __init__(self, size: int) -> None:
        self.missing = size
        self.received = 0
        self._bytes = BytesIO()  # unlike a bytearray it gives its bytes away without a copy

    @property
    def held(self) -> int:
        """The bytes of memory that it occupies."""
        return getsizeof(self._bytes)

    def add(self, data: bytes, start: int) -> int:
        """Take what belongs to the body from `start` on; the number of bytes."""
        with memoryview(data) as view:
            size = self._bytes.write(view[start : start + self.missing])
        self.missing -= size
        self.received += size
        return size

    def whole(self) -> bytes:
        """Return the bytes in order."""
        return self._bytes.getvalue()
