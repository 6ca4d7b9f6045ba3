"""What a consumer wants of a topic: tag expressions and SQL92 filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.lazy import lazy_names

if TYPE_CHECKING:
    from codec.selector.bloom import BloomFilter
    from codec.selector.sql92 import Dialect, Predicate, parse_sql92
    from codec.selector.tags import ALL, accepts_code, accepts_tag, parse_tags, tag_codes, tag_subscription

__all__ = [
    "ALL",
    "BloomFilter",
    "Dialect",
    "Predicate",
    "accepts_code",
    "accepts_tag",
    "parse_sql92",
    "parse_tags",
    "tag_codes",
    "tag_subscription",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        {
            "codec.selector.bloom": ("BloomFilter",),
            "codec.selector.sql92": (
                "Dialect",
                "Predicate",
                "parse_sql92",
            ),
            "codec.selector.tags": (
                "ALL",
                "accepts_code",
                "accepts_tag",
                "parse_tags",
                "tag_codes",
                "tag_subscription",
            ),
        },
    )
