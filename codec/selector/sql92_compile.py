"""Compiles a syntax tree to one function of the properties: closures within closures, chosen once from
tables.

A function returns True, False or None (unknown), and raises ValueError where Java throws during evaluation:
for a property that does not convert, and for classes that cannot be cast. Operands are evaluated in Java's
order, so that the same ones are skipped.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rmqcli.codec.selector.java_values import (
    java_boolean,
    java_double,
    java_integer,
    java_long,
    order_of_doubles,
)
from rmqcli.codec.selector.sql92_tree import (
    MIRRORED,
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
    kind_of,
    number_of,
)

Properties: TypeAlias = Mapping[str, str]
Evaluation: TypeAlias = Callable[[Properties], Any]
Order: TypeAlias = Callable[[Any, Any], int]

MISMATCH = -1
"""The result of Java's comparison of classes that cannot be converted into each other."""


def compile_tree(node: Node) -> Evaluation:
    return _COMPILERS[type(node)](node)


def _property(node: Property) -> Evaluation:
    name = node.name
    return lambda properties: properties.get(name)


def _constant(node: Constant) -> Evaluation:
    value = node.value
    return lambda _properties: value


def _negate(node: Negate) -> Evaluation:
    number = number_of(node)
    if number is not None:
        value = number.value
        return lambda _properties: value
    operand = compile_tree(node.operand)

    def evaluate(properties: Properties) -> None:
        # Evaluated only for its errors: a minus sign before anything but a number is null.
        operand(properties)

    return evaluate


def _truth(node: Truth) -> Evaluation:
    name = node.operand.name
    return lambda properties: None if properties.get(name) is None else False


def _not(node: Not) -> Evaluation:
    operand = compile_tree(node.operand)

    def evaluate(properties: Properties) -> bool | None:
        value = operand(properties)
        return None if value is None else not value

    return evaluate


def _all(node: And) -> Evaluation:
    return _chain(tuple(map(compile_tree, node.operands)), decisive=False)


def _any(node: Or) -> Evaluation:
    return _chain(tuple(map(compile_tree, node.operands)), decisive=True)


def _chain(operands: tuple[Evaluation, ...], *, decisive: bool) -> Evaluation:
    """Evaluate operands up to the first one that is `decisive`; without one, the result is unknown if any
    operand was.
    """
    otherwise = not decisive

    def evaluate(properties: Properties) -> bool | None:
        result: bool | None = otherwise
        for operand in operands:
            value = operand(properties)
            if value is decisive:
                return not otherwise
            if value is None:
                result = None
        return result

    return evaluate


def _is_null(node: IsNull) -> Evaluation:
    operand = compile_tree(node.operand)
    return lambda properties: operand(properties) is None


def _in(node: In) -> Evaluation:
    name, items, negated = node.name, node.items, node.negated

    def evaluate(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else bool(value in items) is not negated

    return evaluate


def _text_test(node: TextTest) -> Evaluation:
    operand, text, negated = compile_tree(node.operand), node.text, node.negated
    test = _TEXT_TESTS[node.test]

    def evaluate(properties: Properties) -> bool:
        if not text:
            return False
        value = operand(properties)
        return isinstance(value, str) and test(value, text) is not negated

    return evaluate


def _comparison(node: Comparison) -> Evaluation:
    fast = _property_and_constant(node.operator, node.left, node.right, missing=None)
    if fast is None:
        # With a constant on the left, a missing property is not equal rather than unknown.
        missing = False if node.operator is Operator.EQUAL else None
        fast = _property_and_constant(MIRRORED[node.operator], node.right, node.left, missing=missing)
    return fast or _values(node)


def _property_and_constant(
    how: Operator, left: Node, right: Node, *, missing: bool | None
) -> Evaluation | None:
    """Return the comparison of a property with a number or string; None for any other comparison."""
    if not isinstance(left, Property):
        return None
    name, compare = left.name, _COMPARE[how]
    if isinstance(right, Constant) and right.kind is Kind.STRING and how is Operator.EQUAL:
        text = right.value

        def same(properties: Properties) -> bool | None:
            value = properties.get(name)
            return missing if value is None else bool(value == text)

        return same
    number = number_of(right)
    if number is None:
        return None
    convert, constant = _CONVERT[number.kind], number.value

    def evaluate(properties: Properties) -> bool | None:
        value = properties.get(name)
        return missing if value is None else compare(convert(value), constant)

    return evaluate


def _values(node: Comparison) -> Evaluation:
    """Return the comparison of any two values."""
    left, right = compile_tree(node.left), compile_tree(node.right)
    compare = _COMPARE[node.operator]
    if node.operator is Operator.EQUAL:
        order = _order(kind_of(node.left), kind_of(node.right))

        def equal(properties: Properties) -> bool | None:
            one, other = left(properties), right(properties)
            if one is None:
                return True if other is None else None
            return other is not None and compare(order(one, other), 0)

        return equal
    order = _order_of_numbers(kind_of(node.left), kind_of(node.right))

    def evaluate(properties: Properties) -> bool | None:
        one = left(properties)
        if one is None:
            return None
        other = right(properties)
        return None if other is None else compare(order(one, other), 0)

    return evaluate


def _order_of_numbers(left: Kind, right: Kind) -> Order:
    """Return the comparison of values of two kinds, where two strings are compared as doubles."""
    if left is right is Kind.STRING:
        return _converted(java_double, java_double, order_of_doubles)
    return _order(left, right)


def _order(left: Kind, right: Kind) -> Order:
    """Return the comparison of values of two kinds, neither of them null."""
    return _ORDERS.get((left, right), _mismatch)


def _converted(left: Callable[[Any], Any], right: Callable[[Any], Any], order: Order) -> Order:
    return lambda one, other: order(left(one), right(other))


def _natural(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _mismatch(_one: Any, _other: Any) -> int:
    return MISMATCH


def _cannot_cast(_one: Any, _other: Any) -> int:
    raise ValueError("a truth value on the left of = cannot be compared with a string")


def _same(value: Any) -> Any:
    return value


def _finite_double(text: str) -> float:
    """Read the number in a string. A literal is finite, so NaN (the greatest value for Java) compares with it
    like infinity.
    """
    value = java_double(text)
    return math.inf if value != value else value  # noqa: PLR0124  the quickest test for NaN


_ORDERS: dict[tuple[Kind, Kind], Order] = {
    (Kind.INTEGER, Kind.INTEGER): _natural,
    (Kind.INTEGER, Kind.LONG): _natural,
    (Kind.LONG, Kind.INTEGER): _natural,
    (Kind.LONG, Kind.LONG): _natural,
    (Kind.STRING, Kind.STRING): _natural,
    (Kind.BOOLEAN, Kind.BOOLEAN): _natural,
    (Kind.DOUBLE, Kind.DOUBLE): order_of_doubles,
    (Kind.INTEGER, Kind.DOUBLE): _converted(float, _same, order_of_doubles),
    (Kind.LONG, Kind.DOUBLE): _converted(float, _same, order_of_doubles),
    (Kind.DOUBLE, Kind.INTEGER): _converted(_same, float, order_of_doubles),
    (Kind.DOUBLE, Kind.LONG): _converted(_same, float, order_of_doubles),
    (Kind.STRING, Kind.INTEGER): _converted(java_integer, _same, _natural),
    (Kind.STRING, Kind.LONG): _converted(java_long, _same, _natural),
    (Kind.STRING, Kind.DOUBLE): _converted(java_double, _same, order_of_doubles),
    (Kind.STRING, Kind.BOOLEAN): _converted(java_boolean, _same, _natural),
    (Kind.INTEGER, Kind.STRING): _converted(_same, java_integer, _natural),
    (Kind.LONG, Kind.STRING): _converted(_same, java_long, _natural),
    (Kind.DOUBLE, Kind.STRING): _converted(_same, java_double, order_of_doubles),
    (Kind.BOOLEAN, Kind.STRING): _cannot_cast,
}
"""The comparisons by the kinds of the left and right value; all others are a mismatch."""

_CONVERT: dict[Kind, Callable[[str], int | float]] = {
    Kind.INTEGER: java_integer,
    Kind.LONG: java_long,
    Kind.DOUBLE: _finite_double,
}
_COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: operator.eq,
    Operator.LESS: operator.lt,
    Operator.LESS_EQUAL: operator.le,
    Operator.GREATER: operator.gt,
    Operator.GREATER_EQUAL: operator.ge,
}
_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "contains": operator.contains,
    "startswith": str.startswith,
    "endswith": str.endswith,
}
_COMPILERS: dict[type[Any], Callable[[Any], Evaluation]] = {
    Property: _property,
    Constant: _constant,
    Negate: _negate,
    Truth: _truth,
    Not: _not,
    And: _all,
    Or: _any,
    IsNull: _is_null,
    In: _in,
    TextTest: _text_test,
    Comparison: _comparison,
}
