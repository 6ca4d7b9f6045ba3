"""Random SQL92 filters: any text is a filter or a SelectorError, and a printed tree means what the tree
means.

The evaluator here differs from the one under test: it examines the classes of the values each time, as
Java does, and has no special case for constants. Seeds are fixed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from rmqcli.codec.errors import SelectorError
from rmqcli.codec.selector import Dialect, parse_sql92
from rmqcli.codec.selector.java_values import (
    java_boolean,
    java_double,
    java_integer,
    java_long,
    order_of_doubles,
)
from tests.seeds import seeds, times

NAMES = ["a", "b", "$c", "_d", "TAGS", "missing", "Not_", "contains"]
VALUES = ["1", "2", "-3", "+5", " 1 ", "1.5", "abc", "true", "TRUE", "", "1d", "NaN", "-0.0", "0.0", "Infinity",
          "0x1p3", "2147483648", "9223372036854775808", "it's", "1_0", "１２"]  # fmt: skip
LITERALS = ["0", "1", "2", "5L", "1.5", ".5", "5.", "1e1", "2147483647", "2147483648", "9223372036854775807", "'1'",
            "'abc'", "'it''s'", "''", "TRUE", "false", "NULL", "0.0", "01", "1e400", "9223372036854775808"]  # fmt: skip
PIECES = [*NAMES, *LITERALS, "=", "<>", "<", "<=", ">", ">=", "(", ")", ",", "+", "-", "NOT", "AND", "or", "IN", "IS",
          "IS NULL", "BETWEEN", "CONTAINS", "--", "\n", "\r", "/*", "*/", "/* */", "'", '"', "#", "!", "é", "\0", ".",
          " ", "\t", "\f", "\ud800", "😀", "0x10", "e5"]  # fmt: skip
ORDERS: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def parsed_or_refused(text: str) -> bool:
    """True when a text is a filter in any dialect; it then gives one of the three values or ValueError."""
    accepted = False
    for dialect in Dialect:
        try:
            predicate = parse_sql92(text, dialect)
        except SelectorError as error:
            assert len(str(error).splitlines()) == 1
            continue
        accepted = True
        assert predicate.matches({"a": "1", "b": "x", "TAGS": "1.5"}) in (True, False)
    return accepted


def test_random_pieces() -> None:
    random_ = random.Random(1)
    accepted = 0
    for _ in range(times(3_000)):
        between = random_.choice(["", " "])
        text = between.join(random_.choices(PIECES, k=random_.randrange(12)))
        accepted += parsed_or_refused(text)
    assert times(125) < accepted < times(2_750)


def test_mutated_filters() -> None:
    random_ = random.Random(2)
    accepted = 0
    for _ in range(times(2_500)):
        text = list(Printer(random_).print(Grower(random_).truth(3)))
        for _ in range(random_.randrange(1, 4)):
            at = random_.randrange(len(text) + 1)
            text[at : at + random_.randrange(3)] = random_.choice(PIECES)
        accepted += parsed_or_refused("".join(text))
    assert times(250) < accepted < times(2_250)


class Node(NamedTuple):
    kind: str
    parts: tuple[Any, ...]


class Typed(NamedTuple):
    """A value and its Java class."""

    java: str
    value: Any


class Grower:
    """A maker of trees that Java accepts."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_

    def truth(self, depth: int) -> Node:
        makers = [self.compared, self.equal, self.between, self.in_, self.null_test, self.text_test]
        if depth > 0:
            makers += [self.not_, self.chain, self.chain]
        return self.random.choice(makers)(depth)

    def compared(self, depth: int) -> Node:
        symbol = self.random.choice(["<", "<=", ">", ">="])
        return Node("compare", (symbol, self.number(depth), self.number(depth)))

    def equal(self, depth: int) -> Node:
        makers = [self.number, self.string, self.string] + ([self.truth] if depth > 0 else [])
        left, right = (self.random.choice(makers)(depth - 1) for _ in range(2))
        return Node(self.random.choice(["equal", "unequal"]), (left, right))

    def between(self, depth: int) -> Node:
        value, low, high = self.number(depth), self.name(depth), self.number(depth)
        return Node("between", (value, low, high, self.random.random() < 0.5))

    def in_(self, depth: int) -> Node:
        items = tuple(self.random.choices(VALUES, k=self.random.randrange(1, 7)))
        return Node("member", (self.name(depth).parts[0], items, self.random.random() < 0.5))

    def null_test(self, depth: int) -> Node:
        operand = self.truth(depth - 1) if depth > 0 and self.random.random() < 0.4 else self.number(depth)
        return Node("null", (operand, self.random.random() < 0.5))

    def text_test(self, depth: int) -> Node:
        test = self.random.choice(["CONTAINS", "STARTSWITH", "ENDSWITH"])
        text = self.random.choice(["", "1", "a", "'"])
        return Node("text", (test, self.name(depth), text, self.random.random() < 0.5))

    def not_(self, depth: int) -> Node:
        return Node("inverse", (self.boolean(depth - 1),))

    def chain(self, depth: int) -> Node:
        operands = tuple(self.boolean(depth - 1) for _ in range(self.random.randrange(2, 5)))
        return Node(self.random.choice(["every", "some"]), operands)

    def boolean(self, depth: int) -> Node:
        """Also a bare property or constant, which stand for a truth value."""
        chance = self.random.random()
        if chance < 0.1:
            return Node("bare", (self.name(depth).parts[0],))
        if chance < 0.2:
            return Node("constant", (self.random.choice([Typed("null", None), Typed("Boolean", True)]),))
        return self.truth(depth)

    def name(self, _depth: int) -> Node:
        return Node("name", (self.random.choice([name for name in NAMES if name != "contains"]),))

    def string(self, depth: int) -> Node:
        text = Node("constant", (Typed("String", self.random.choice(VALUES)),))
        return self.random.choice([text, self.name(depth)])

    def number(self, depth: int) -> Node:
        chance = self.random.random()
        if chance < 0.4:
            return self.name(depth)
        if chance < 0.5:
            return Node("minus", (self.number(depth),))
        numbers = [
            Typed("Integer", self.random.choice([0, 1, 2, 5, 2**31 - 1])),
            Typed("Long", self.random.choice([2**31, 2**53 + 1, 2**63 - 1])),
            Typed("Double", self.random.choice([0.5, 1.0, 1.5, 2.0, 9007199254740992.0, 1e300])),
        ]
        return Node("constant", (self.random.choice(numbers),))


class Printer:
    """A writer of trees with every operand in parentheses, in random case, with blanks and comments."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_

    def print(self, node: Node) -> str:
        text: str = getattr(self, node.kind)(*node.parts)
        return text

    def join(self, *words: str) -> str:
        return "".join(word + self.random.choice([" ", "\n", " /* AND */ ", " -- x\n"]) for word in words)

    def word(self, *words: str) -> str:
        return self.join(*(self.random.choice([str.upper, str.lower, str.title])(word) for word in words))

    def inner(self, node: Node) -> str:
        text = self.print(node)
        return text if node.kind in ("name", "bare", "constant") else f"({text})"

    def compare(self, symbol: str, left: Node, right: Node) -> str:
        return self.join(self.inner(left), symbol, self.inner(right))

    def equal(self, left: Node, right: Node) -> str:
        return self.compare("=", left, right)

    def unequal(self, left: Node, right: Node) -> str:
        return self.compare("<>", left, right)

    def between(self, value: Node, low: Node, high: Node, negated: bool) -> str:
        not_ = self.word("not") if negated else ""
        bounds = self.join(self.inner(low)) + self.word("and") + self.inner(high)
        return self.join(self.inner(value)) + not_ + self.word("between") + bounds

    def member(self, name: str, items: tuple[str, ...], negated: bool) -> str:
        in_ = self.word(*(["not"] if negated else []), "in")
        return self.join(name) + in_ + self.join("(", ", ".join(map(quoted, items)), ")")

    def inverse(self, operand: Node) -> str:
        return self.word("not") + self.inner(operand)

    def every(self, *operands: Node) -> str:
        return self.word("and").join(self.join(self.inner(operand)) for operand in operands)

    def some(self, *operands: Node) -> str:
        return self.word("or").join(self.join(self.inner(operand)) for operand in operands)

    def null(self, operand: Node, negated: bool) -> str:
        return self.join(self.inner(operand)) + self.word("is", *(["not"] if negated else []), "null")

    def text(self, test: str, operand: Node, text: str, negated: bool) -> str:
        return self.join(self.inner(operand)) + self.word(*(["not"] if negated else []), test) + quoted(text)

    def minus(self, operand: Node) -> str:
        return self.join("-", self.inner(operand))

    def name(self, name: str) -> str:
        return name

    bare = name

    def constant(self, value: Typed) -> str:
        if value.java == "String":
            return quoted(value.value)
        if value.java in ("null", "Boolean"):
            return self.word({None: "null", True: "true"}[value.value])
        return repr(value.value)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def evaluate(node: Node, properties: Mapping[str, str]) -> Typed | None:
    """The value of a tree, None for null. Raises ValueError where Java throws."""
    return EVALUATORS[node.kind](properties, *node.parts)


def boolean(value: bool | None) -> Typed | None:
    """A truth value, or a bare property or constant that stands for one."""
    return None if value is None else Typed("Boolean", value)


def truth_of(node: Node, properties: Mapping[str, str]) -> bool | None:
    value = evaluate(node, properties)
    return None if value is None else bool(value.value)


def in_doubles(one: Any, other: Any) -> int:
    return order_of_doubles(float(one), float(other))


def plainly(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


CONVERTERS: dict[str, Callable[[str], Any]] = {
    "Integer": java_integer,
    "Long": java_long,
    "Double": java_double,
}


def order_of(one: Typed, other: Typed) -> int:
    if one.java == "Boolean" and other.java != "Boolean":
        if other.java == "String":
            raise ValueError("cannot cast")
        return -1
    if one.java == "String" and other.java == "Boolean":
        return plainly(java_boolean(one.value), other.value)
    if other.java == "Boolean" and one.java != "Boolean":
        return -1
    if one.java == "String" and other.java in CONVERTERS:
        one = Typed(other.java, CONVERTERS[other.java](one.value))
    elif other.java == "String" and one.java in CONVERTERS:
        other = Typed(one.java, CONVERTERS[one.java](other.value))
    order = in_doubles if "Double" in (one.java, other.java) else plainly
    return order(one.value, other.value)


def compare(properties: Mapping[str, str], symbol: str, left: Node, right: Node) -> Typed | None:
    one, other = evaluate(left, properties), evaluate(right, properties)
    if one is None or other is None:
        return None
    if one.java == other.java == "String":
        return boolean(ORDERS[symbol](in_doubles(java_double(one.value), java_double(other.value))))
    return boolean(ORDERS[symbol](order_of(one, other)))


def equal(properties: Mapping[str, str], left: Node, right: Node) -> Typed | None:
    one, other = evaluate(left, properties), evaluate(right, properties)
    if one is None:
        return boolean(True if other is None else None)
    return boolean(False if other is None else ORDERS["="](order_of(one, other)))


def negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def unequal(properties: Mapping[str, str], left: Node, right: Node) -> Typed | None:
    value = equal(properties, left, right)
    return boolean(None if value is None else not value.value)


def chain(properties: Mapping[str, str], operands: tuple[Node, ...], decisive: bool) -> Typed | None:
    """Nests two operands at a time from the left, as Java does."""
    result = truth_of(operands[0], properties)
    for operand in operands[1:]:
        if result is decisive:
            return boolean(decisive)
        value = truth_of(operand, properties)
        if value is decisive:
            return boolean(decisive)
        result = None if result is None or value is None else not decisive
    return boolean(result)


def between(properties: Mapping[str, str], value: Node, low: Node, high: Node, negate: bool) -> Typed | None:
    symbols = ("<", ">") if negate else (">=", "<=")
    parts = tuple(
        Node("compare", (symbol, value, bound)) for symbol, bound in zip(symbols, (low, high), strict=True)
    )
    return chain(properties, parts, decisive=negate)


def in_(properties: Mapping[str, str], name: str, items: tuple[str, ...], negate: bool) -> Typed | None:
    value = properties.get(name)
    return None if value is None else boolean((value in items) != negate)


def text_test(
    properties: Mapping[str, str], test: str, operand: Node, text: str, negate: bool
) -> Typed | None:
    value = evaluate(operand, properties)
    if value is None or not text:
        return boolean(False)
    found = {
        "CONTAINS": text in value.value,
        "STARTSWITH": value.value[: len(text)] == text,
        "ENDSWITH": value.value[-len(text) :] == text,
    }
    return boolean(found[test] != negate)


def minus(properties: Mapping[str, str], operand: Node) -> Typed | None:
    value = evaluate(operand, properties)
    return Typed(value.java, -value.value) if value is not None and value.java in CONVERTERS else None


def name(properties: Mapping[str, str], name_: str) -> Typed | None:
    return Typed("String", properties[name_]) if name_ in properties else None


EVALUATORS: dict[str, Callable[..., Typed | None]] = {
    "compare": compare,
    "equal": equal,
    "unequal": unequal,
    "between": between,
    "member": in_,
    "null": lambda properties, operand, negate: boolean((evaluate(operand, properties) is None) != negate),
    "text": text_test,
    "inverse": lambda properties, operand: boolean(negated(truth_of(operand, properties))),
    "every": lambda properties, *operands: chain(properties, operands, decisive=False),
    "some": lambda properties, *operands: chain(properties, operands, decisive=True),
    "bare": lambda properties, name_: boolean(False if name_ in properties else None),
    "minus": minus,
    "name": name,
    "constant": lambda _properties, value: None if value.java == "null" else value,
}


def outcome(run: Callable[[], Any]) -> object:
    try:
        return run()
    except ValueError:
        return "does not convert"


def refused_rightly(text: str, tree: Node) -> bool:
    """True for the few trees that Java refuses by the classes of their constants."""
    return "constant" in repr(tree) and ("cannot be compared" in text or "must not be above" in text)


@pytest.mark.parametrize("seed", seeds(1))
def test_a_printed_tree_means_what_it_meant(seed: int) -> None:
    random_ = random.Random(f"trees {seed}")
    seen: dict[object, int] = {}
    for _ in range(1_500):
        tree = Grower(random_).truth(random_.randrange(4))
        text = Printer(random_).print(tree)
        try:
            predicate = parse_sql92(text, Dialect.V5)
        except SelectorError as error:
            assert refused_rightly(str(error), tree), text
            seen["refused"] = seen.get("refused", 0) + 1
            continue
        for _ in range(4):
            properties = {one: random_.choice(VALUES) for one in NAMES[:5] if random_.random() < 0.8}
            expected = outcome(lambda: truth_of(tree, properties))  # noqa: B023  called at once
            assert outcome(lambda: predicate.evaluate(properties)) == expected, (text, properties)  # noqa: B023
            assert predicate.matches(properties) is (expected is True)
            seen[expected] = seen.get(expected, 0) + 1
    assert min(seen.get(kind, 0) for kind in (True, False, None, "does not convert")) > 100
    assert seen.get("refused", 0) < 400
