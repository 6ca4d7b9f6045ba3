"""SQL92 filters, which select messages by their properties (Java module `filter`).

They accept and refuse the same texts as 4.9.8, quirks included: text after a whole expression is ignored, NOT
binds tighter than a comparison, `0.0` and numbers with leading zeros are not literals. Values are strings,
and become numbers when compared with a constant number. A filter selects a message only if it is TRUE: not
FALSE, not unknown, and every value converts.

A filter has at most MAX_LENGTH characters and MAX_NESTING nested operators. The last CACHED filters stay
compiled.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from rmqcli.codec.errors import SelectorError

if TYPE_CHECKING:
    from rmqcli.codec.selector.sql92_tree import Node

MAX_LENGTH = 64 * 1024
CACHED = 100


class Dialect(enum.Enum):
    """The release whose keywords apply, or OWN. In 4.9, `s CONTAINS 'b'` is the property s followed by text
    that is ignored, so it is never TRUE.
    """

    V4_9 = "4.9"
    V5 = "5"
    OWN = "own"
    """Conditions that only rmq evaluates: as in 5.x, but the whole text must be an expression, and integers
    have 64 bits. A broker reads a value that is compared with a small integer as 32 bits, which offsets and
    times exceed.
    """


@dataclass(frozen=True, slots=True)
class Predicate:
    """A compiled filter."""

    text: str
    dialect: Dialect
    evaluate: Callable[[Mapping[str, str]], bool | None] = field(repr=False, compare=False)
    """The result for some properties: TRUE, FALSE or unknown (None). Raises ValueError if a value does not
    convert.
    """
    names: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """The names of the properties in the filter."""
    tree: Node | None = field(default=None, repr=False, compare=False)

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Return True if the filter selects a message with these properties."""
        try:
            return self.evaluate(properties) is True
        except ValueError:
            return False


@lru_cache(maxsize=CACHED)
def parse_sql92(text: str, dialect: Dialect = Dialect.V4_9) -> Predicate:
    """Compile a filter. Raises SelectorError, with one line, if the text is invalid."""
    # Most processes have no filter, and the modules of its trees take a twentieth of the imports of a broker.
    from rmqcli.codec.selector.sql92_compile import compile_tree
    from rmqcli.codec.selector.sql92_parser import parse_tree
    from rmqcli.codec.selector.sql92_scan import KEYWORDS_4, KEYWORDS_5
    from rmqcli.codec.selector.sql92_tree import property_names, with_long_integers

    if len(text) > MAX_LENGTH:
        raise SelectorError(f"the expression has {len(text)} characters; at most {MAX_LENGTH} can be")
    is_own = dialect is Dialect.OWN
    tree = parse_tree(text, KEYWORDS_4 if dialect is Dialect.V4_9 else KEYWORDS_5, whole=is_own)
    if is_own:
        tree = with_long_integers(tree)
    return Predicate(text, dialect, compile_tree(tree), frozenset(property_names(tree)), tree)
