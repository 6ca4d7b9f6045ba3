"""The files of a broker: every access to a disk goes through a `Disk`.

There are two implementations: the operating system's (`REAL`) and a simulated one
(rmqcli.broker.testing.disk) that can lose power. All calls except those of `MappedFile` block and are meant
for worker threads. A missing file is reported as None or FileNotFoundError, any other refusal as OSError.

Durability: the content of a file is durable after `sync_file`; a creation, rename or removal after
`sync_folder` of its folder. Pages written through a mapping survive the death of the process without either.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, cast

from rmqcli.broker.disk.interface import PAGE, CannotSync, Disk, FileState, FileSync, MappedFile, Usage
from rmqcli.broker.disk.table_file import backup_of, load_table, save_table
from rmqcli.broker.errors import StoreError


class _NoDisk:
    """Replaces the disk on systems without POSIX, such as Windows. An in-memory cluster needs no disk."""

    def __getattr__(self, name: str) -> Any:
        raise StoreError("a store needs POSIX, such as Linux or macOS: choose a cluster in memory")


if find_spec("fcntl") is None:
    REAL = cast(Disk, _NoDisk())
else:
    from rmqcli.broker.disk.real import RealDisk

    REAL = RealDisk()

__all__ = [
    "PAGE",
    "REAL",
    "CannotSync",
    "Disk",
    "FileState",
    "FileSync",
    "MappedFile",
    "Usage",
    "backup_of",
    "load_table",
    "save_table",
]
