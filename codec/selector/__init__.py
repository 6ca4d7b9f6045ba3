"""What a consumer wants of a topic: tag expressions."""

from __future__ import annotations

from codec.selector.tags import ALL, accepts_code, accepts_tag, parse_tags, tag_codes, tag_subscription

__all__ = ["ALL", "accepts_code", "accepts_tag", "parse_tags", "tag_codes", "tag_subscription"]
