"""Values of options: durations, sizes, escapes, pairs, paths, retry policies."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from rmqcli.codec.bodies.config import GroupRetryPolicy


class GrammarError(ValueError):
    """Raised for text that does not follow its grammar. The message quotes the text and the expected form."""


class UnknownName(GrammarError):
    """Raised for a name that is not one of the `known` ones; `missing`: its kind and the name."""

    def __init__(self, message: str, kind: str, name: str, known: Collection[str]) -> None:
        super().__init__(message)
        self.missing = (kind, name)
        self.known = tuple(known)


_DURATIONS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
# Patterns as texts, which re compiles when one is first used: compiling all of them takes a millisecond.
_PART = r"([0-9]{1,12})(ms|[smhdw])"
_WHOLE = rf"(?:{_PART})+"


def parse_duration_ms(text: str) -> int | None:
    """Return milliseconds, or None if the text is not a duration."""
    if not re.fullmatch(_WHOLE, text):
        return None
    return sum(int(number) * _DURATIONS[unit] for number, unit in re.findall(_PART, text))


def check_duration(option: str, text: str) -> None:
    """Raise GrammarError if the value of an option is not a duration."""
    if parse_duration_ms(text) is None:
        raise GrammarError(f"{option} {text}: expected a duration such as 10s, 5m or 1h30m")


ESCAPES: Mapping[str, bytes] = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
KNOWN = r"use \n \t \r \0 \\ or \xNN"
_ESCAPE = rb"(?s)\\(?:x([0-9a-fA-F]{2})|(.))"


def unescape(option: str, text: str) -> bytes:
    """Return the bytes of the value of an option; raise GrammarError for an unknown escape."""

    def replace(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return bytes([int(match[1], 16)])
        name = match[2].decode("latin-1")
        if name not in ESCAPES:
            raise GrammarError(rf"{option} {text!r}: unknown escape \{name}; {KNOWN}")
        return ESCAPES[name]

    return re.sub(_ESCAPE, replace, os.fsencode(text))


def by_name(option: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the pairs as a dict. Raise GrammarError for a repeated name, so that no value is dropped
    silently.
    """
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise GrammarError(f"{option} {name}: given twice; name it once")
        found[name] = value
    return found


_SCHEMES = frozenset(
    """abfs abfss az azure delta ftp gcs gs hdfs http https iceberg oss s3 s3a s3n sftp wasb wasbs
    """.split()  # noqa: SIM905
)
"""Schemes that are refused even without `//`. Other strings with a colon, such as `copy:1`, are file names.
"""
_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]+):(//)?"


def local_path(text: str) -> Path:
    """Return the path of a file or folder on this machine. Raise GrammarError for a URI of another location."""
    found = re.match(_SCHEME, text)
    scheme = found[1].lower() if found else ""
    if scheme == "file":
        uri = urlsplit(text)
        if uri.netloc in ("", "localhost") and uri.path and "\0" not in unquote(uri.path):
            return Path(unquote(uri.path))
        raise GrammarError(f"{text}: expected file:///PATH, a file or folder of this machine")
    if found and (found[2] or scheme in _SCHEMES):
        raise GrammarError(
            f"{text}: expected a path of this machine, or a file: URI; mount or copy what lies elsewhere"
        )
    return Path(text)


_SIZE = r"(?i)([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([KMGT]?)(?:i?B)?"
_SIZES = ("", "K", "M", "G", "T")


def parse_size(option: str, text: str) -> int:
    """Return bytes, at least 1; raise GrammarError, which names the option."""
    match = re.fullmatch(_SIZE, text.strip())
    found = 0 if match is None else int(float(match[1]) * 1024 ** _SIZES.index(match[2].upper()))
    if found < 1:
        raise GrammarError(f"{option} {text}: expected a size such as 64M or 1G")
    return found


_GROWING = r"(?P<first>[^*.,]+)\.\.(?P<longest>[^*.,]+)(\*(?P<factor>[1-9][0-9]{0,8}))?"


def parse_retry_policy(text: str) -> GroupRetryPolicy:
    """Return the policy: a delay for each retry, or the first and the longest delay and their factor (`*3`,
    default 2). Raise GrammarError for other texts.

    Java classes `CustomizedRetryPolicy` and `ExponentialRetryPolicy`.
    """
    from rmqcli.codec.bodies.config import CustomizedRetryPolicy, ExponentialRetryPolicy, GroupRetryPolicy

    match = re.fullmatch(_GROWING, text)
    if match is None:
        delays = tuple(_delay(text, one) for one in text.split(","))
        return GroupRetryPolicy("CUSTOMIZED", customized_retry_policy=CustomizedRetryPolicy(delays))
    first, longest = _delay(text, match["first"]), _delay(text, match["longest"])
    if longest < first:
        raise _wrong(text, f"{match['longest']} is shorter than {match['first']}")
    growing = ExponentialRetryPolicy(first, longest, int(match["factor"] or 2))
    return GroupRetryPolicy("EXPONENTIAL", exponential_retry_policy=growing)


def retry_policy_text(policy: GroupRetryPolicy) -> str:
    """Return the text that `parse_retry_policy` reads, as far as the policy has values."""
    growing = policy.exponential_retry_policy
    if policy.type == "EXPONENTIAL" and growing is not None:
        return f"{_text(growing.initial)}..{_text(growing.max)}*{growing.multiplier}"
    delays = policy.customized_retry_policy
    return "default" if delays is None else ",".join(map(_text, delays.next))


def _delay(text: str, part: str) -> int:
    milliseconds = parse_duration_ms(part)
    if not milliseconds:
        raise _wrong(text, f"{part!r} is no delay")
    return milliseconds


def _wrong(text: str, reason: str) -> GrammarError:
    return GrammarError(f"retry policy {text!r}: {reason}; write 10s,30s,1m or 5s..2h")


def _text(milliseconds: int) -> str:
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"
