from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.grammar.values import GrammarError
from rmqcli.render.message_format import parse_format
from rmqcli.render.message_json import message_line
from tests.cli.messages import stored

LOCAL = datetime.fromtimestamp(1714557600)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", b""),
        ("plain ü", "plain ü".encode()),
        (r"%t %q %o %b\n", b"orders 3 17 broker-a\n"),
        ("%k|%g|%v|%s", b"k1 k2|paid|hello|5"),
        ("%h{shop} %h{none}.", b"berlin ."),
        ("%h", b"UNIQ_KEY=7F0000010001,TAGS=paid,KEYS=k1 k2,shop=berlin"),
        ("%h{json}", b'{"UNIQ_KEY":"7F0000010001","TAGS":"paid","KEYS":"k1 k2","shop":"berlin"}'),
        ("%i %I", b"7F0000010001 0A00000200002A9F0000000000001000"),
        ("%f %r %p %S", b"0 0 4096 200"),
        ("%B %H", b"10.0.0.1:50000 10.0.0.2:10911"),
        ("100%%", b"100%"),
        ("%%{hex}", b"%{hex}"),
        ("%v{hex} %v{base64} %v{json}", b'68656c6c6f aGVsbG8= "hello"'),
        ("%k{json} %g{json} %o{json}", b'["k1","k2"] "paid" 17'),
        ("%h{shop}{hex} %h{none}{json}", b"6265726c696e null"),
        (r"\t\r\0\\\x41\xff", b"\t\r\0\\A\xff"),
        ("%d", f"{LOCAL:%Y-%m-%dT%H:%M:%S}.456".encode()),
        ("%D", f"{LOCAL:%Y-%m-%dT%H:%M:%S}.123".encode()),
        ("%d{ms} %D{ms}", b"1714557600456 1714557600123"),
        ("%d{utc}", b"2024-05-01T10:00:00.456Z"),
        ("%d{%H:%M}", f"{LOCAL:%H:%M}".encode()),
        ("%d{json}", b"1714557600456"),
        ("%j", message_line(stored())),
        ("{}", b"{}"),
    ],
)
def test_verbs(text: str, expected: bytes) -> None:
    assert parse_format(text)(stored()) == expected


def test_nothing_there() -> None:
    bare = stored(properties={}, body=b"")
    assert parse_format("[%k][%g][%v][%h]")(bare) == b"[][][][]"
    assert parse_format("%k{json}%g{json}")(bare) == b"[]null"


def test_a_body_of_any_bytes_goes_out_as_it_is() -> None:
    body = bytes(range(256))
    assert parse_format("%v", raw=True)(stored(body=body)) == body
    assert parse_format("%v{json}")(stored(body=b"\xff")) == rb'"\\xff"'


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("ab%y", 3, "unknown verb %y; use one of"),
        ("%", 1, "incomplete"),
        ("%v %", 4, "incomplete"),
        ("\\", 1, "incomplete"),
        ("x\\q", 2, r"unknown escape \q"),
        ("\\xg1", 1, r"unknown escape \x"),
        ("%v{upper}", 3, "unknown modifier {upper}; use one of {hex}, {base64}, {json}"),
        ("%v{hex}{json}", 3, "only one modifier is allowed"),
        ("%h{a}{b}", 3, "unknown modifier {b}"),
        ("%h{shop", 3, r"unclosed brace; write \x7b for a literal one"),
        ("%o %v{hex}{", 11, "unclosed brace"),
        ("%d{week}", 3, "unknown modifier {week}"),
    ],
)
def test_errors_point_at_the_place(text: str, place: int, reason: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_format(text)
    assert f"character {place}: " in str(caught.value)
    assert reason in str(caught.value)


@given(st.text(st.sampled_from("%\\{}vhkdx0nAf: "), max_size=12))
def test_any_text_is_a_format_or_a_usage_error(text: str) -> None:
    try:
        render = parse_format(text)
    except GrammarError:
        return
    assert isinstance(render(stored()), bytes)
