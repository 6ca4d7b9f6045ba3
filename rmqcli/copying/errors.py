"""Errors of copies; each message is one line that names the object and, if there is one, the remedy."""

from __future__ import annotations


class CopyError(Exception):
    """Base class. A queue cannot be copied."""


class QueuesDiffer(CopyError):
    """The topics do not have the same number of queues."""


class ProgressError(CopyError):
    """The progress file belongs to another copy, is in use, or cannot be read."""
