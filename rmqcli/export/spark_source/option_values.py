"""The values of options, converted from strings by `convert(name, text)`.

OptionError names the option.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from rmqcli.codec.message_queue import MessageQueue
from rmqcli.export.errors import ExportError
from rmqcli.export.spark_source.offsets import queues_from_json
from rmqcli.grammar.offset_range import OffsetRange, parse_range
from rmqcli.grammar.values import GrammarError, parse_duration_ms, parse_size


class OptionError(ExportError, ValueError):
    """An option of the data source is missing, unknown or invalid. Nothing was read or written."""


def to_boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError(f"{name}={text}: expected true or false")
    return text.lower() == "true"


def to_number(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()):
        raise OptionError(f"{name}={text}: expected a number")
    return int(text)


def to_offsets(name: str, text: str) -> OffsetRange:
    """Parse `A:B`, without B; an empty side is open."""
    try:
        found = parse_range(text, 0)
    except GrammarError as error:
        raise OptionError(f"{name}: {error}") from None
    if ":" not in text or found.begin_time is not None or found.end_time is not None:
        raise OptionError(f"{name}={text}: expected A:B, offsets without B; an empty side is open")
    return found


def to_positive(name: str, text: str) -> int:
    number = to_number(name, text)
    if number < 1:
        raise OptionError(f"{name}={text}: expected 1 or more")
    return number


def to_size(name: str, text: str) -> int:
    try:
        return parse_size(name, text)
    except GrammarError as error:
        raise OptionError(str(error)) from None


def to_seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < math.inf:
        raise OptionError(f"{name}={text}: expected more than 0 seconds")
    return seconds


def to_milliseconds(name: str, text: str) -> int:
    milliseconds = parse_duration_ms(text)
    if milliseconds is None:
        raise OptionError(f"{name}={text}: expected a duration such as 10s, 5m or 1h30m")
    return milliseconds


def to_text(name: str, text: str) -> str:
    return text


def to_drop(name: str, text: str) -> bool:
    if text.lower() not in ("error", "drop"):
        raise OptionError(f"{name}={text}: expected error or drop")
    return text.lower() == "drop"


def to_compression(name: str, text: str) -> str | None:
    from rmqcli.client.produce.outgoing import COMPRESSIONS

    if text.lower() not in (*COMPRESSIONS, "none"):
        raise OptionError(f"{name}={text}: expected {', '.join(COMPRESSIONS)} or none")
    return None if text.lower() == "none" else text.lower()


def to_trace(name: str, text: str) -> bool | str:
    return to_boolean(name, text) if text.lower() in ("true", "false") else text


def to_names(name: str, text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise OptionError(f"{name} names no topic")
    return found


def to_paths(name: str, text: str) -> tuple[str, ...]:
    """Parse the JSON list that Spark makes of `load([PATH, …])`."""
    try:
        return tuple(map(str, json.loads(text)))
    except (ValueError, TypeError):
        raise OptionError(f"{name}={text}: expected a JSON list of store folders: load([PATH, …])") from None


def to_broker_names(name: str, text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def to_pattern(name: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"{name}={text}: not a regular expression: {error}") from None
    return text


def to_assigned(name: str, text: str) -> Mapping[str, Mapping[str | None, tuple[int, ...]]]:
    """Parse `{"T":[0,1]}` or `{"T":{"broker-a":[0,1]}}`."""
    try:
        found: dict[str, dict[str | None, tuple[int, ...]]] = {
            topic: {broker: tuple(map(int, numbers)) for broker, numbers in _by_broker(value).items()}
            for topic, value in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        raise OptionError(f'{name}={text}: expected {{"topic":{{"broker-a":[0,1]}}}}') from None
    if not found:
        raise OptionError(f"{name} names no topic")
    return found


def _by_broker(value: Any) -> Mapping[str | None, Any]:
    return {None: value} if isinstance(value, list) else value


def to_by_queue(name: str, text: str) -> dict[MessageQueue, int]:
    try:
        return queues_from_json(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        expected = 'earliest, latest or {"topic":{"broker-a":{"0":23}}}'
        raise OptionError(f"{name}={text}: expected {expected}") from None
