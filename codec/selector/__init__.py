"""Selectors of subscriptions: tag expressions and SQL92 filters."""

# ruff: noqa: I001 - sorting would split imports that contain "as"

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.codec.lazy import lazy_names

if TYPE_CHECKING:
    from rmqcli.codec.selector.bloom import BloomFilter as BloomFilter
    from rmqcli.codec.selector.sql92 import (
        Dialect as Dialect,
        Predicate as Predicate,
        parse_sql92 as parse_sql92,
    )
    from rmqcli.codec.selector.tags import (
        ALL as ALL,
        parse_tags as parse_tags,
        tag_codes as tag_codes,
        tag_subscription as tag_subscription,
    )
else:
    __all__, __getattr__ = lazy_names(__name__)
