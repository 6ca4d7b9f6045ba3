"""The retry policy of a group of 5.x as text: `10s,30s,1m`, or `5s..2h` for delays that grow."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rmqcli.grammar.durations import parse_duration_ms
from rmqcli.grammar.errors import GrammarError

if TYPE_CHECKING:
    from codec.bodies.config import GroupRetryPolicy

_GROWING = re.compile(r"(?P<first>[^*.,]+)\.\.(?P<longest>[^*.,]+)(\*(?P<factor>[1-9][0-9]{0,8}))?")


def parse_retry_policy(text: str) -> GroupRetryPolicy:
    """Return the policy: a delay for each retry, or the first and the longest delay and their factor (`*3`,
    default 2). GrammarError for other texts.

    Java classes `CustomizedRetryPolicy` and `ExponentialRetryPolicy`.
    """
    from codec.bodies.config import CustomizedRetryPolicy, ExponentialRetryPolicy, GroupRetryPolicy

    match = _GROWING.fullmatch(text)
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
