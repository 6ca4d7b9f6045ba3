"""A disk in memory that can lose power, be slow in parts and forget its page cache.

    disk = SimulatedDisk(seed=7)
    async with open_store(config, disk=disk, …) as store: …
    after = disk.power_cut()        # what a machine finds when it starts again

A power cut keeps what was synced, and of the rest a random part: single 4 KiB pages, lengths of files, and
creations, renames and removals, each or not, whatever their order. A folder that is not kept takes with it
what was in it. The seed decides. A sync that `on_call`
fails with EIO drops the pages it should have written, as Linux does: a later sync succeeds without them.
Files are sparse; time stamps are those of `now_ms`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from broker.clock import NowMs, system_now_ms
from broker.disk import PAGE, FileState, MappedFile, Usage
from broker.disk.folders import DurableFolders
from broker.disk.lock import locked
from broker.testing.disk_file import CHANGES_SEEN, File, copied, survived, without_dropped

CAPACITY = 1 << 40
"""Bytes of a disk for which none is given."""
ODDS = (0.0, 0.1, 0.5, 0.9, 1.0)
"""The odds that an unsynced page or operation survives; each power cut draws one for pages and one for
operations."""


class _Mapped:
    """A mapping of a simulated file."""

    def __init__(self, disk: SimulatedDisk, file: File, found_size: int) -> None:
        self._disk = disk
        self._file = file
        self.found_size = found_size
        self.view = memoryview(file.buffer)

    def _pages(self, position: int, length: int) -> range:
        return range(position // PAGE, -(-(position + length) // PAGE))

    def is_resident(self, position: int, length: int) -> bool:
        return self._file.cold.isdisjoint(self._pages(position, length)) if self._file.cold else True

    def release_pages(self, position: int, length: int) -> None:
        """The page cache keeps them."""

    def populate_pages(self, position: int, length: int) -> bool:
        self._disk.call("populate")
        _ = self.view[position]  # ValueError once closed
        return True

    def reserve(self, position: int, length: int) -> None:
        self._disk.call("reserve")
        self._disk.allocate(self._file, self._pages(position, length))

    def load_pages(self, position: int, length: int) -> None:
        self._disk.call("load")
        self._file.cold.difference_update(self._pages(position, length))

    def data_ranges(self, position: int) -> Iterator[tuple[int, int]]:
        length = len(self.view) - position
        if self.view[position:].tobytes() != bytes(length):
            yield position, position + length

    def clear_from(self, position: int) -> bool:
        self._disk.call("clear")
        if not any(self.data_ranges(position)):
            return False
        self.view[position:] = bytes(len(self.view) - position)
        self._file.see()
        self._file.blocks = {number for number in self._file.blocks if number * PAGE < position}
        return True

    def close(self) -> None:
        self.view.release()


_FOLDER = File(0)
"""Stands for a folder among the names that are durable, or change."""

_Change = dict[Path, File | None]
"""Names that an operation gave a file, or None to; one operation is done as a whole or not at all."""


class SimulatedDisk(DurableFolders):
    """Files in memory; see `Disk`, and the module for power cuts.

    `capacity` is in bytes. `loses_power` False records no more than a running broker needs: synced content is not kept then, which
    costs time for large files. `on_call` is called with the name of each operation that would block, and may
    raise OSError or take time.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        now_ms: NowMs = system_now_ms,
        loses_power: bool = True,
        capacity: int = CAPACITY,
        on_call: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__()
        self._rng = random.Random(seed)
        self._seed = seed
        self._now_ms = now_ms
        self._loses_power = loses_power
        self._capacity = capacity
        self._boot = 1
        self._files: dict[Path, File] = {}
        self._folders = {Path("/")}
        self._durable: dict[Path, File] = {}
        self._changes: dict[Path, list[_Change]] = {}
        self._locks: set[Path] = set()
        self.on_call = on_call
        self.call_seconds = 0.0
        """The time that each call takes in a cluster in memory, on trio's clock."""
        self.calls: Counter[str] = Counter()
        self.calls_in_loop: Counter[str] = Counter()
        """Calls made outside of `worker` blocks: a real disk would have stopped the event loop."""
        self._in_worker: Counter[str] | None = None
        self.used = 0
        """Bytes that other programs use."""

    def call(self, name: str) -> None:
        """Counts a blocking operation."""
        self.calls[name] += 1
        (self.calls_in_loop if self._in_worker is None else self._in_worker)[name] += 1
        if self.on_call is not None:
            self.on_call(name)

    @property
    def _free(self) -> int:
        return self._capacity - self.used - PAGE * sum(len(file.blocks) for file in self._files.values())

    def allocate(self, file: File, pages: Iterable[int]) -> None:
        """Gives pages of a file their blocks. OSError (ENOSPC) if there are not enough."""
        wanted = file.blocks.union(pages)
        if self._capacity < CAPACITY and self._free < PAGE * len(wanted - file.blocks):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file.blocks = wanted

    def unreserved_pages(self) -> dict[Path, list[int]]:
        """The pages that were written through mappings and never reserved.

        On a full disk such a write ends the process.
        """
        return {path: pages for path, file in self._files.items() if (pages := file.unreserved())}

    @contextlib.contextmanager
    def worker(self) -> Iterator[Counter[str]]:
        """A block that stands for a worker thread; counts its calls."""
        before, self._in_worker = self._in_worker, Counter()
        try:
            yield self._in_worker
        finally:
            self._in_worker = before

    # --- the interface

    def open_mapped(self, path: Path, size: int) -> MappedFile:
        self.call("open")
        file = self._create(path)
        found = len(file.buffer)
        if found != size or isinstance(file.buffer, bytes):
            file.resize(size)
        file.see()
        return _Mapped(self, file, found)

    def read(self, path: Path) -> bytes:
        self.call("read")
        file = self._files.get(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return file.content()

    def write(self, path: Path, content: bytes) -> None:
        self.call("write")
        file = self._create(path)
        self.allocate(file, range(-(-len(content) // PAGE)))
        file.buffer = content
        file.see()
        file.modified_ms = self._now_ms()

    def state(self, path: Path) -> FileState | None:
        self.call("state")
        if path in self._folders:
            return FileState(0, 0, True)
        file = self._files.get(path)
        if file is None:
            return None
        if file.see():
            file.modified_ms = self._now_ms()
        return FileState(len(file.buffer), file.modified_ms, False)

    def list(self, folder: Path) -> list[Path]:
        self.call("list")
        return sorted({path for path in (*self._files, *self._folders) if path.parent == folder})

    def _has_folder(self, path: Path) -> bool:
        return path in self._folders

    def _create_folder(self, path: Path) -> bool:
        self.call("make_folder")
        if path in self._folders:
            return False
        self._folders.add(path)
        self._changes.setdefault(path.parent, []).append({path: _FOLDER})
        return True

    def replace(self, source: Path, target: Path) -> None:
        self.call("replace")
        if source not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        self._files[target] = self._files.pop(source)
        self._changes.setdefault(source.parent, []).append({source: None, target: self._files[target]})

    def unlink(self, path: Path) -> None:
        self.call("unlink")
        if self._files.pop(path, None) is not None:
            self._changes.setdefault(path.parent, []).append({path: None})

    def remove_empty_folder(self, path: Path) -> None:
        self.call("remove_folder")
        if path in self._folders and not self.list(path):
            self._folders.discard(path)
            self._changes.setdefault(path.parent, []).append({path: None})

    def sync_file(self, path: Path) -> None:
        file = self._files.get(path)
        try:
            self.call("sync_file")
        except OSError as error:
            if file is not None and error.errno == errno.EIO:
                file.dropped = file.content()
            raise
        if file is None:
            return
        if self._loses_power:
            file.durable = file.content() if not file.dropped else without_dropped(file)
        if len(file.buffer) > CHANGES_SEEN:
            file.modified_ms = self._now_ms()

    def sync_folder(self, path: Path) -> None:
        self.call("sync_folder")
        for change in self._changes.pop(path, ()):
            _apply(change, self._durable)

    def usage(self, path: Path) -> Usage:
        self.call("usage")
        return Usage(self._capacity, self._capacity - self._free, self._free)

    @contextlib.contextmanager
    def lock(self, path: Path, folders: Sequence[Path]) -> Iterator[None]:
        held = {path, *folders}
        for one in held & self._locks:
            raise locked(one, "this process")
        for folder in folders:
            self.make_folder(folder)
        self.write(path, b"lock")
        self._locks |= held
        try:
            yield
        finally:
            self._locks -= held

    def boot_id(self) -> bytes:
        return b"boot %d of %d" % (self._boot, self._seed)

    # --- what happens to a disk

    def set_modified(self, path: Path, modified_ms: int) -> None:
        """Sets the modification time of a file. KeyError."""
        file = self._files[path]
        file.see()
        file.modified_ms = modified_ms

    def forget_pages(self) -> None:
        """Empties the page cache: whatever is read next has to come from the disk."""
        for file in self._files.values():
            file.cold.update(range(-(-len(file.buffer) // PAGE)))

    def cold_pages(self, path: Path) -> frozenset[int]:
        """The numbers of the pages of a file that are not in the page cache. KeyError."""
        return frozenset(self._files[path].cold)

    def killed(self) -> SimulatedDisk:
        """The disk as the next process finds it after this one died: every write is there, no lock is."""
        after = SimulatedDisk(
            self._seed, now_ms=self._now_ms, loses_power=self._loses_power, capacity=self._capacity
        )
        after._rng, after._boot = self._rng, self._boot
        after._folders = set(self._folders)
        copies: dict[File | None, File | None] = {None: None, _FOLDER: _FOLDER}
        for file in [*self._files.values(), *self._durable.values(), *self._changed_files()]:
            if file not in copies:
                copies[file] = copied(file.content(), file, file.durable)
        for path, file in self._files.items():
            after._files[path] = copies[file]  # type: ignore[assignment]
        for path, file in self._durable.items():
            after._durable[path] = copies[file]  # type: ignore[assignment]
        after._changes = {
            folder: [{path: copies[file] for path, file in change.items()} for change in changes]
            for folder, changes in self._changes.items()
        }
        return after

    def _changed_files(self) -> Iterator[File]:
        for changes in self._changes.values():
            for change in changes:
                yield from (file for file in change.values() if file is not None)

    def power_cut(self) -> SimulatedDisk:
        """The disk as it is after power was lost now. This one stays as it is."""
        rng = self._rng
        page_odds, operation_odds = rng.choice(ODDS), rng.choice(ODDS)
        names = dict(self._durable)
        for changes in self._changes.values():
            for change in changes:
                if rng.random() < operation_odds:
                    _apply(change, names)
        after = SimulatedDisk(rng.getrandbits(32), now_ms=self._now_ms, capacity=self._capacity)
        after._boot = self._boot + 1
        for path, file in sorted(names.items()):  # a folder precedes what is in it
            if path.parent not in after._folders:
                continue
            if file is _FOLDER:
                after._folders.add(path)
                continue
            content = survived(file, rng, page_odds)
            after._files[path] = copied(content, file, content)
        after._durable = after._files | dict.fromkeys(after._folders, _FOLDER)
        return after

    def _create(self, path: Path) -> File:
        if path in self._folders:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if path.parent not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = File(self._now_ms())
            self._changes.setdefault(path.parent, []).append({path: file})
        return file


def _apply(change: _Change, names: dict[Path, File]) -> None:
    for path, file in change.items():
        if file is None:
            names.pop(path, None)
        else:
            names[path] = file
