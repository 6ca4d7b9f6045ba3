from __future__ import annotations

import pytest

from rmqcli.grammar.values import GrammarError
from rmqcli.monitor.verdict import parse_threshold


@pytest.mark.parametrize(
    ("text", "quiet", "alerting"),
    [
        ("10", (0, 10, 5.5), (-1, 10.1)),
        ("10:", (10, 1e9), (9.9, -1)),
        ("~:10", (-1e9, 10), (10.1,)),
        ("10:20", (10, 20), (9, 21)),
        ("@10:20", (9, 21), (10, 15, 20)),
        ("@10", (-1, 11), (0, 10)),
        ("0", (0,), (1, -1)),
        (" 1.5 ", (1.5,), (1.6,)),
        ("-5:5", (-5, 5), (-6, 6)),
    ],
)
def test_ranges(text: str, quiet: tuple[float, ...], alerting: tuple[float, ...]) -> None:
    threshold = parse_threshold(text)
    assert not any(map(threshold.alerts, quiet))
    assert all(map(threshold.alerts, alerting))
    assert threshold.text == text.strip()


@pytest.mark.parametrize("text", ["", "@", ":", "ten", "1:2:3", "20:10", "1e3", "~", "10 20", "٣"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(GrammarError):
        parse_threshold(text)
