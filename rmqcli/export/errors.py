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


class SchemaError(ExportError):
    """A schema of bodies that cannot be used, or an unknown format; nothing was read."""


class DecodeError(ExportError):
    """A body that does not fit the schema, when that is to end the export."""


class TableError(ExportError):
    """The table, its storage or its catalog refuses; nothing was added."""


class TableConflict(TableError):
    """Other writers of the table were faster, again and again."""


class TableMismatch(ExportError):
    """The table has other columns or partitions than the export, or its name is not one."""


class MaskError(ExportError):
    """A mask that is not one, or does not fit its field; nothing was read."""


class PackageError(ExportError):
    """The archive for executors cannot be made as asked for."""
