"""Administration: topics, groups, offsets, queries, brokers, each an area of its own below `Admin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.lazy import lazy_names

if TYPE_CHECKING:
    from rmqcli.client.admin.admin import Admin

__all__ = ["Admin"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, {"rmqcli.client.admin.admin": ["Admin"]})
