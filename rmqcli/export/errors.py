"""Errors of exports."""

from __future__ import annotations


class ExportError(Exception):
    """The export cannot be made; the message names cause and remedy. Nothing partial is left under --out."""


class OutputExists(ExportError):
    """The output folder holds something that this export cannot continue: exports never mix."""


class LayoutError(ExportError):
    """An unknown column, partition or compression."""


class SourceError(ExportError):
    """A store folder that cannot be read from here, or cannot be told apart from another one."""


class MasterError(ExportError):
    """The address of a Spark master is not one."""
