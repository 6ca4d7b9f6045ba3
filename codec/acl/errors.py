"""The error of this room."""

from __future__ import annotations


class AclError(ValueError):
    """A file of accounts, or a part of one, that cannot be used. Its text never holds a secret key."""
