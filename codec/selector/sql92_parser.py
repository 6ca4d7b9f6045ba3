"""Parses words to a syntax tree, by the LALR grammar in sql92.lark and the checks that Java makes while
parsing.

Java reads only to the end of a whole expression: if the next word cannot continue it, the remainder is
ignored, unless the caller requests all of it. Only this module imports lark; a process prepares the grammar
once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from rmqcli.codec.errors import SelectorError
from rmqcli.codec.selector.java_values import order_of_doubles
from rmqcli.codec.selector.sql92_scan import END, KEYWORDS_5, Word, display, scan
from rmqcli.codec.selector.sql92_tree import (
    NUMBERS,
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Kind,
    Negate,
    Node,
    Not,
    Operator,
    Or,
    Property,
    TextTest,
    Truth,
)

MAX_NESTING = 256
"""The maximum number of nested operators. Parentheses alone and chains of AND or OR do not count."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
LONGEST_LONG = len(str(LONG_MAX))
DOUBLE_MIN = 5e-324
SHOWN = 40

TRUTHS = Comparison | IsNull | In | TextTest | Not | And | Or | Truth


def parse_tree(text: str, keywords: frozenset[str], *, whole: bool = False) -> Node:
    """Return the tree of a filter, which is always a truth value. Raises SelectorError, with one line that
    states the position or the reason; with `whole`, also for text after the expression.
    """
    state = _grammar().parse_interactive()
    for word in scan(text, keywords):
        tree = _feed(state, word.kind, word.text)
        if tree is _REFUSED:
            tree = _REFUSED if whole else _feed(state, END, "")
            if tree is _REFUSED:
                raise SelectorError(_unexpected(state, word, keywords))
            return _truth(tree)
        if word.kind == END:
            return _truth(tree)
    raise AssertionError("a scan ends with END")


_REFUSED = object()


def _feed(state: InteractiveParser, kind: str, text: str) -> Any:
    """Return the tree after END, else None; _REFUSED if the word cannot follow (the next one still may)."""
    try:
        return state.feed_token(Token(kind, text))
    except UnexpectedToken:
        return _REFUSED


def _unexpected(state: InteractiveParser, word: Word, keywords: frozenset[str]) -> str:
    kinds: set[str] = state.accepts()  # type: ignore[no-untyped-call]
    unknown = KEYWORDS_5 - keywords
    found = display(END) if word.kind == END else f"'{_short(word.text)}'"
    # The end is expected only by a caller that requests the whole text; others ignore what follows.
    expected = _listed({display(kind) for kind in kinds} - unknown - {display(END)} or {display(END)})
    return f"at character {word.position}: expected {expected}, found {found}"


def _listed(expected: set[str]) -> str:
    if {"a number", "a property name", "a string"} <= expected:
        return "a value"
    *others, last = sorted(expected)
    return f"{', '.join(others)} or {last}" if others else last


def _short(text: str) -> str:
    """Return the text on one line, shortened if it is long."""
    line = repr(str(text))[1:-1]
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"


@lru_cache(maxsize=1)
def _grammar() -> Lark:
    text = files(__package__).joinpath("sql92.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", lexer="basic", transformer=_Builder())


def _above(*nodes: Node) -> int:
    """Return the depth of a node above these. Raises SelectorError if it exceeds MAX_NESTING."""
    depth = 1 + max(node.depth for node in nodes)
    if depth > MAX_NESTING:
        raise SelectorError(f"nested more than {MAX_NESTING} levels deep")
    return depth


def _describe(node: Node) -> str:
    if isinstance(node, Constant):
        return _short(node.text)
    if isinstance(node, Property):
        return f"the property {_short(node.name)}"
    return "a truth value" if isinstance(node, TRUTHS) else "a negated value"


def _truth(node: Node) -> Node:
    if isinstance(node, Property):
        return Truth(node)
    if isinstance(node, TRUTHS) or (isinstance(node, Constant) and node.kind in (Kind.BOOLEAN, Kind.NOTHING)):
        return node
    raise SelectorError(f"expression will not result in a boolean value: {_describe(node)}")


def _compared(operator: Operator, left: Node, right: Node) -> Node:
    check = _check_equal if operator is Operator.EQUAL else _check_ordered
    check(left)
    check(right)
    return Comparison(operator, left, right, _above(left, right))


def _check_equal(node: Node) -> None:
    if isinstance(node, Constant) and node.kind is Kind.NOTHING:
        raise SelectorError("NULL cannot be compared, use IS NULL")


def _check_ordered(node: Node) -> None:
    """Refuse everything but numbers and properties: only these can be below or above each other."""
    constant = isinstance(node, Constant) and node.kind not in NUMBERS
    if constant or isinstance(node, TRUTHS):
        raise SelectorError(f"{_describe(node)} cannot be compared with <, <=, >, >= or BETWEEN")


def _check_range(low: Node, high: Node) -> None:
    if not (isinstance(low, Constant) and isinstance(high, Constant)):
        return
    _check_ordered(low)
    _check_ordered(high)
    assert isinstance(low.value, int | float) and isinstance(high.value, int | float)
    exact = Kind.DOUBLE not in (low.kind, high.kind)
    order = high.value - low.value if exact else order_of_doubles(float(high.value), float(low.value))
    if order < 0:
        raise SelectorError(f"BETWEEN {low.text} AND {high.text}: the first must not be above the second")


def _comparing(operator: Operator) -> Callable[[Any, Node, Node], Node]:
    return lambda _, left, right: _compared(operator, left, right)


def _choosing(*, negated: bool) -> Callable[..., Node]:
    def build(_: Any, left: Node, *items: Token) -> Node:
        if not isinstance(left, Property):
            raise SelectorError(f"expected a property for an IN expression, got {_describe(left)}")
        return In(left.name, frozenset(map(_unquoted, items)), negated)

    return build


def _testing(test: str, *, negated: bool) -> Callable[[Any, Node, Token], Node]:
    return lambda _, left, text: TextTest(test, left, _unquoted(text), negated, _above(left))


def _literal(kind: Kind, value: bool | None) -> Callable[[Any, Token], Node]:
    return lambda _, token: Constant(kind, value, str(token))


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    """One method for each rule and alias of the grammar."""

    def disjunction(self, *parts: Node) -> Node:
        return Or(tuple(map(_truth, parts)), _above(*parts))

    def conjunction(self, *parts: Node) -> Node:
        return And(tuple(map(_truth, parts)), _above(*parts))

    def equal(self, left: Node, right: Node) -> Node:
        if isinstance(left, Constant) and isinstance(right, Constant) and left.kind is Kind.BOOLEAN:
            _check_equal(right)
            if right.kind is not Kind.BOOLEAN:
                raise SelectorError(f"{left.text} cannot be compared with {_short(right.text)}")
        return _compared(Operator.EQUAL, left, right)

    def unequal(self, left: Node, right: Node) -> Node:
        return self.not_(self.equal(left, right))

    def is_null(self, left: Node, _null: Token) -> Node:
        return IsNull(left, _above(left))

    def is_not_null(self, left: Node, null: Token) -> Node:
        return self.not_(self.is_null(left, null))

    greater = _comparing(Operator.GREATER)
    greater_equal = _comparing(Operator.GREATER_EQUAL)
    less = _comparing(Operator.LESS)
    less_equal = _comparing(Operator.LESS_EQUAL)

    def between(self, value: Node, low: Node, high: Node) -> Node:
        _check_range(low, high)
        return self.conjunction(self.greater_equal(value, low), self.less_equal(value, high))

    def not_between(self, value: Node, low: Node, high: Node) -> Node:
        return self.disjunction(self.less(value, low), self.greater(value, high))

    in_ = _choosing(negated=False)
    not_in = _choosing(negated=True)
    contains = _testing("contains", negated=False)
    not_contains = _testing("contains", negated=True)
    starts = _testing("startswith", negated=False)
    not_starts = _testing("startswith", negated=True)
    ends = _testing("endswith", negated=False)
    not_ends = _testing("endswith", negated=True)

    def negate(self, operand: Node) -> Node:
        return Negate(operand, _above(operand))

    def not_(self, operand: Node) -> Node:
        return Not(_truth(operand), _above(operand))

    def name(self, token: Token) -> Node:
        return Property(str(token))

    def string(self, token: Token) -> Node:
        return Constant(Kind.STRING, _unquoted(token), str(token))

    def decimal(self, token: Token) -> Node:
        digits = token.rstrip("lL")
        # The length is checked first, because `int` refuses thousands of digits.
        if len(digits) > LONGEST_LONG or int(digits) > LONG_MAX:
            raise SelectorError(f"{_short(token)} is greater than {LONG_MAX}")
        value = int(digits)
        return Constant(Kind.INTEGER if value <= INT_MAX else Kind.LONG, value, str(token))

    def float_(self, token: Token) -> Node:
        value = float(token)
        if value > sys.float_info.max:
            raise SelectorError(f"{_short(token)} is greater than 1.7976931348623157E308")
        if value < DOUBLE_MIN:
            raise SelectorError(f"{_short(token)} is less than 4.9E-324")
        return Constant(Kind.DOUBLE, value, str(token))

    true = _literal(Kind.BOOLEAN, True)
    false = _literal(Kind.BOOLEAN, False)
    null = _literal(Kind.NOTHING, None)
