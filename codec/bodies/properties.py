"""Configuration as Java properties text (codes 25, 26, 318, 319): `key=value` lines in UTF-8.

Java writes no escapes and no order; so none are written and none are undone here. Read are also `:` or blanks as the
separator, comment lines (`#`, `!`) and empty lines. Of a key that comes twice the last holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from codec.errors import BodyError

__all__ = ["decode_properties_text", "encode_properties_text"]

_LINE: Final = re.compile(r"[ \t\f]*([^#!=:\s][^=:\s]*)[ \t\f]*[=:]?[ \t\f]*(.*)")


def decode_properties_text(data: bytes | bytearray | memoryview) -> dict[str, str]:
    """Names and values; BodyError when it is not UTF-8."""
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise BodyError(f"properties text is not UTF-8 at byte {error.start}") from None
    matches = map(_LINE.fullmatch, re.split(r"\r\n|\r|\n", text))
    return {match[1]: match[2] for match in matches if match}


def encode_properties_text(properties: Mapping[str, str]) -> bytes:
    """One line for each; ValueError when a name or value cannot be in one line."""
    for name, value in properties.items():
        if not name or re.search(r"[=:\s]|^[#!]", name) or re.search(r"[\r\n]", value):
            raise ValueError(f"property {name!r} cannot be written as a line of text")
    return "".join(f"{name}={value}\n" for name, value in properties.items()).encode()
