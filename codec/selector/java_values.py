"""Conversion of strings as in Java: `Integer.valueOf`, `Long.valueOf`, `Double.valueOf`, `Boolean.valueOf`.

ValueError is raised where Java throws NumberFormatException. White space around an integer is an error,
around a double it is not. An integer may have digits of any script, as in Java; unlike in Java, more than
4300 digits are an error.
"""

from __future__ import annotations

import math
import re

_SIGNS = ("+", "-")
_TRIMMED = "".join(map(chr, range(0x21)))

_is_plain = re.compile(r"[+-]?[0-9]++(?:\.[0-9]++)?").fullmatch
_decimal = re.compile(
    r"([+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[fFdD]?|([+-]?(?:NaN|Infinity))"
).fullmatch
_hexadecimal = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?"
).fullmatch


def java_integer(text: str) -> int:
    """Read an int32. Raises ValueError."""
    value = _whole(text)
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise ValueError(f"not an int: {text!r}")
    return value


def java_long(text: str) -> int:
    """Read an int64. Raises ValueError."""
    value = _whole(text)
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise ValueError(f"not a long: {text!r}")
    return value


def _whole(text: str) -> int:
    # Java reads UTF-16 units, so other digits are invalid; int() would accept white space and underscores.
    if not (text.isdecimal() or (text[:1] in _SIGNS and text[1:].isdecimal())) or max(text) > "\uffff":
        raise ValueError(f"not a number: {text!r}")
    return int(text)


def java_double(text: str) -> float:
    """Read a decimal or hexadecimal number, with or without exponent and final f or d, NaN or Infinity.
    Raises ValueError."""
    if _is_plain(text):
        return float(text)
    trimmed = text.strip(_TRIMMED)
    match = _decimal(trimmed)
    if match is not None:
        return float(match[1] or match[2])
    match = _hexadecimal(trimmed)
    if match is None:
        raise ValueError(f"not a double: {text!r}")
    try:
        return float.fromhex(match[1])
    except OverflowError:
        return -math.inf if trimmed.startswith("-") else math.inf


def java_boolean(text: str) -> bool:
    """Return True for `true` in any case, else False."""
    return text.lower() == "true"


def order_of_doubles(left: float, right: float) -> int:
    """Return -1, 0 or 1 as `Double.compareTo`: NaN equals itself and is above all, -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    left_key, right_key = _rank(left), _rank(right)
    return (left_key > right_key) - (left_key < right_key)


def _rank(value: float) -> float:
    """Order values that are neither below nor above each other, or not comparable."""
    if math.isnan(value):
        return 2.0
    return math.copysign(1.0, value) if value == 0 else 0.0
