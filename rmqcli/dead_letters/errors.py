"""Errors of work with dead letters; each is one line with the remedy."""

from __future__ import annotations


class DeadLetterError(Exception):
    """Base of these errors."""


class NoDeadLetters(DeadLetterError):
    """The group has no dead-letter topic."""


class NotReadable(DeadLetterError):
    """The dead-letter topic has no read permission."""


class JournalError(DeadLetterError):
    """The progress file is of something else, or in use."""
