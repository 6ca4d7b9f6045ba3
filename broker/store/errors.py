"""What can be wrong with a store folder. Every text names the file and the remedy."""

from __future__ import annotations

__all__ = ["StoreDamaged", "StoreError", "StoreLocked", "StoreSizeMismatch"]


class StoreError(Exception):
    """Base of every error that the store raises."""


class StoreLocked(StoreError):
    """Another broker (Java's or ours) holds the `lock` file of the folder."""


class StoreSizeMismatch(StoreError):
    """A file's length is not the configured one; Java refuses to load such a folder too."""


class StoreDamaged(StoreError):
    """Files are missing or unreadable in a way that recovery must not paper over."""
