"""The disk of this machine."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from broker.disk.folders import DurableFolders
from broker.disk.interface import FileState, FileSync, MappedFile, Usage
from broker.disk.kernel_sync import open_kernel_sync
from broker.disk.lock import hold_folder, hold_lock, is_same, unusable
from broker.disk.mapped import RealMappedFile, data_ranges, opened

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class RealDisk(DurableFolders):
    """The operating system's files; see `Disk`."""

    def open_mapped(
        self, path: Path, size: int, *, may_create: bool = True, read_around: bool = True
    ) -> MappedFile:
        return RealMappedFile(path, size, may_create=may_create, read_around=read_around)

    def data_ranges(self, path: Path, position: int, size: int) -> Iterator[tuple[int, int]]:
        return data_ranges(path, position, size)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def read_part(self, path: Path, position: int, length: int) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, length, position)
        finally:
            os.close(fd)

    def write(self, path: Path, content: bytes, mode: int | None = None) -> None:
        with opened(path, os.O_RDWR | os.O_CREAT) as fd:
            if mode is not None:
                os.fchmod(fd, mode)
            written = 0
            while written < len(content):
                written += os.pwrite(fd, content[written:], written)
            os.ftruncate(fd, len(content))

    def state(self, path: Path) -> FileState | None:
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_folder = path.is_dir()
        size, mode = 0 if is_folder else found.st_size, stat.S_IMODE(found.st_mode)
        return FileState(size, found.st_mtime_ns // 1_000_000, is_folder, mode)

    def list(self, folder: Path) -> list[Path]:
        try:
            return sorted(folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _has_folder(self, path: Path) -> bool:
        return path.is_dir()

    def _create_folder(self, path: Path) -> bool:
        is_new = not path.is_dir()
        path.mkdir(exist_ok=True)
        return is_new

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_empty_folder(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            path.rmdir()

    def sync_file(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError), opened(path, os.O_RDONLY) as fd:
            os.fdatasync(fd)  # on Linux this also writes pages dirtied through a shared mapping

    def file_sync(self) -> FileSync | None:
        return open_kernel_sync()

    def sync_folder(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError), opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
            os.fsync(fd)

    def usage(self, path: Path) -> Usage:
        for there in (path, *path.parents):
            with contextlib.suppress(FileNotFoundError):
                return Usage(*shutil.disk_usage(there))
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    @contextlib.contextmanager
    def lock(self, path: Path, folders: Sequence[Path]) -> Iterator[None]:
        with contextlib.ExitStack() as held:
            with unusable(path.parent):
                self.make_folder(path.parent)
            held.enter_context(hold_lock(path))
            for number, folder in enumerate(folders):
                with unusable(folder):
                    self.make_folder(folder)
                if not any(is_same(folder, other) for other in folders[:number]):
                    held.enter_context(hold_folder(folder))
            yield

    def boot_id(self) -> bytes:
        try:
            return BOOT_ID.read_bytes().strip()
        except OSError:
            return b""


REAL = RealDisk()
