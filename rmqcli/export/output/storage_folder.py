"""The folder of an export in an object store or HDFS, and the choice between it and a local one.

Its content, names and plan are those of a local folder ([folder.py](folder.py)), but a store has neither
renames nor locks. A commit lets the store copy the files from the temporary folder to their final names,
which contain the run; the manifest, the removal of replaced files and `_SUCCESS` come after all of them.
Instead of a lock, a run writes its id as `writer.json`, and commits only while that is still there: the
export that was started last takes over, and the earlier one ends without adding anything.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

import msgspec

from rmqcli.export.errors import OutputExists, StorageError, StorageNotFound
from rmqcli.export.output import folder
from rmqcli.export.output.folder import (
    ANOTHER,
    JOURNAL,
    SUCCESS,
    TEMPORARY,
    Commit,
    ExportFiles,
    ExportFolder,
    refuse_content,
)
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.manifest import MANIFEST, Manifest, Origin, decode_json, encode_json, read_json
from rmqcli.export.output.manifest import books_of as local_books_of
from rmqcli.export.output.storage import UNFINISHED, Location, Storage, explained

WRITER = "writer.json"
COPIES = 8
"""The number of files that the store copies at the same time."""


class _Writer(msgspec.Struct, frozen=True):
    run: str


def open_folder(
    out: Location, origin: Origin | None, layout: Layout, *, resume: bool
) -> ExportFolder | StorageFolder:
    """Return the folder of an export. Raises OutputExists like `refuse_existing`, and LayoutError."""
    if isinstance(out, Storage):
        return StorageFolder(out, origin, layout, resume=resume)
    return ExportFolder(out, origin, layout, resume=resume)


def listed(out: Location) -> Manifest | None:
    """Return the manifest of the export in a folder; None if there is none."""
    if isinstance(out, Storage):
        return _listed(books_of(out))
    found: Manifest | None = read_json(local_books_of(out) / MANIFEST, Manifest)
    return found


def has_plan(out: Location) -> bool:
    """Return True if a commit was not carried out to its end."""
    if isinstance(out, Storage):
        return books_of(out).size(JOURNAL) >= 0
    return (local_books_of(out) / JOURNAL).exists()


def _listed(books: Storage) -> Manifest | None:
    content = books.read(MANIFEST)
    if content is None:
        return None
    found: Manifest = decode_json(content, Manifest, books / MANIFEST)
    return found


def refuse_existing(out: Location, *, resume: bool = False) -> None:
    """Raise OutputExists if a new or resumed export cannot use `out`."""
    if isinstance(out, Storage):
        _refuse_existing(out, resume=resume)
    else:
        folder.refuse_existing(out, resume=resume)


def books_of(out: Storage) -> Storage:
    return out.parent / f"_{out.name}.rmq"


def _refuse_existing(out: Storage, *, resume: bool) -> None:
    books = books_of(out)
    kept = set(books.names())
    if out.parent.size(out.name) >= 0:
        raise OutputExists(f"{out}: is an object; {ANOTHER}")
    refuse_content(out, books, kept, resume=resume, is_filled=bool(out.names()))


class StorageFolder(ExportFiles):
    """A context manager like `ExportFolder`."""

    def __init__(self, out: Storage, origin: Origin | None, layout: Layout, *, resume: bool = False) -> None:
        self._run = uuid.uuid4().hex
        self._books = books_of(out)
        self._temporary = f"{TEMPORARY}{self._run}"
        super().__init__(self._books / self._temporary, origin, layout, str(out))
        _refuse_existing(out, resume=resume)
        self._suffix = f"-{self._run}"
        self._out = out

    def __enter__(self) -> Self:
        try:
            self._books.write(WRITER, encode_json(_Writer(self._run)))
            self._recover()
        except BaseException:
            self._leave()
            raise
        return self

    def _recover(self) -> None:
        """Remove the files of a killed export, or complete its commit, and take over from one that still
        runs.
        """
        if (plan := self._books.read(JOURNAL)) is not None:
            self._carry_out(decode_json(plan, Commit, self._books / JOURNAL))
        for name in self._books.names():
            if name.startswith(TEMPORARY) or name.endswith(UNFINISHED):
                self._books.delete(name)
        if not self._out.names():  # the files of the export were removed
            self._books.delete(MANIFEST)
        self._resume_from(_listed(self._books))

    def _unfinished(self, name: str) -> str:
        return f"{self._temporary}/{name}"

    def _begin_commit(self, commit: Commit) -> None:
        if self._is_writer():
            self._books.write(JOURNAL, encode_json(commit))
            if self._carry_out(commit):
                return
        raise self._overtaken()

    def _overtaken(self) -> OutputExists:
        return OutputExists(
            f"{self._out}: another export was started there meanwhile; nothing was added by this one, "
            "so run only one at a time, with --resume"
        )

    def _is_writer(self) -> bool:
        content = self._books.read(WRITER)
        return content is not None and decode_json(content, _Writer, self._books / WRITER).run == self._run

    def _carry_out(self, commit: Commit) -> bool:
        """Carry out a plan, possibly again, and possibly at the same time as the run that made it.

        Return False, and forget the plan, if another export has added files unknown to it, or has removed its
        files.
        """
        if self._follows(commit):
            self._out.delete(SUCCESS)
            with ThreadPoolExecutor(COPIES, "copy") as threads:
                copied = all(list(threads.map(partial(self._copied, commit.sizes), commit.moves)))
                # Asked again: another export may have committed while the files were being copied.
                if copied and self._follows(commit):
                    self._books.write(MANIFEST, encode_json(commit.manifest))
                    list(threads.map(self._out.delete, commit.removed))
                    self._say_success()
                    self._books.delete(JOURNAL)
                    return True
        self._forget(commit)
        return False

    def _say_success(self) -> None:
        self._out.create(SUCCESS).close()

    def _follows(self, commit: Commit) -> bool:
        found = _listed(self._books)
        return found is None or {file.path for file in found.files} <= {*commit.sizes, *commit.removed}

    def _copied(self, sizes: Mapping[str, int], move: tuple[str, str]) -> bool:
        """Return True if the file of a move is under its final name, copied now or before."""
        before, after = move
        if self._out.size(after) != sizes[after]:
            with suppress(StorageNotFound):
                self._books.copy(before, self._out / after)
        return self._out.size(after) == sizes[after]

    def _forget(self, commit: Commit) -> None:
        found = _listed(self._books)
        kept = {file.path for file in found.files} if found else set()
        for _, name in commit.moves:
            if name not in kept:
                self._out.delete(name)
        self._books.delete(JOURNAL)
        if found:
            self._say_success()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._leave()
            return
        with suppress(StorageError):  # the error of the run is more informative
            if isinstance(error, StorageNotFound) and not self._is_writer():
                # The other one has removed the unfinished files of this one.
                error = self._overtaken()
            self._leave()
        # Raised in here: an error of pyarrow's streams then leaves as a StorageError that names the place.
        with explained(self._out):
            raise error

    def _leave(self) -> None:
        """Remove everything that this run has not committed, unless its commit will be completed."""
        is_writer = self._is_writer()
        if is_writer and self._books.read(JOURNAL) is not None:
            return
        self._books.delete(self._temporary)
        if is_writer:
            self._books.delete(WRITER)
