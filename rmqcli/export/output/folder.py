"""The folder of an export, in which the files of a run appear complete and together, or not at all.

The folder contains only Parquet files and an empty `_SUCCESS`. Everything else is next to it, in the folder
of `books_of`: files are written below `temporary-…`, under names that are not those of Parquet files. A
commit first writes its plan (`commit.json`), then renames the files and writes the manifest; `_SUCCESS` comes
last. An export killed before the commit leaves only temporary files, one killed during it leaves the plan.
Resuming removes the former and completes the latter. A lock on the folder keeps two exports on this machine
apart.

A compaction commits in the same way: its plan also names the files that a new one replaces, which are removed
after the manifest that lists the new one is written.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import msgspec

from rmqcli.export.errors import ExportError, OutputExists
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.manifest import (
    MANIFEST,
    FileEntry,
    LastRow,
    Manifest,
    Origin,
    QueueSpan,
    books_of,
    read_json,
    write_json,
)
from rmqcli.files import sync_file, sync_folder
from rmqcli.store.read.files import naming_full_disk

UNFINISHED = ".tmp"
"""The suffix of files until a commit renames them, so that `**/*.parquet` does not find them."""


class Place(Protocol):
    """A location for new files. It can be pickled, since worker processes also write to it."""

    @property
    def shown(self) -> str:
        """The name of the location in messages."""

    def create(self, name: str) -> Any:
        """Open a stream that writes a new file. `name` is relative and may contain folders."""


class Unfinished(Place, Protocol):
    """A location whose files can be read before they are finished."""

    def open(self, name: str) -> Any: ...

    def size(self, name: str) -> int: ...


class LocalPlace(NamedTuple):
    """A folder of an export or a table.

    It is never created here: it is gone if an attempt outlives its export.
    """

    folder: Path
    shown: str = ""

    def create(self, name: str) -> Any:
        from pyarrow.fs import LocalFileSystem

        # Not `parents=True`, which would also create the folder of an export that is over.
        for parent in reversed(Path(name).parents[:-1]):
            (self.folder / parent).mkdir(exist_ok=True)
        return LocalFileSystem().open_output_stream(str(self.unfinished(name)))

    def unfinished(self, name: str) -> Path:
        return self.folder / f"{name}{UNFINISHED}"

    def open(self, name: str) -> Any:
        """Open a file for reading, finished or not."""
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem().open_input_file(str(self._there(name)))

    def _there(self, name: str) -> Path:
        return finished if (finished := self.folder / name).exists() else self.unfinished(name)

    def size(self, name: str) -> int:
        return self._there(name).stat().st_size

    def finish(self, name: str) -> None:
        """Give a file its final name, if it does not have it yet."""
        self._there(name).rename(self.folder / name)

    def drop(self, prefix: str) -> None:
        drop_files(self.folder, prefix)


def drop_files(place: Path, prefix: str) -> None:
    """Remove files below a folder whose names start with `prefix`, then empty folders, including itself."""
    for path in list(place.rglob(f"{prefix}*")):
        path.unlink(missing_ok=True)
        for folder in path.relative_to(place).parents:
            with suppress(OSError):
                (place / folder).rmdir()
    with suppress(OSError):
        place.rmdir()


SUCCESS = "_SUCCESS"
JOURNAL = "commit.json"
TEMPORARY = "temporary-"
ANOTHER = "name a new folder with --out"
_OF_STORES = ("consumequeue", "checkpoint", "lock", "abort")
"""Any of these names next to a commit log identifies a store folder."""


class Commit(msgspec.Struct, frozen=True):
    """The plan of a commit: (from, to) of files, relative to `books_of` and the export, then the manifest,
    then the files that the new ones replace.
    """

    moves: list[tuple[str, str]]
    manifest: Manifest
    removed: list[str] = []

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of each file after the commit."""
        return {file.path: file.bytes for file in self.manifest.files}


def refuse_existing(out: Path, *, resume: bool = False) -> None:
    """Raise OutputExists if a new or resumed export cannot use `out`, or if it is inside a store folder."""
    refuse_store(out)
    books = books_of(out)
    kept = {path.name for path in books.iterdir()} if books.is_dir() else set()
    if out.exists() and not out.is_dir():
        raise OutputExists(f"{out}: is a file; {ANOTHER}")
    refuse_content(
        out,
        books,
        kept,
        resume=resume,
        is_filled=out.is_dir() and any(out.iterdir()),
        remedy=f"move that folder here, too, or {ANOTHER}",
    )


def refuse_content(
    out: object, books: object, kept: set[str], *, resume: bool, is_filled: bool, remedy: str = ANOTHER
) -> None:
    """Raise OutputExists if the contents of a folder, and the names `kept` in its books, do not allow a new
    or a resumed export.
    """
    if is_filled:
        if not resume:
            raise OutputExists(f"{out}: exists and is not empty; {ANOTHER}")
        if kept.isdisjoint((MANIFEST, JOURNAL)):
            raise OutputExists(
                f"{out}: is not empty, and {books}/{MANIFEST} is missing, from which to resume; {remedy}"
            )
    elif kept - {MANIFEST} and not resume:
        raise OutputExists(
            f"{out}: {books} belongs to an export that is running or was killed; "
            f"remove it, continue with --resume, or {ANOTHER}"
        )
    elif kept == {MANIFEST} and resume:
        raise OutputExists(
            f"{out}: its files are gone, but {books} is there; remove it to export everything again, or {ANOTHER}"
        )


def refuse_store(out: Path) -> None:
    for folder in (out.resolve(), *out.resolve().parents):
        if (folder / "commitlog").is_dir() and any((folder / name).exists() for name in _OF_STORES):
            raise OutputExists(
                f"{out}: lies in the store folder {folder}; name a folder elsewhere with --out"
            )


class ExportFiles(ABC):
    """The files of a run of an export, wherever they are: measured, then committed with a plan.

    An origin of None is that of any export, whose files are only replaced.
    """

    def __init__(self, place: Unfinished, origin: Origin | None, layout: Layout, shown: str) -> None:
        layout.check()
        self.previous: Manifest | None = None
        self.place = place
        self.layout = layout
        self.shown = shown
        self.prefix = ""
        known = origin or Origin((), None)
        self._source = known.source
        self._base = Manifest.empty(known, layout)
        self._is_of_any = origin is None
        self._suffix = ""
        self._names: dict[str, str] = {}
        self._numbers: Counter[str] = Counter()

    def _resume_from(self, previous: Manifest | None) -> None:
        """Continue the export of a manifest. Raises OutputExists if this is another one."""
        self.previous = previous
        if previous is not None:
            if not self._is_of_any:
                previous.require_same(self._base, self.shown)
            # Not their count, because the number of a replaced file is never used again.
            for file in previous.files:
                folder, _, name = file.path.rpartition("/")
                self._numbers[folder] = max(self._numbers[folder], _number(name) + 1)

    def measure(self, names: Iterable[str]) -> list[FileEntry]:
        """Return manifest entries, with their final paths, of the temporary files of these names."""
        entries: list[FileEntry] = []
        for name in names:
            folder = name.rpartition("/")[0]
            path = f"{folder}/" * bool(folder) + f"part-{self._numbers[folder]:05d}{self._suffix}.parquet"
            self._numbers[folder] += 1
            with self.place.open(name) as file:
                entries.append(footer_entry(file, self.place.size(name), path)[0])
            self._names[path] = name
        return entries

    def commit(
        self,
        files: Sequence[FileEntry],
        reached: Sequence[QueueSpan] = (),
        ends: Mapping[str, int | None] = {},
    ) -> list[FileEntry]:
        """Add files and return those added; without rows, this is an empty one (unless in partitions).

        The next export of each store continues at its commit-log offset in `ends`.
        """
        added = list(files)
        if not added and self.previous is None and not self.layout.partition_by:
            added = self.measure([self._empty_file()])
        manifest = (self.previous or self._base).extended(added, list(reached), ends)
        moves = [(self._unfinished(self._names[file.path]), file.path) for file in added]
        self._begin_commit(Commit(moves, manifest))
        return added

    def replace(self, files: Sequence[FileEntry], name: str) -> FileEntry:
        """Replace these files of one folder with a temporary file that has the same rows."""
        assert self.previous is not None
        (entry,) = self.measure([name])
        if entry.rows != sum(file.rows for file in files):
            raise ExportError(f"{self.shown}: {files[0].path} and others have other rows than were exported")
        gone = {file.path for file in files}
        listed = [file for file in self.previous.files if file.path not in gone]
        # The rows of a queue stay in the order of the list.
        listed.insert(self.previous.files.index(files[0]), entry)
        manifest = msgspec.structs.replace(self.previous, files=listed)
        self._begin_commit(Commit([(self._unfinished(name), entry.path)], manifest, sorted(gone)))
        self.previous = manifest
        return entry

    def _empty_file(self) -> str:
        from pyarrow import parquet

        with self.place.create("empty.parquet") as file:
            parquet.write_table(self.layout.schema(self._source).empty_table(), file)
        return "empty.parquet"

    @abstractmethod
    def _unfinished(self, name: str) -> str:
        """Return the path of an unfinished file, relative to the books of the export."""

    @abstractmethod
    def _begin_commit(self, commit: Commit) -> None:
        """Write the plan and carry it out."""


class ExportFolder(ExportFiles):
    """A context manager: write files to `folder.temporary`, then call `folder.commit(folder.measure(names))`.

    `previous` is the manifest of the export that is resumed, or None for a new export.
    """

    def __init__(self, out: Path, origin: Origin | None, layout: Layout, *, resume: bool = False) -> None:
        """Raise OutputExists like `refuse_existing`, and LayoutError."""
        self._books = books_of(out)
        self.temporary = self._books / f"{TEMPORARY}{uuid.uuid4().hex}"
        self._local = LocalPlace(self.temporary, str(out))
        super().__init__(self._local, origin, layout, str(out))
        refuse_existing(out, resume=resume)
        self._out = out
        self._is_new = not out.exists()
        self._lock = -1

    def __enter__(self) -> Self:
        self._out.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self._out)
        try:
            self._recover()
            self.temporary.mkdir(parents=True)
            self._require_renames()
        except BaseException:
            self._leave()
            raise
        return self

    def _require_renames(self) -> None:
        """Try a rename like those of the commit, to fail early if the folder is mounted elsewhere.

        The file of the rename does not exist; between two mounts, the error is another one.
        """
        try:
            (self.temporary / "probe").rename(self._out / "probe")
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            raise OutputExists(
                f"{self._out}: is mounted, so files cannot be renamed into it; name a folder in it: "
                f"--out {self._out / 'messages'}"
            ) from None

    def _recover(self) -> None:
        """Remove the files of a killed export, or complete its commit."""
        if (journal := read_json(self._books / JOURNAL, Commit)) is not None:
            self._carry_out(journal)
        for left in self._books.glob(f"{TEMPORARY}*"):
            shutil.rmtree(left)
        for half in self._books.glob(".*.tmp"):  # left by `write_json`
            half.unlink()
        if not any(self._out.iterdir()):  # the files of the export were removed
            (self._books / MANIFEST).unlink(missing_ok=True)
        self._resume_from(read_json(self._books / MANIFEST, Manifest))
        if self.previous is not None:
            self.previous.require_whole(self._out)

    def _unfinished(self, name: str) -> str:
        return str(self._local.unfinished(name).relative_to(self._books))

    def _begin_commit(self, commit: Commit) -> None:
        if commit.removed:  # whose rows must outlive a power cut, too
            for before, _ in commit.moves:
                sync_file(self._books / before)
        write_json(self._books / JOURNAL, commit, durable=bool(commit.removed))
        self._carry_out(commit)

    def _carry_out(self, commit: Commit) -> None:
        """Carry out a plan, possibly again: a file that is no longer at its old path is at the new one."""
        # `_SUCCESS` is missing while the folder is incomplete; the journal goes last.
        (self._out / SUCCESS).unlink(missing_ok=True)
        for before, after in commit.moves:
            (self._out / after).parent.mkdir(parents=True, exist_ok=True)
            if (self._books / before).exists():
                (self._books / before).replace(self._out / after)
        if commit.removed:
            self._require_moved(commit)
        write_json(self._books / MANIFEST, commit.manifest, durable=bool(commit.removed))
        for name in commit.removed:
            (self._out / name).unlink(missing_ok=True)
        (self._out / SUCCESS).touch()
        (self._books / JOURNAL).unlink()

    def _require_moved(self, commit: Commit) -> None:
        """Raise ExportError unless the files that replace others are complete and durable."""
        for _, name in commit.moves:
            path = self._out / name
            if not path.exists() or path.stat().st_size != commit.sizes[name]:
                raise ExportError(
                    f"{path}: is missing or incomplete, but was to replace other files; "
                    f"remove it and {self._books / JOURNAL} to keep those"
                )
            sync_folder(path.parent)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        if error is not None:
            # Raised again here, so that the error of a full disk names the folder.
            with naming_full_disk(self._out):
                raise error

    def _leave(self) -> None:
        """Remove everything that this run has not committed, and the folders it created if they are empty."""
        try:
            if not (self._books / JOURNAL).exists():
                self._drop_temporary()
            if not any(self._books.glob("*")):
                with suppress(FileNotFoundError):
                    self._books.rmdir()
            if self._is_new and not any(self._out.iterdir()):
                self._out.rmdir()
        finally:
            os.close(self._lock)

    def _drop_temporary(self) -> None:
        """Remove the temporary folder.

        It is renamed first, so that late attempts of Spark tasks cannot create files there.
        """
        dropped = self.temporary.with_name(f"{self.temporary.name}-dropped")
        with suppress(OSError):
            self.temporary.rename(dropped)
        shutil.rmtree(dropped, ignore_errors=True)


def _number(name: str) -> int:
    found = re.match(r"part-(\d+)", name)
    return int(found[1]) if found else -1


def is_in_use(out: Path) -> bool:
    """Return True if an export on this machine is writing to the folder now."""
    try:
        os.close(_locked(out))
    except FileNotFoundError:
        return False
    except OutputExists:
        return True
    return False


def _locked(out: Path) -> int:
    descriptor = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise OutputExists(f"{out}: another export is writing there") from None
    except OSError:  # a file system without locks
        return descriptor
    return descriptor


def footer_entry(file: Any, size: int, path: str) -> tuple[FileEntry, Any]:
    """Return the entry, under the name `path`, of a Parquet file (a path or a stream), and its footer."""
    from pyarrow import parquet

    footer = parquet.read_metadata(file)
    said = footer.metadata or {}
    spans = msgspec.json.decode(said.get(b"rmq.offsets", b"[]"), type=list[QueueSpan])
    end = int(said.get(b"rmq.commit_log_end", b"0"))
    undecoded = int(said.get(b"rmq.undecoded", b"0"))
    last = msgspec.json.decode(said.get(b"rmq.last", b"[]"), type=list[LastRow])
    return FileEntry(path, footer.num_rows, size, spans, end, undecoded, last), footer


# The destination of a run of an export: files are written to its place, and then become visible together.
#
# An `ExportFolder` is one, and a run on a table of a lakehouse is another.


class Destination(Protocol):
    """The target of an export: write files to `place` with `layout`, then call `commit(measure(names))`."""

    @property
    def shown(self) -> str:
        """The name of the destination as given by the user."""

    @property
    def place(self) -> Place: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def previous(self) -> Manifest | None:
        """The content of the destination, or None if it is new."""

    @property
    def prefix(self) -> str:
        """The prefix of file names in the location."""

    def measure(self, names: Iterable[str]) -> list[FileEntry]:
        """Return entries of files in the location."""

    def commit(
        self,
        files: Sequence[FileEntry],
        reached: Sequence[QueueSpan] = ...,
        ends: Mapping[str, int | None] = ...,
    ) -> list[FileEntry]:
        """Make measured files and the ends of queues and stores visible together. Return what was added.

        `reached` are spans without rows, up to where queues were read. The next export of a store continues
        at its commit-log offset in `ends`, or, where that is None, at the end of each queue.
        """
