"""The SQL92 filter, compared with the answers of Java's parser and evaluator 4.9.8 (5.x for CONTAINS)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rmqcli.codec.errors import SelectorError
from rmqcli.codec.selector import Dialect, Predicate, parse_sql92
from rmqcli.codec.selector.java_values import (
    java_boolean,
    java_double,
    java_integer,
    java_long,
    order_of_doubles,
)
from rmqcli.codec.selector.sql92 import CACHED, MAX_LENGTH

PROPERTIES = {
    "a": "1",
    "b": "2",
    "f": "1.5",
    "s": "abc",
    "bt": "true",
    "neg": "-3",
    "sp": " 1 ",
    "emp": "",
    "quote": "it's",
    "big": "3000000000",
    "nan": "NaN",
    "zero": "0.0",
    "minus_zero": "-0.0",
}

TRUE = [
    "a = 1",
    "a = '1'",
    "a = 1.0",
    "a=1.",
    "a = 10e-1",
    "a > .5",
    "a = 1L",
    "a = 1l",
    "a<>2",
    "a < 2",
    "a <= 1",
    "a >= 1",
    "f = 1.5",
    "f > 1.0",
    "a > 0.5",
    "a BETWEEN 0.5 AND 2",
    "f BETWEEN 1.0 AND 2.0",
    "neg = -3",
    "neg > - 4",
    "a > -1",
    "a = +1",
    "a = + + 1",
    "a = --1",
    "a = -- 1",
    "a > -2147483648",
    "big = 3000000000",
    "a = 1 OR zz = 1",
    "zz = 1 OR a = 1",
    "NOT (a = 2 AND zz > 1)",
    "NOT (a = 1 AND b = 1)",
    "a = 1 and b = 2",
    "a = 2 oR b = 2",
    "bt = TRUE",
    "bt <> FALSE",
    "bt = tRuE",
    "bt IN ('true')",
    "s = 'abc'",
    "'abc' = s",
    "1 = a",
    "5 > a",
    "1 <= a",
    "- 5 < a",
    "'1' = a",
    "1.0 = a",
    "NOT bt",
    "NOT s",
    "s IN ('x', 'abc')",
    "s NOT IN ('x')",
    "s NOT in ('x', 'y', 'z', 'u', 'v')",
    "zz IS NULL",
    "a IS NOT NULL",
    "emp IS NOT NULL",
    "zz > 1 IS NULL",
    "zz = 1 IS NULL",
    "NULL IS NULL",
    "1 IS NOT NULL",
    "a IS NULL OR 1=1",
    "emp = ''",
    "quote = 'it''s'",
    "quote IN ('it''s')",
    "s <> 'say \"x\"'",
    "a < b",
    "b > a",
    "a = a",
    "a <> b",
    "zz = yy",
    "NOT (zz <> yy)",
    "a = 1 = TRUE",
    "(a = 1) = TRUE",
    "a = b = FALSE",
    "(a > 0) <> 1",
    "1 = 1.0",
    "1.0 = 1",
    "1 < 2147483648",
    "2147483648 > 1.5",
    "9007199254740993 = 9007199254740992.0",
    "'1' = 1",
    "1 = '1'",
    "'TRUE' = TRUE",
    "'a' = 'a'",
    "TRUE",
    "true",
    "TRUE OR NULL",
    "NULL OR TRUE",
    "NOT FALSE",
    "a NOT BETWEEN 2 AND 3",
    "b NOT BETWEEN 5 AND 1",
    "b BETWEEN a AND 5",
    "a BETWEEN -1 AND 1",
    "1 BETWEEN 0 AND 2",
    "a BETWEEN 1 AND 1 AND b = 2",
    "zz = 1 IS NULL = TRUE",
    "-a = -b",
    "-a IS NULL",
    "nan = nan",
    "nan > 1.0",
    "nan > a",
    "a < nan",
    "minus_zero < zero",
    "1.5 < nan",
    "a=1 -- x",
    "a=1 /* c */ AND b=2",
    "a = /**/ 1",
    "/* a * b */ a = 1",
    "a = -- one\n 1",
    "a = 1 -- x\r AND b = 2",
    "a\t=\r\n1\f",
    "((((a = 1))))",
    "(a) > 0",
    "a = 1 )",
    "a = 1 b = 3",
    "a = 1 1",
    "a = 1 'x'",
    "a = 1, 2",
    "s IS NOT NULL NOT x",
    "a IS NOT NULL > 3",
]
FALSE = [
    "a = 2",
    "a = 01",
    "a=0x10",
    "a = 0L",
    "a <> 1",
    "a > 9223372036854775807",
    "a = 2 AND zz > 1",
    "bt = 'TRUE'",
    "bt = FALSE",
    "bt",
    "s",
    "emp",
    "bt AND a = 1",
    "a = 1 AND bt",
    "NOT a = 1",
    "a IS NULL",
    "zz IS NOT NULL",
    "1 = zz",
    "'1' = zz",
    "TRUE = zz",
    "a = zz",
    "zz <> yy",
    "(a > 0) = 1",
    "1 = TRUE",
    "'x' = TRUE",
    "FALSE",
    "NOT TRUE",
    "NULL AND FALSE",
    "FALSE AND s > 1",
    "a = -NULL",
    "nan < 1.0",
    "nan = 1.0",
    "zero = minus_zero = TRUE",
    "zero < minus_zero",
    "a BETWEEN b AND 5",
    "a NOT BETWEEN 1 AND 2",
    "a LIKE 'x%'",
    "a + 1 = 2",
    "a-b = 1",
    "s CONTAINS 'b'",
    "s STARTSWITH 'a' = 1 OR a = 1",
    "s 'x''",
    "a = 'it's'",
]
UNKNOWN = [
    "x-y",
    "zz",
    "NOT zz",
    "zz = 1",
    "zz <> 1",
    "NOT (zz = 1)",
    "zz > 1",
    "5 > zz",
    "zz = 'x'",
    "zz = TRUE",
    "zz IN ('x')",
    "zz NOT IN ('x')",
    "zz BETWEEN 1 AND 2",
    "zz NOT BETWEEN 1 AND 2",
    "a = 2 OR zz > 1",
    "a = 1 AND zz = 1",
    "zz = 1 AND a = 1",
    "zz = a",
    "zz > a",
    "a > zz",
    "A = 1",
    "NULL",
    "NOT NULL",
    "TRUE AND NULL",
    "NULL OR FALSE",
    "a > -'x'",
    "a > -s",
    "zz > -(TRUE = s)",
]
NOT_CONVERTED = [
    "f = 1",
    "f > 1",
    "f BETWEEN 1 AND 2",
    "f BETWEEN 1.0 AND 2",
    "s > 1",
    "s = 1",
    "1 = s",
    "5 > s",
    "sp = 1",
    "emp = 1",
    "zero = 1",
    "big > 1",
    "big = 1",
    "a < s",
    "s < s",
    "TRUE = bt",
    "(a = 1) = s",
    "'abc' = 1",
    "1 = 'abc'",
    "s > 1 OR a = 1",
    "NULL AND s > 1",
    "a = 1 AND s > 1",
]
REFUSED = [
    "",
    "   \n",
    "a = 1 AND",
    "a =",
    "= 1",
    "and = 1",
    "x.y = 1",
    "1",
    "'x'",
    "1.5",
    "-1",
    "-a",
    "NOT 1",
    "NOT -a",
    "a = 1 AND 1",
    "'x' OR a = 1",
    "a = NULL",
    "NULL = NULL",
    "NULL = a",
    "NULL <> a",
    "a > NULL",
    "a > '5'",
    "a < 'x'",
    "'x' < a",
    "a >= TRUE",
    "TRUE > a",
    "a > (b = 1)",
    "a > 1 > 2",
    "TRUE = 1",
    "TRUE = 'x'",
    "TRUE = NULL",
    "a BETWEEN 5 AND 1",
    "a BETWEEN 5 AND 4.9",
    "a BETWEEN '1' AND '2'",
    "a BETWEEN NULL AND 2",
    "a BETWEEN FALSE AND TRUE",
    "a BETWEEN 1",
    "a BETWEEN 1 OR 2",
    "a NOT BETWEEN '1' AND '2'",
    "a IN (1,2)",
    "a IN ()",
    "a IN ('1'",
    "a IN ('1',)",
    "a IN '1'",
    "a IN (b)",
    "1 IN ('1')",
    "'1' IN ('1')",
    "NOT a IN ('1')",
    "a IN ('1') IN ('2')",
    "(a = 1) IN ('1')",
    "a NOT 1",
    "a = 1 NOT b",
    "a NOT LIKE 'x'",
    "a IS 1",
    "a IS NOT 1",
    "a IS",
    "a != 1",
    "a == 1",
    "a = 1 #",
    "a IS NULL #",
    "a = 1 % 2",
    "a = 1 * 2",
    "a = 1 / 2",
    "a = `b`",
    '"a" = 1',
    "é = 1",
    "a = 'x",
    "a = 1 /* c",
    "a = 1 /*/",
    "(a = 1",
    "()",
    "a = (",
    "(a = 01)",
    "(a = 0L)",
    "a = 0.0",
    "a = .0",
    "a = 1e-400",
    "a = 1.7E400",
    "a = 9223372036854775808",
    "a = -9223372036854775808",
    "a = 100000000000000000000000",
    "a = *",
    "a = + ",
    "a = 1 OR OR b = 1",
]


def evaluated(text: str, dialect: Dialect = Dialect.V4_9) -> bool | None:
    return parse_sql92(text, dialect).evaluate(PROPERTIES)


@pytest.mark.parametrize(
    ("texts", "value"), [(TRUE, True), (FALSE, False), (UNKNOWN, None)], ids=["true", "false", "unknown"]
)
def test_values(texts: list[str], value: bool | None) -> None:
    for text in texts:
        assert evaluated(text) is value, text
        assert parse_sql92(text).matches(PROPERTIES) is bool(value), text


def test_a_value_that_does_not_convert_is_no_match() -> None:
    for text in NOT_CONVERTED:
        predicate = parse_sql92(text)
        with pytest.raises(ValueError, match=r"not a|cannot be compared"):
            pytest.fail(f"{text} is {predicate.evaluate(PROPERTIES)}")
        assert not predicate.matches(PROPERTIES), text


def test_refused() -> None:
    for text in REFUSED:
        assert len(refusal(text).splitlines()) == 1, text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at character 1: expected a value, found the end"),
        ("a = 1 AND", "at character 10: expected a value, found the end"),
        ("a IN (1)", "at character 7: expected a string, found '1'"),
        ("a IN ('x' 'y')", "at character 11: expected ')' or ',', found ''y''"),
        ("a IS 1", "at character 6: expected NOT or NULL, found '1'"),
        ("a NOT b", "at character 7: expected BETWEEN or IN, found 'b'"),
        ("a != 1", "at character 3: '!' does not begin a word"),
        ("a = 'x", "at character 5: a string that is not closed"),
        ("a = /* x", "at character 5: a comment that is not closed"),
        ("1", "expression will not result in a boolean value: 1"),
        ("- a", "expression will not result in a boolean value: a negated value"),
        ("'\n'", "expression will not result in a boolean value: '\\n'"),
        ("a = NULL", "NULL cannot be compared, use IS NULL"),
        ("a > '5'", "'5' cannot be compared with <, <=, >, >= or BETWEEN"),
        ("(a = 1) > 5", "a truth value cannot be compared with <, <=, >, >= or BETWEEN"),
        ("TRUE = 1", "TRUE cannot be compared with 1"),
        ("a BETWEEN 5 AND 1", "BETWEEN 5 AND 1: the first must not be above the second"),
        ("1 IN ('1')", "expected a property for an IN expression, got 1"),
        ("a = 1.7E400", "1.7E400 is greater than 1.7976931348623157E308"),
        ("a = 0.0", "0.0 is less than 4.9E-324"),
        ("a = 9223372036854775808", "9223372036854775808 is greater than 9223372036854775807"),
        ("a = " + "1" * 50, "1" * 40 + "… is greater than"),
    ],
)  # fmt: skip
def test_a_refusal_says_where_and_why(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_sql92(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s CONTAINS 'b'", True),
        ("s contains 'x'", False),
        ("s NOT CONTAINS 'x'", True),
        ("s NOT CONTAINS 'b'", False),
        ("s STARTSWITH 'ab'", True),
        ("s StartsWith 'b'", False),
        ("s NOT STARTSWITH 'b'", True),
        ("s ENDSWITH 'bc'", True),
        ("s NOT ENDSWITH 'bc'", False),
        ("zz CONTAINS 'b'", False),
        ("zz NOT CONTAINS 'b'", False),
        ("s CONTAINS ''", False),
        ("s NOT CONTAINS ''", False),
        ("'abc' CONTAINS 'b'", True),
        ("1 CONTAINS '1'", False),
        ("1 NOT CONTAINS '2'", False),
        ("a = 1 AND s CONTAINS 'b'", True),
        ("quote CONTAINS 't''s'", True),
        ("(s CONTAINS 'b') CONTAINS 'b'", False),
    ],
)
def test_text_tests_of_5(text: str, expected: bool) -> None:
    assert evaluated(text, Dialect.V5) is expected


@pytest.mark.parametrize("text", ["contains = 1", "s CONTAINS b", "s NOT CONTAINS", "s CONTAINS 1"])
def test_text_tests_refused_by_5(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_sql92(text, Dialect.V5)


def test_the_new_keywords_are_names_in_4_9() -> None:
    assert parse_sql92("contains = '1'").matches({"contains": "1"})
    assert "CONTAINS" not in refusal("s NOT CONTAINS 'b'").replace("'CONTAINS'", "")


def refusal(text: str) -> str:
    with pytest.raises(SelectorError) as caught:
        pytest.fail(f"{text} is {parse_sql92(text)}")
    return str(caught.value)


NESTED = 255


@pytest.mark.parametrize(
    ("before", "after", "once_more"),
    [
        ("NOT (", ")", "NOT ("),
        ("NOT ", "", "NOT "),
        ("(TRUE AND ", ")", "(TRUE AND "),
    ],
)
def test_nesting_is_bounded(before: str, after: str, once_more: str) -> None:
    allowed = before * (NESTED - 1) + "a = 1" + after * (NESTED - 1)
    assert evaluated(allowed) is not None
    assert refusal(once_more * 2 + allowed + after * 2) == "nested more than 256 levels deep"


@pytest.mark.parametrize(
    "text",
    [
        "NOT " * 16_000 + "a",
        "-" * 65_000,
        "a" + "=a" * 32_000,
        "a > " + "- " * 30_000 + "1",
        "(" * 65_000,
        "a" + " IS NULL" * 8_000,
        "a=1 AND " * 8_000,
        "a = '" + "x" * 65_000,
        "/*" * 32_000,
        "a = " + "1" * 65_000,
        "a" * (MAX_LENGTH + 1),
    ],
)
def test_hostile_texts_are_refused(text: str) -> None:
    assert len(refusal(text)) < 200


def test_long_chains_and_lists_are_no_nesting() -> None:
    assert evaluated(" OR ".join(["a = 2"] * 5_000 + ["a = 1"])) is True
    assert evaluated(" AND ".join(["a = 1"] * 5_000)) is True
    items = ",".join(f"'{number}'" for number in range(5_000))
    assert evaluated(f"s IN ({items}, 'abc')") is True
    assert evaluated("(" * 20_000 + "a = 1" + ")" * 20_000) is True


def test_compiled_filters_are_kept() -> None:
    parse_sql92.cache_clear()
    first = parse_sql92("a = 1")
    assert parse_sql92("a = 1") is first
    assert parse_sql92("a = 1", Dialect.V5) is not first
    for number in range(CACHED):
        parse_sql92(f"a = {number + 10}")
    assert parse_sql92("a = 1") is not first
    assert parse_sql92("a = 1") == first
    assert isinstance(first, Predicate)


def test_importing_the_selectors_imports_no_parser_generator() -> None:
    code = "import sys, rmqcli.codec.selector; assert 'lark' not in sys.modules; rmqcli.codec.selector.parse_sql92('a = 1'); assert 'lark' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("+5", 5),
        ("-5", -5),
        ("007", 7),
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
        ("١٢", 12),
        ("１２", 12),
    ],
)
def test_integers(text: str, value: int) -> None:
    assert java_integer(text) == java_long(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "+", "-", "--1", " 1", "1 ", "1_0", "1.0", "0x1", "1L", "1e3", "\N{MATHEMATICAL BOLD DIGIT ONE}", "²", "9" * 40],
)  # fmt: skip
def test_no_integers(text: str) -> None:
    for convert in (java_integer, java_long):
        with pytest.raises(ValueError, match="not a"):
            convert(text)


def test_integer_ranges() -> None:
    assert java_long("9223372036854775807") == 2**63 - 1
    assert java_long("-9223372036854775808") == -(2**63)
    for convert, text in ((java_integer, "2147483648"), (java_long, "9223372036854775808")):
        with pytest.raises(ValueError, match="not a"):
            convert(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("-1.5", -1.5),
        (" 1.5\t\n", 1.5),
        ("\x01\x021.5\x1f", 1.5),
        ("+.5", 0.5),
        ("5.", 5.0),
        ("1d", 1.0),
        ("1.5F", 1.5),
        ("1e3", 1000.0),
        ("1E+3d", 1000.0),
        ("1e400", float("inf")),
        ("-1e400", float("-inf")),
        ("1e-400", 0.0),
        ("Infinity", float("inf")),
        ("-Infinity", float("-inf")),
        ("0x1p3", 8.0),
        ("0X.8P1d", 1.0),
        ("-0x1.8p0", -1.5),
        ("0x1p99999", float("inf")),
        ("-0x1p99999", float("-inf")),
        ("0x1p-99999", 0.0),
    ],
)
def test_doubles(text: str, value: float) -> None:
    assert java_double(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "+", "e3", "1e", "1_0", "nan", "inf", "infinity", "NaNd", "Infinityf", "1ff", "1 2", "0x1", "0x.p1", "0xp1", "\u00a01", "١"],
)  # fmt: skip
def test_no_doubles(text: str) -> None:
    with pytest.raises(ValueError, match="not a double"):
        java_double(text)


def test_conversion_takes_time_in_proportion() -> None:
    for text in (
        "1" * 30_000 + "x",
        "." + "1" * 30_000 + "x",
        "0x" + "a" * 30_000 + "p",
        "1e" + "1" * 30_000 + "x",
    ):
        with pytest.raises(ValueError, match="not a double"):
            java_double(text)


def test_doubles_have_a_total_order() -> None:
    nan, inf = float("nan"), float("inf")
    ascending = [-inf, -1.0, -0.0, 0.0, 1.0, inf, nan]
    for i, left in enumerate(ascending):
        for j, right in enumerate(ascending):
            assert order_of_doubles(left, right) == (i > j) - (i < j)


def test_booleans() -> None:
    assert [java_boolean(text) for text in ("true", "TRUE", "True", "", " true", "1", "false")] == [
        True
    ] * 3 + [False] * 4
