"""Properties text as Java reads it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.codec.bodies.config import (
    format_properties,
    load_properties_file,
    parse_properties,
    store_properties,
)
from rmqcli.codec.errors import BodyError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        (r"a\=b=c", {"a=b": "c"}),
        (r"a=\t\u00e9\\n", {"a": "\té\\n"}),
        ("a = b ", {"a": "b "}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=\\\n  #no comment", {"a": "#no comment"}),
        ("\\\n#no comment either", {"#no": "comment either"}),
        ("\\\n\n#comment\n\\", {}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


plain = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="\\=:#!"), min_size=1)


@given(st.dictionaries(plain, plain))
def test_what_is_written_is_read_again(entries: dict[str, str]) -> None:
    assert parse_properties(format_properties(entries)) == entries


@given(st.dictionaries(st.text(), st.text()))
def test_a_file_says_what_was_written_whatever_that_is(entries: dict[str, str]) -> None:
    assert parse_properties(store_properties(entries)) == entries


def test_continued_lines_take_linear_time() -> None:
    started = time.process_time()
    assert parse_properties("a=" + "x\\\n" * 1_000_000) == {"a": "x" * 1_000_000}
    # Quadratic time would need minutes for this.
    assert time.process_time() - started < 20


@given(st.text())
def test_any_text_is_read_without_failing(text: str) -> None:
    assert all(isinstance(value, str) for value in parse_properties(text).values())


COMMENT = "# 代理名称".encode("gbk") + b"\n"
NAME = b"brokerName=a\n"


@pytest.mark.parametrize(
    "data",
    [
        NAME,
        COMMENT + NAME,
        NAME + COMMENT,
        b"  ! caf\xe9\r\n" + NAME,
        b"\xef\xbb\xbf" + NAME,
        b"\xef\xbb\xbf" + COMMENT + NAME,
        b"\xef\xbb\xbf\n" + NAME,
    ],
)
def test_a_file_of_windows_is_read(data: bytes) -> None:
    assert load_properties_file(data) == {"brokerName": "a"}


def test_characters_of_a_file_are_what_they_were() -> None:
    text = "a=é中\nb=\\uD83D\\uDC80\n"
    assert load_properties_file(text.encode()) == parse_properties(text)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a=1\nbrokerName=caf\xe9\n", "the value of brokerName is not UTF-8"),
        (b"a=1\\\n  # no comment \xe9\n", "the value of a is not UTF-8"),
        (b"caf\xe9=1\n", "the name of a property is not UTF-8"),
        ("brokerName=a\n".encode("utf-16"), "UTF-16: save it as UTF-8"),
        (b"\xfe\xff\0a", "UTF-16"),
    ],
)
def test_what_is_read_is_utf8(data: bytes, text: str) -> None:
    with pytest.raises(BodyError, match=text):
        load_properties_file(data)
