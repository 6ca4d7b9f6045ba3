"""The error of files of accounts."""

from __future__ import annotations


class AclError(ValueError):
    """A file of accounts, or a part of one, cannot be used. The text never contains a secret key."""
