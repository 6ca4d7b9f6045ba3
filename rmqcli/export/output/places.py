"""The place of an export's files while they are written: a folder, or a storage that offers streams."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

UNFINISHED = ".tmp"
"""Ends the names of files on a disk until a commit renames them: `**/*.parquet` does not find them."""


class Place(Protocol):
    """A place for new files. Picklable: worker processes write to it, too."""

    @property
    def shown(self) -> str:
        """The name of the place in messages."""

    def create(self, name: str) -> Any:
        """Open a stream that writes a new file; `name` is relative and may have folders."""


class LocalPlace(NamedTuple):
    """A folder of an export or a table. It is not created: it is gone when an attempt outlives its export."""

    folder: Path
    shown: str = ""

    def create(self, name: str) -> Any:
        from pyarrow.fs import LocalFileSystem

        for parent in reversed(Path(name).parents[:-1]):
            (self.folder / parent).mkdir(exist_ok=True)
        return LocalFileSystem().open_output_stream(str(self.unfinished(name)))

    def unfinished(self, name: str) -> Path:
        return self.folder / f"{name}{UNFINISHED}"

    def open(self, name: str) -> Any:
        """Open an unfinished file for reading."""
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem().open_input_file(str(self.unfinished(name)))

    def size(self, name: str) -> int:
        return self.unfinished(name).stat().st_size

    def finish(self, name: str) -> None:
        self.unfinished(name).rename(self.folder / name)

    def drop(self, prefix: str) -> None:
        drop_files(self.folder, prefix)


def drop_files(place: Path, prefix: str) -> None:
    """Remove files below a folder whose names start with `prefix`, and folders that are empty then, also the
    folder itself.
    """
    for path in list(place.rglob(f"{prefix}*")):
        path.unlink(missing_ok=True)
        for folder in path.relative_to(place).parents:
            with suppress(OSError):
                (place / folder).rmdir()
    with suppress(OSError):
        place.rmdir()
