"""Errors of exports."""

from __future__ import annotations


class ExportError(Exception):
    """The export cannot be made. The message names cause and remedy. Nothing partial is left under --out."""


class OutputExists(ExportError):
    """The output folder contains something that this export cannot continue; exports never mix."""


class ExportNotFound(ExportError):
    """A folder contains no export."""


class LayoutError(ExportError):
    """A column, partition or compression is unknown."""


class SourceError(ExportError):
    """A store folder cannot be read from here, or cannot be distinguished from another one."""


class MasterError(ExportError):
    """The address of a Spark master is invalid."""


class SchemaError(ExportError):
    """A schema of bodies cannot be used, or the format is unknown. Nothing was read."""


class RegistryError(ExportError):
    """The schema registry refused, or the address is not that of a registry."""


class RegistryDenied(RegistryError):
    """The credentials for the schema registry are missing, wrong or insufficient."""


class RegistryUnreachable(RegistryError):
    """The schema registry does not respond."""


class DecodeError(ExportError):
    """A body does not fit the schema, and the export must end at the first such body."""


class StorageError(ExportError):
    """An object store, or HDFS, refused. Nothing partial is under a final name."""


class StorageNotFound(StorageError):
    """A bucket or an object does not exist."""


class StorageDenied(StorageError):
    """The credentials of the environment are missing, wrong or insufficient."""


class StorageUnreachable(StorageError):
    """The object storage does not respond."""


class TableError(ExportError):
    """The table, its storage or its catalog refused. Nothing was added."""


class TableNotFound(TableError):
    """The table, or the bucket that would contain it, does not exist."""


class TableDenied(StorageDenied, TableError):
    """The storage of a table refused the credentials of the environment."""


class TableUnreachable(StorageUnreachable, TableError):
    """The storage of a table does not respond."""


class TableConflict(TableError):
    """Raised when concurrent writers keep winning the commit race."""


class TableMismatch(ExportError):
    """The table has other columns or partitions than the export, or its name is invalid."""


class MaskError(ExportError):
    """A mask is invalid, or does not fit its field. Nothing was read."""


class PackageError(ExportError):
    """The archive for executors cannot be made as requested."""
