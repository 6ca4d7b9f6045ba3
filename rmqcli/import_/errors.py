"""Errors of imports; each message is one line that names the file or row."""

from __future__ import annotations


class ImportFailed(Exception):
    """Base class. A row cannot be sent, or was not attempted."""


class InputNotFound(ImportFailed):
    """There is no file to import."""


class InputError(ImportFailed):
    """A file, column or row is not of the expected type, or the progress file belongs to another import."""


class InputDamaged(ImportFailed):
    """A file to import cannot be read to its end."""
