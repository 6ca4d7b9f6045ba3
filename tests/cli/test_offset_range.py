from __future__ import annotations

from datetime import datetime

import pytest

from rmqcli.grammar.offset_range import OffsetRange, parse_range, parse_target
from rmqcli.grammar.values import GrammarError, parse_duration_ms

NOW = 1_714_557_600_000
HOUR = 3_600_000


def local(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", OffsetRange()),
        ("end", OffsetRange(only_new=True)),
        ("0", OffsetRange(begin=0)),
        ("120", OffsetRange(begin=120)),
        ("-5", OffsetRange(last=5)),
        ("3:9", OffsetRange(begin=3, end=9)),
        ("3:3", OffsetRange(begin=3, end=3)),
        (":9", OffsetRange(end=9)),
        ("3:", OffsetRange(begin=3)),
        ("start:9", OffsetRange(end=9)),
        ("3:end", OffsetRange(begin=3)),
        (":", OffsetRange()),
        ("@1714557600000", OffsetRange(begin_time=NOW)),
        ("@now", OffsetRange(begin_time=NOW)),
        ("@-1h", OffsetRange(begin_time=NOW - HOUR)),
        ("@-1h30m", OffsetRange(begin_time=NOW - HOUR * 3 // 2)),
        ("@-2h:-1h", OffsetRange(begin_time=NOW - 2 * HOUR, end_time=NOW - HOUR)),
        ("@-2h:@-1h", OffsetRange(begin_time=NOW - 2 * HOUR, end_time=NOW - HOUR)),
        ("@-2h:now", OffsetRange(begin_time=NOW - 2 * HOUR, end_time=NOW)),
        ("@:-1h", OffsetRange(end_time=NOW - HOUR)),
        ("@-1h:", OffsetRange(begin_time=NOW - HOUR)),
        ("@1714557600", OffsetRange(begin_time=NOW)),
        ("@1714557600:1714561200000", OffsetRange(begin_time=NOW, end_time=NOW + HOUR)),
        ("@0:1714557600", OffsetRange(begin_time=0, end_time=NOW)),
        ("@978307200000", OffsetRange(begin_time=978307200000)),
        ("@2024-05-01", OffsetRange(begin_time=local("2024-05-01"))),
        ("@2024-05-01T10", OffsetRange(begin_time=local("2024-05-01T10:00"))),
        ("@2024-05-01T10:30", OffsetRange(begin_time=local("2024-05-01T10:30"))),
        ("@2024-05-01 10:30:15", OffsetRange(begin_time=local("2024-05-01T10:30:15"))),
        ("@2024-05-01T10:30:15.250Z", OffsetRange(begin_time=1714559415250)),
        ("@2024-05-01T12:00:00+02:00", OffsetRange(begin_time=NOW)),
        ("@2024-05-01T10:00:00Z:2024-05-01T11:00:00Z", OffsetRange(begin_time=NOW, end_time=NOW + HOUR)),
        ("@2024-05-01T10:00:00Z:@2024-05-01T11:00:00Z", OffsetRange(begin_time=NOW, end_time=NOW + HOUR)),
        ("@2024-05-01T12:00+02:00:2024-05-01T13:00+02:00", OffsetRange(begin_time=NOW, end_time=NOW + HOUR)),
        (
            "@2024-05-01T10:00:2024-05-01T11:00",
            OffsetRange(begin_time=local("2024-05-01T10:00"), end_time=local("2024-05-01T11:00")),
        ),
        ("@2024-05-01:2024-05-02", OffsetRange(begin_time=local("2024-05-01"), end_time=local("2024-05-02"))),
        ("@2024-05-01T10:00Z:1714561200000", OffsetRange(begin_time=NOW, end_time=NOW + HOUR)),
        ("@2024-05-01T10:00:00Z:", OffsetRange(begin_time=NOW)),
        ("@:2024-05-01T10:00:00Z", OffsetRange(end_time=NOW)),
    ],
)
def test_ranges(text: str, expected: OffsetRange) -> None:
    assert parse_range(text, NOW) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("abc", "'abc' is not an offset"),
        ("", "range '': '' is not an offset"),
        ("1:x", "'x' is not an offset"),
        ("1:2:3", "'2:3' is not an offset"),
        ("--5", "not an offset"),
        ("-5:9", "not an offset"),
        ("9:3", "the end is before the start"),
        ("99999999999999999999", "not an offset"),
        ("9223372036854775808", "not an offset"),
        ("²", "not an offset"),
        ("@", "ISO time"),
        ("@yesterday", "ISO time"),
        ("@-1y", "ISO time"),
        ("@2024-13-01", "ISO time"),
        ("@-1h:-2h", "the end is before the start"),
        ("@1:2:3", "ISO time"),
        ("@1000", "epoch seconds or milliseconds (from 2001 on)"),
        ("@978307199999", "(from 2001 on)"),
        ("@1714557600000000", "(from 2001 on)"),
        ("@0:978307199999", "(from 2001 on)"),
    ],
)
def test_what_is_no_range(text: str, part: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_range(text, NOW)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", (10, 20)),
        ("end", (20, 20)),
        ("15", (15, 20)),
        ("5", (10, 20)),
        ("25", (20, 20)),
        ("-3", (17, 20)),
        ("-100", (10, 20)),
        ("12:15", (12, 15)),
        ("12:99", (12, 20)),
        ("1:5", (10, 10)),
        (":12", (10, 12)),
        ("@0", (10, 20)),
    ],
)
def test_offsets_of_a_queue(text: str, expected: tuple[int, int]) -> None:
    assert parse_range(text, NOW).offsets(10, 20) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", [0, 1, 2, 3]),
        ("end", []),
        ("2", [2, 3]),
        ("1:3", [1, 2]),
        (":1", [0]),
        ("-2", [2, 3]),
        ("-9", [0, 1, 2, 3]),
        ("-0", []),
        ("@1714557602:@1714557603", [2]),
        ("@1714557601", [1, 2, 3]),
    ],
)
def test_items_are_selected_by_their_place(text: str, expected: list[int]) -> None:
    found = parse_range(text, NOW).select(iter(range(4)), lambda item: (item, NOW + item * 1000))
    assert list(found) == expected


def test_times_are_half_open() -> None:
    wanted = parse_range("@1714557600:1714557601", NOW)
    assert [wanted.holds_time(NOW + time) for time in (-1, 0, 999, 1000)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", ("start", 0)),
        ("end", ("end", 0)),
        ("0", ("offset", 0)),
        ("17", ("offset", 17)),
        ("+5", ("shift", 5)),
        ("-5", ("shift", -5)),
        ("@-1h", ("time", NOW - HOUR)),
        ("@1714557600", ("time", NOW)),
    ],
)
def test_targets(text: str, expected: tuple[str, int]) -> None:
    assert parse_target(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "+", "-", "x", "1:2", "+-1", "@", "@5", "9223372036854775808"])
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(GrammarError):
        parse_target(text, NOW)


def test_durations() -> None:
    assert parse_duration_ms("1d2h3m4s5ms") == 93_784_005
    assert [parse_duration_ms(text) for text in ("", "5", "s", "1y", "1 s", "-1s")] == [None] * 6
