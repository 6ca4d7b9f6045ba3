"""The syntax tree of an SQL92 filter. `depth` is the height of the tree from a node down, including the node.

BETWEEN is not in it: Java turns it into two comparisons. A chain of AND or OR is one node, however long.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias


class Kind(enum.Enum):
    """The Java class of a value. A property is a STRING; NOTHING is always null."""

    INTEGER = "Integer"
    LONG = "Long"
    DOUBLE = "Double"
    STRING = "String"
    BOOLEAN = "Boolean"
    NOTHING = "null"


NUMBERS = frozenset({Kind.INTEGER, Kind.LONG, Kind.DOUBLE})


class Operator(enum.Enum):
    """The comparisons; `<>` is NOT of EQUAL."""

    EQUAL = "="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="


MIRRORED: Final = {
    Operator.EQUAL: Operator.EQUAL,
    Operator.LESS: Operator.GREATER,
    Operator.LESS_EQUAL: Operator.GREATER_EQUAL,
    Operator.GREATER: Operator.LESS,
    Operator.GREATER_EQUAL: Operator.LESS_EQUAL,
}
"""Each operator with its sides exchanged."""


@dataclass(frozen=True, slots=True)
class Property:
    """The value of a message property; null if the message does not have it."""

    name: str
    depth: int = field(default=1, init=False, compare=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal; `text` is its original text, for messages."""

    kind: Kind
    value: int | float | str | bool | None
    text: str = field(compare=False)
    depth: int = field(default=1, init=False, compare=False)


@dataclass(frozen=True, slots=True)
class Negate:
    """A minus sign; null unless the operand is a number."""

    operand: Node
    depth: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Truth:
    """A property in place of a truth value; never TRUE, as the value is a string."""

    operand: Property
    depth: int = field(default=2, init=False, compare=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: Operator
    left: Node
    right: Node
    depth: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Node
    depth: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class In:
    name: str
    items: frozenset[str]
    negated: bool
    depth: int = field(default=2, init=False, compare=False)


@dataclass(frozen=True, slots=True)
class TextTest:
    """One of CONTAINS, STARTSWITH and ENDSWITH of 5.x (`test` is in lower case); never null."""

    test: str
    operand: Node
    text: str
    negated: bool
    depth: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node
    depth: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Node, ...]
    depth: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Node, ...]
    depth: int = field(compare=False)


Node: TypeAlias = Property | Constant | Negate | Truth | Comparison | IsNull | In | TextTest | Not | And | Or


class Number(NamedTuple):
    kind: Kind
    value: int | float


def number_of(node: Node) -> Number | None:
    """Return the value of a constant number, with its minus signs applied; None for any other node."""
    sign = 1
    while isinstance(node, Negate):
        node = node.operand
        sign = -sign
    if isinstance(node, Constant) and node.kind in NUMBERS:
        assert isinstance(node.value, int | float)
        return Number(node.kind, sign * node.value)
    return None


def kind_of(node: Node) -> Kind:
    """Return the kind of a node's value, unless it is null."""
    if isinstance(node, Property):
        return Kind.STRING
    if isinstance(node, Constant):
        return node.kind
    if isinstance(node, Negate):
        number = number_of(node)
        return number.kind if number is not None else Kind.NOTHING
    return Kind.BOOLEAN


def with_long_integers(node: Node) -> Node:
    """Return the tree with every integer as a LONG, so that the values compared with it have 64 bits."""
    if isinstance(node, Constant):
        return replace(node, kind=Kind.LONG) if node.kind is Kind.INTEGER else node
    parts = {part.name: getattr(node, part.name) for part in fields(node)}
    below: dict[str, Any] = {
        name: with_long_integers(part) for name, part in parts.items() if isinstance(part, Node)
    }
    if isinstance(node, And | Or):
        below["operands"] = tuple(map(with_long_integers, node.operands))
    return replace(node, **below)


def property_names(node: Node) -> Iterator[str]:
    """Yield the names of the properties in a tree; one may occur several times."""
    below: list[object] = [node]
    while below:
        one = below.pop()
        if isinstance(one, Property):
            yield one.name
        elif isinstance(one, tuple):
            below.extend(one)
        elif is_dataclass(one):
            below.extend(getattr(one, part.name) for part in fields(one))
