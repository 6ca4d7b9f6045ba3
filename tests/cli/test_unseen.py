"""What cannot be seen never reaches a terminal or a log, whatever carries it, and no text forges a line."""

from __future__ import annotations

import json
import logging
import sys
import unicodedata
from functools import cache

import pytest

from rmqcli.cli.errors import report
from rmqcli.cli.logs import Escaped, OneLine
from rmqcli.commands.common.findings import _line
from rmqcli.doctor.finding import Finding, Status
from rmqcli.monitor.verdict import FORMATS, Figure, Measure, State, Verdict
from rmqcli.render.message_rows import message_view
from rmqcli.render.output import escape_controls, json_line, note, warn
from rmqcli.render.text import one_line, printable, tsv_cell
from rmqcli.report.cells import clean
from tests.cli.messages import stored

BIDI = "a\u202ecod.exe\u2066\u200b\u00ad\U000e0041\u2028b"
SHOWN = r"a\u202ecod.exe\u2066\u200b\xad\U000e0041\u2028b"
FORGED = "broker-a\nrmq: all is well\x1b[2J"


@cache
def hidden() -> set[str]:
    """All characters that cannot be seen."""
    every = map(chr, range(sys.maxunicode + 1))
    return {one for one in every if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - set("\t\n")


@pytest.mark.parametrize("shown", [printable, one_line, tsv_cell, clean])
def test_every_character_that_cannot_be_seen_is_an_escape(shown: object) -> None:
    assert callable(shown)
    for one in hidden():
        assert not set(shown(f"a{one}b")) & hidden(), f"U+{ord(one):04X}"
    for one in ("ä", "漢", "😀", "❤\ufe0f", "é", "a\u0301", "\U00020000"):
        assert shown(one) == one


def test_how_they_are_written() -> None:
    assert printable(BIDI) == one_line(BIDI) == SHOWN
    assert one_line("a\n\tb\r") == r"a\n\tb\r"
    assert printable("a\n\tb\udcff\ud800") == "a\n\tb\\xff\\ud800"


def test_bodies_and_formats() -> None:
    assert escape_controls(BIDI.encode()).decode() == SHOWN
    assert escape_controls(b"\xff\x1b") == rb"\xff\x1b"


def test_json_has_escapes_of_its_own_for_the_same_text() -> None:
    for text in (BIDI, "\x7f\x80\x9f", "\U000110bd", "漢 😀"):
        line = json_line({"body": text})
        assert json.loads(line) == {"body": text}
        assert not set(line.decode()) & hidden()
    assert "漢 😀".encode() in json_line("漢 😀")


def test_what_a_message_shows(capsys: pytest.CaptureFixture[str]) -> None:
    message = stored(body=BIDI.encode(), topic=FORGED, properties={"TAGS": FORGED, "KEYS": BIDI})
    text = message_view(message, color=False, topic=True).decode()
    assert len(text.splitlines()) == 2
    assert not (set(text) - {"\n"}) & hidden()


def test_notes_warnings_and_errors_have_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    note(FORGED)
    warn(FORGED)
    report(OSError(2, "No such file", FORGED))
    report(ValueError(FORGED))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert not any("\x1b" in line for line in lines)
    assert not any(line.startswith("rmq: all is well") for line in lines)


@pytest.mark.parametrize("kind", [Escaped, OneLine])
def test_logs_have_one_line_for_a_record(kind: type[logging.Formatter]) -> None:
    record = logging.LogRecord("x", logging.WARNING, "f", 1, "broker %s lost", (FORGED + BIDI,), None)
    text = kind("rmq: %(name)s: %(message)s").format(record)
    assert len(text.splitlines()) == 1 and not set(text) & hidden()


def test_a_traceback_has_its_lines_and_no_escapes_of_others() -> None:
    try:
        raise ValueError("\x1b[2J\u202e")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed", (), sys.exc_info())
    text = Escaped("%(message)s").format(record)
    assert len(text.splitlines()) > 3
    assert not (set(text) - {"\n"}) & hidden()


def test_findings_and_checks_have_one_line_for_a_name() -> None:
    measure = Measure("lag", "lag", "rmq_lag", "lag", "group")
    finding = Finding(Status.FAIL, "brokers", FORGED + BIDI, BIDI, FORGED)
    assert len(_line(finding).splitlines()) == 1 and not set(_line(finding)) & hidden()
    verdict = Verdict(measure, State.OK, FORGED, (Figure(1, FORGED + BIDI),), details=(FORGED,))
    for form in ("nagios", "json"):
        text = FORMATS[form](verdict)
        assert not (set(text) - {"\n"}) & hidden()
        assert len(text.splitlines()) == (2 if form == "nagios" else 1)
