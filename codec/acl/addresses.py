"""Expressions for addresses of clients (4.9.8 `RemoteAddressStrategyFactory`).

A blank string matches nothing; `*`, `*.*.*.*` and `*:*:*:*:*:*:*:*` match everything. `10.0.0.{1,2}` and
`2001::{1,2}` are sets, `10.0.0.1,10.0.0.2` is a list without spaces. A range is one group of an IPv4 address,
but not the first, that is `*` or `a-b`: groups to its left are fixed, those to its right are ignored. In an
IPv6 address, the last group is a range, or the last but one before a final `*`. Anything else is one address.

In Java, `10.0.0.0-0` matches nothing; here it is the range that it states. Fixed groups of a range must be
numbers here.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from rmqcli.codec.acl.errors import AclError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

EVERYTHING: Final = frozenset(("*", "*.*.*.*", "*:*:*:*:*:*:*:*"))
_RANGE4: Final = re.compile(r"(\d{1,3})-(\d{1,3})", re.ASCII)
_RANGE6: Final = re.compile(r"([0-9a-fA-F]{1,4})-([0-9a-fA-F]{1,4})")
_GROUPS6: Final = 8


class Range(msgspec.Struct, frozen=True):
    """The addresses of one version whose first groups are `head` and whose next group is from `low` to
    `high`.
    """

    version: int
    head: tuple[int, ...]
    low: int
    high: int

    def matches(self, address: Address) -> bool:
        groups = _groups(address) if address.version == self.version else ()
        size = len(self.head)
        return groups[:size] == self.head and bool(groups) and self.low <= groups[size] <= self.high


class AddressRule(msgspec.Struct, frozen=True):
    """One expression. It matches `everything`, or the addresses `only` and those `within` a range."""

    text: str
    everything: bool = False
    only: frozenset[Address] = frozenset()
    within: Range | None = None

    def matches(self, address: Address) -> bool:
        return (
            self.everything
            or (bool(self.only) and address in self.only)
            or (self.within is not None and self.within.matches(address))
        )


def read_address(host: str) -> Address | None:
    """Return the address of a peer, or None for a name. An IPv4 address mapped into IPv6 is returned
    as IPv4.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


# Cached because aliases in a file can repeat a long expression.
@lru_cache(maxsize=1024)
def parse_rule(text: str) -> AddressRule:
    """Return the rule of one expression. Raises AclError for a malformed one."""
    if text in EVERYTHING:
        return AddressRule(text, everything=True)
    if not text.strip():
        return AddressRule(text)
    if text.endswith("}"):
        return AddressRule(text, only=_set(text))
    if "," in text:
        return AddressRule(text, only=frozenset(_single(part, text) for part in text.split(",")))
    if "*" in text or "-" in text:
        return AddressRule(text, within=_range6(text) if ":" in text else _range4(text))
    return AddressRule(text, only=frozenset((_single(text, text),)))


def parse_rules(text: str) -> list[AddressRule]:
    """Return the rules of expressions that are separated by ';'. Raises AclError for a malformed one."""
    return [parse_rule(part.strip()) for part in text.split(";") if part.strip()]


def _single(part: str, text: str) -> Address:
    try:
        return ipaddress.ip_address(part)
    except ValueError:
        raise _wrong(text) from None


def _wrong(text: str) -> AclError:
    return AclError(f"{text!r} is not an address, a set, a list or a range of addresses")


def _set(text: str) -> frozenset[Address]:
    head, brace, items = text[:-1].partition("{")
    separator = ":" if ":" in head else "."
    if not brace or not head.endswith(separator) or (separator == "." and head.count(".") != 3):
        raise _wrong(text)
    return frozenset(_single(f"{head}{item}", text) for item in items.split(","))


def _range4(text: str) -> Range:
    parts = text.split(".")
    at = next((place for place, part in enumerate(parts) if part == "*" or "-" in part), 0)
    if not 0 < at < 4 or len(parts) > 4:
        raise _wrong(text)
    head = tuple(_number(part, 10, 255, text) for part in parts[:at])
    return Range(4, head, *_bounds(parts[at], _RANGE4, 10, 255, text))


def _range6(text: str) -> Range:
    head, _, last = text.rpartition(":")
    if last != "*":
        return Range(6, _head6(head, text), *_bounds(last, _RANGE6, 16, 0xFFFF, text))
    before, _, previous = head.rpartition(":")
    if "-" in previous:
        return Range(6, _head6(before, text), *_bounds(previous, _RANGE6, 16, 0xFFFF, text))
    return Range(6, _head6(head, text), 0, 0xFFFF)


def _head6(text: str, whole: str) -> tuple[int, ...]:
    """Return the groups to the left of a range; `::` represents the missing zeros."""
    left, gap, right = text.partition("::")
    if right.endswith(":"):
        raise _wrong(whole)
    if text.endswith(":") and not gap:  # the text was cut inside "::"
        left, gap, right = text[:-1], "::", ""
    number: Callable[[str], int] = lambda part: _number(part, 16, 0xFFFF, whole)  # noqa: E731
    before = [number(part) for part in left.split(":") if part or not gap]
    after = [number(part) for part in right.split(":") if part]
    zeros = _GROUPS6 - 1 - len(before) - len(after) if gap else 0
    groups = (*before, *[0] * zeros, *after)
    if zeros < 0 or len(groups) >= _GROUPS6:
        raise _wrong(whole)
    return groups


def _number(text: str, base: int, most: int, whole: str) -> int:
    if not text or not text.isascii() or not text.isalnum():
        raise _wrong(whole)
    try:
        value = int(text, base)
    except ValueError:
        raise _wrong(whole) from None
    if value > most:
        raise _wrong(whole)
    return value


def _bounds(part: str, form: re.Pattern[str], base: int, most: int, text: str) -> tuple[int, int]:
    if part == "*":
        return 0, most
    found = form.fullmatch(part)
    if found is None:
        raise _wrong(text)
    low, high = int(found[1], base), int(found[2], base)
    if not low <= high <= most:
        raise _wrong(text)
    return low, high


def _groups(address: Address) -> tuple[int, ...]:
    packed = address.packed
    if address.version == 4:
        return tuple(packed)
    return tuple(int.from_bytes(packed[at : at + 2], "big") for at in range(0, 16, 2))
