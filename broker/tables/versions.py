"""The version of a table: it is compared, never ordered (Java class `DataVersion`)."""

from __future__ import annotations

from collections.abc import Callable

from codec.bodies.base import encode_body
from codec.bodies.config import DataVersion


def first_version(now_ms: Callable[[], int]) -> DataVersion:
    """The version of a table that was never changed."""
    return DataVersion(timestamp=now_ms(), counter=0)


def next_version(version: DataVersion, now_ms: Callable[[], int]) -> DataVersion:
    """The version after one more change."""
    return DataVersion(timestamp=now_ms(), counter=version.counter + 1)


def version_text(version: DataVersion) -> str:
    """The version as JSON text."""
    return encode_body(version).decode()
