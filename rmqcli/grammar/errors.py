"""The error of every grammar."""

from __future__ import annotations

from collections.abc import Collection


class GrammarError(ValueError):
    """A text does not follow its grammar. The message quotes the text and says what is expected."""


class UnknownName(GrammarError):
    """A name that is none of the `known` ones; `missing`: its kind and the name."""

    def __init__(self, message: str, kind: str, name: str, known: Collection[str]) -> None:
        super().__init__(message)
        self.missing = (kind, name)
        self.known = tuple(known)
