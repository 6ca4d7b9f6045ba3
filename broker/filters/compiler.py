"""Compilation of SQL92 expressions; long ones are compiled in a worker thread, because 64 KiB take more than
a second.

`slow` returns the expressions that would delay the event loop, and `prepare` compiles them in a thread, one
at a time; after that, `compiled` is quick. Errors are kept like predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import trio

from rmqcli.codec.errors import SelectorError
from rmqcli.codec.selector import Dialect, Predicate, parse_sql92

SQL92 = "SQL92"
LONG = 256
"""Maximum length of an expression that is compiled in the event loop; one of this length takes a few
milliseconds."""
KEPT = 64
"""Maximum number of long and invalid expressions that are cached; `parse_sql92` caches the others."""


class Compiler:
    """Compiles the expressions of one broker."""

    def __init__(self, dialect: Dialect, in_thread: Callable[..., Any] = trio.to_thread.run_sync) -> None:
        self._dialect = dialect
        self._in_thread = in_thread
        self._outcomes: dict[str, Predicate | SelectorError] = {}
        self._lock = trio.Lock()

    def compiled(self, expression: str, expression_type: str) -> Predicate:
        """Return the predicate. Raises SelectorError for an invalid expression, and for a type other than
        SQL92."""
        if expression_type != SQL92:
            raise SelectorError(f"no filter of type {expression_type!r}")
        outcome = self._outcomes.get(expression) or self._keep(
            expression, _outcome(expression, self._dialect)
        )
        if isinstance(outcome, SelectorError):
            raise SelectorError(str(outcome))
        return outcome

    def slow(self, expressions: Iterable[str | None]) -> list[str]:
        """Return the long expressions that are not compiled yet."""
        return [text for text in expressions if text and len(text) > LONG and text not in self._outcomes]

    async def prepare(self, expressions: Iterable[str]) -> None:
        """Compile long expressions in a worker thread, in the order in which they are requested."""
        async with self._lock:
            for text in self.slow(expressions):
                self._keep(text, await self._in_thread(_outcome, text, self._dialect))

    def _keep(self, expression: str, outcome: Predicate | SelectorError) -> Predicate | SelectorError:
        if len(expression) > LONG or isinstance(outcome, SelectorError):
            while len(self._outcomes) >= KEPT:
                del self._outcomes[next(iter(self._outcomes))]
            self._outcomes[expression] = outcome
        return outcome


def _outcome(expression: str, dialect: Dialect) -> Predicate | SelectorError:
    try:
        return parse_sql92(expression, dialect)
    except SelectorError as error:
        return error
