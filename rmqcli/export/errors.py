"""What can keep an export from being made."""

from __future__ import annotations


class ExportError(Exception):
    """The export cannot be made as asked; the text names the thing and the remedy. Nothing half is left under --out."""


class OutputExists(ExportError):
    """There is something under --out already that this export cannot go on with: exports never mix."""


class LayoutError(ExportError):
    """A column, partition or compression that there is not."""


class MasterError(ExportError):
    """What was given as the address of a Spark master is none."""
