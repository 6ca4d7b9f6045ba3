"""The error of every grammar."""

from __future__ import annotations


class GrammarError(ValueError):
    """A text does not follow its grammar. The message quotes the text and says what is expected."""
