"""The string with which the sender of a timer message takes it back (Java `RecallMessageHandle`, version 1):
the URL-safe base64 of "v1 topic broker time UNIQ_KEY".
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

_VERSION = "v1"
_PARTS = 5
_SECOND_MS = 1000
_TIME = re.compile(r"[+-]?[0-9]{1,18}")


class RecallHandle(NamedTuple):
    """A timer message: `time` (ms) is within the second in which it is due, `key` is its UNIQ_KEY."""

    topic: str
    broker_name: str
    time: int
    key: str

    @property
    def due(self) -> int:
        """The time (ms) from which the message is delivered."""
        return (self.time // _SECOND_MS + 1) * _SECOND_MS

    def encode(self) -> str:
        """Return the handle as a string."""
        return urlsafe_b64encode(" ".join((_VERSION, *map(str, self))).encode()).decode()

    @classmethod
    def decode(cls, text: str) -> RecallHandle:
        """Parse a handle. Raises ValueError if it is invalid."""
        try:
            version, *parts = urlsafe_b64decode(text.encode()).decode().split(" ")
        except (binascii.Error, ValueError):
            raise ValueError("recall handle is invalid") from None
        if version != _VERSION or len(parts) < _PARTS - 1 or not _TIME.fullmatch(parts[2]):
            raise ValueError("recall handle is invalid")
        topic, broker_name, time, key = parts[: _PARTS - 1]
        return cls(topic, broker_name, int(time), key)
