"""A disk in memory that can lose power, be slow, and forget its page cache.

    disk = SimulatedDisk(seed=7)
    async with open_store(config, disk=disk, …) as store: …
    after = disk.power_cut()        # what a machine finds when it starts again

A power cut keeps everything synced, and a random part of the rest, which the kind of file system limits
(`rmqcli.broker.testing.power_cut.Journal`): single 4 KiB pages, lengths of files, and creations, renames and
removals. If a folder is lost, so is its content. The seed determines everything. A sync that `on_call` fails
with EIO drops the pages it should have written, as Linux does: a later sync succeeds without them.

Files are sparse. A page of zeros is a hole unless it has a block and is in the page cache: `forget_pages` and
`make_sparse` turn pages into holes, as the kernel, `fallocate` and `cp` do. Timestamps are those of `now_ms`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rmqcli.broker.disk import PAGE, FileState, MappedFile, Usage
from rmqcli.broker.disk.table_file import DurableFolders
from rmqcli.broker.errors import StoreLocked
from rmqcli.broker.system import NowMs, system_now_ms
from rmqcli.broker.testing.disk_file import CHANGES_SEEN, File, copied, without_dropped
from rmqcli.broker.testing.power_cut import FOLDER, Changes, Journal, apply, survivors

CAPACITY = 1 << 40
"""Default capacity of a disk in bytes."""


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
        """Do nothing: the page cache keeps the pages."""

    def populate_pages(self, position: int, length: int) -> bool:
        self._disk.call("populate")
        _ = self.view[position]  # raises ValueError if closed
        return True

    def reserve(self, position: int, length: int) -> None:
        self._disk.call("reserve")
        self._disk.allocate(self._file, self._pages(position, length))

    def load_pages(self, position: int, length: int) -> None:
        self._disk.call("load")
        self._file.cold.difference_update(self._pages(position, length))

    def read_ahead(self, is_on: bool) -> None:
        """Do nothing: nothing is read ahead."""

    def clear_from(self, position: int) -> bool:
        self._disk.call("clear")
        if not any(self.view[position:]):
            return False
        self.view[position:] = bytes(len(self.view) - position)
        self._file.see()
        self._file.blocks = {number for number in self._file.blocks if number * PAGE < position}
        return True

    def rewrite(self, position: int, length: int) -> None:
        self._disk.call("rewrite")
        for number in self._pages(position, length):
            self._file.dropped.pop(number, None)

    def close(self) -> None:
        self.view.release()


class SimulatedDisk(DurableFolders):
    """Files in memory; see `Disk`, and the module for power cuts.

    `capacity` is in bytes. Without `loses_power`, only the data that a running broker needs is kept:
    recording synced content costs time for large files. `on_call` is called with the name of each operation
    that would block, and may raise OSError or take time.
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
        self._changes = Changes()
        self._locks: set[Path] = set()
        self.on_call = on_call
        self.call_seconds = 0.0
        """Time that each call takes in an in-memory cluster, on trio's clock."""
        self.calls: Counter[str] = Counter()
        self.calls_in_loop: Counter[str] = Counter()
        """Calls made outside of `worker` blocks: a real disk would have stopped the event loop."""
        self._in_worker: Counter[str] | None = None
        self.used = 0
        """Bytes that other programs use."""

    def call(self, name: str) -> None:
        """Count a blocking operation."""
        self.calls[name] += 1
        (self.calls_in_loop if self._in_worker is None else self._in_worker)[name] += 1
        if self.on_call is not None:
            self.on_call(name)

    @property
    def _free(self) -> int:
        return self._capacity - self.used - PAGE * sum(len(file.blocks) for file in self._files.values())

    def allocate(self, file: File, pages: Iterable[int]) -> None:
        """Allocate blocks for pages of a file. Raises OSError (ENOSPC) if there are not enough."""
        wanted = file.blocks.union(pages)
        if self._capacity < CAPACITY and self._free < PAGE * len(wanted - file.blocks):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file.blocks = wanted

    def unreserved_pages(self) -> dict[Path, list[int]]:
        """Return the pages that were written through mappings but never reserved.

        On a full disk, such a write kills the process.
        """
        return {path: pages for path, file in self._files.items() if (pages := file.unreserved())}

    @contextlib.contextmanager
    def worker(self) -> Iterator[Counter[str]]:
        """Treat the block as a worker thread, and yield the counter of its calls."""
        before, self._in_worker = self._in_worker, Counter()
        try:
            yield self._in_worker
        finally:
            self._in_worker = before

    # --- the interface

    def open_mapped(
        self, path: Path, size: int, *, may_create: bool = True, read_around: bool = True
    ) -> MappedFile:
        self.call("open")
        file = self._create(path) if may_create else self._file(path)
        found = len(file.buffer)
        if found != size or isinstance(file.buffer, bytes):
            file.resize(size)
        file.see()
        return _Mapped(self, file, found)

    def _file(self, path: Path) -> File:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self._files[path]

    def data_ranges(self, path: Path, position: int, size: int) -> Iterator[tuple[int, int]]:
        begin = end = position
        for number in self._file(path).data_pages(position, size):
            if number * PAGE > end:
                if end > begin:
                    yield begin, end
                begin = number * PAGE
            end = min((number + 1) * PAGE, size)
        if end > begin:
            yield begin, end

    def read(self, path: Path) -> bytes:
        self.call("read")
        return self._file(path).content()

    def read_part(self, path: Path, position: int, length: int) -> bytes:
        self.call("read")
        return bytes(memoryview(self._file(path).buffer)[position : position + length])

    def write(self, path: Path, content: bytes, mode: int | None = None) -> None:
        self.call("write")
        file = self._create(path)
        self.allocate(file, range(-(-len(content) // PAGE)))
        file.buffer, file.dropped = content, {}
        file.see()
        file.modified_ms = self._now_ms()

    def state(self, path: Path) -> FileState | None:
        self.call("state")
        if path in self._folders:
            return FileState(0, 0, True)
        file = self._files.get(path)
        if file is None:
            return None
        self._note_change(file)
        return FileState(len(file.buffer), file.modified_ms, False)

    def _note_change(self, file: File, *, is_synced: bool = False) -> None:
        if file.see() or (is_synced and len(file.buffer) > CHANGES_SEEN):
            file.modified_ms = self._now_ms()

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
        self._changes.add(path.parent, {path: FOLDER})
        return True

    def replace(self, source: Path, target: Path) -> None:
        self.call("replace")
        if source not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        self._files[target] = self._files.pop(source)
        self._changes.add(source.parent, {source: None, target: self._files[target]})

    def unlink(self, path: Path) -> None:
        self.call("unlink")
        if self._files.pop(path, None) is not None:
            self._changes.add(path.parent, {path: None})

    def remove_empty_folder(self, path: Path) -> None:
        self.call("remove_folder")
        if path in self._folders and not self.list(path):
            self._folders.discard(path)
            self._changes.add(path.parent, {path: None})

    def file_sync(self) -> None:
        """Return None: both ways to sync would do the same."""

    def sync_file(self, path: Path) -> None:
        file = self._files.get(path)
        try:
            self.call("sync_file")
        except OSError as error:
            if file is not None and error.errno == errno.EIO:
                file.drop()
            raise
        if file is None:
            return
        if self._loses_power:
            file.durable = without_dropped(file) if file.dropped else file.content()
        self._note_change(file, is_synced=True)

    def sync_folder(self, path: Path) -> None:
        self.call("sync_folder")
        for change in self._changes.pop(path):
            apply(change, self._durable)

    def usage(self, path: Path) -> Usage:
        self.call("usage")
        return Usage(self._capacity, self._capacity - self._free, self._free)

    @contextlib.contextmanager
    def lock(self, path: Path, folders: Sequence[Path]) -> Iterator[None]:
        held = {path, *folders}
        for one in held & self._locks:
            raise StoreLocked.of(one, "this process")
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

    # --- events of a disk

    def set_modified(self, path: Path, modified_ms: int) -> None:
        """Set the modification time of a file. Raises KeyError."""
        file = self._files[path]
        file.see()
        file.modified_ms = modified_ms

    def forget_pages(self) -> None:
        """Empty the page cache, so that the next reads need the disk."""
        for file in self._files.values():
            file.cold.update(range(-(-len(file.buffer) // PAGE)))

    def make_sparse(self) -> None:
        """Turn all pages of zeros into holes, as `cp --sparse=always` does in a copy."""
        for file in self._files.values():
            file.make_sparse()

    def cold_pages(self, path: Path) -> frozenset[int]:
        """Return the numbers of the pages of a file that are not in the page cache. Raises KeyError."""
        return frozenset(self._files[path].cold)

    def killed(self) -> SimulatedDisk:
        """Return the disk as the next process finds it after a kill of this one: with every write, without
        locks."""
        after = SimulatedDisk(
            self._seed, now_ms=self._now_ms, loses_power=self._loses_power, capacity=self._capacity
        )
        after._rng, after._boot, after.used = self._rng, self._boot, self.used
        self._note_changes()
        after._folders = set(self._folders)
        copies: dict[File | None, File | None] = {None: None, FOLDER: FOLDER}
        for file in [*self._files.values(), *self._durable.values(), *self._changes.files()]:
            if file not in copies:
                copies[file] = copied(file.content(), file, file.durable, keeps_dropped=True)
        for path, file in self._files.items():
            after._files[path] = copies[file]  # type: ignore[assignment]
        for path, file in self._durable.items():
            after._durable[path] = copies[file]  # type: ignore[assignment]
        after._changes = self._changes.renamed(copies)
        return after

    def power_cut(self, journal: Journal = Journal.NONE) -> SimulatedDisk:
        """Return the disk as it would be after a power cut now. This one is unchanged."""
        rng = self._rng
        self._note_changes()
        kept = survivors(self._durable, self._changes, journal, rng)
        after = SimulatedDisk(rng.getrandbits(32), now_ms=self._now_ms, capacity=self._capacity)
        after._boot, after.used = self._boot + 1, self.used
        for path, file, content in kept:  # a folder precedes its contents
            if path.parent not in after._folders:
                continue
            if file is FOLDER:
                after._folders.add(path)
                continue
            after._files[path] = copied(content, file, content)
        after._durable = after._files | dict.fromkeys(after._folders, FOLDER)
        return after

    def _note_changes(self) -> None:
        """Set the modification times of written files, before the disk is copied."""
        for file in self._files.values():
            self._note_change(file)

    def contents(self) -> dict[Path, bytes]:
        """Return the content of every file, as programs read it."""
        return {path: file.content() for path, file in self._files.items()}

    def synced(self) -> dict[Path, bytes]:
        """Return the content that survives any power cut: the synced content of files whose names are
        durable."""
        folders = {Path("/")}
        found = {}
        for path, file in sorted(self._durable.items()):
            if path.parent in folders and file is FOLDER:
                folders.add(path)
            elif path.parent in folders:
                found[path] = file.durable
        return found

    def _create(self, path: Path) -> File:
        if path in self._folders:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if path.parent not in self._folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = File(self._now_ms())
            self._changes.add(path.parent, {path: file})
        return file
