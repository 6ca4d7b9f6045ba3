"""A rolling queue of equally long segments, named by their start offset (Java `MappedFileQueue`).

Loading: other names are ignored; an empty last file (created, never sized) is removed; a short last file is extended
with zeros and left to recovery; any other length is refused with the file, the size and the setting.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path

from broker.store.errors import StoreDamaged, StoreSizeMismatch
from broker.store.files import remove_empty_folder
from broker.store.segment import Segment
from codec.store.file_names import file_name, is_file_name

__all__ = ["SegmentList", "adopted_size"]

_log = logging.getLogger(__name__)


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if is_file_name(path.name))


def adopted_size(folder: Path) -> int | None:
    """The segment size that the files of a folder tell: by the first two names, else by the only file; None if empty."""
    files = _files(folder)
    if len(files) > 1:
        return int(files[1].name) - int(files[0].name)
    return (files[0].stat().st_size or None) if files else None


class SegmentList:
    """Segments in order of their start; `size` is the length of each."""

    __slots__ = ("folder", "segments", "setting", "size")

    def __init__(self, folder: Path, size: int, setting: str) -> None:
        self.folder = folder
        self.size = size
        self.setting = setting
        self.segments: list[Segment] = []

    def load(self) -> None:
        """Maps what lies in the folder. StoreSizeMismatch, StoreDamaged (a file between two others is missing)."""
        files = _files(self.folder)
        while files and files[-1].stat().st_size == 0:
            files.pop().unlink()
        for path in files:
            self._check_length(path, last=path is files[-1])
        starts = [int(path.name) for path in files]
        for previous, start in pairwise(starts):
            if start != previous + self.size:
                raise StoreDamaged(
                    f"{self.folder}: {file_name(previous + self.size)} is missing before {file_name(start)}; "
                    f"restore it, or move the files before it away (their content is lost then)"
                )
        self.segments = [Segment(path, start, self.size) for path, start in zip(files, starts, strict=True)]

    def _check_length(self, path: Path, *, last: bool) -> None:
        length = path.stat().st_size
        if length == self.size:
            return
        if last and length < self.size:
            _log.warning(
                "%s is %d bytes short of %d; recovery decides what of it is valid",
                path,
                self.size - length,
                self.size,
            )
            return
        raise StoreSizeMismatch(
            f"{path} is {length} bytes long, but {self.setting} is {self.size}: "
            f"set {self.setting}={length}, or use another folder"
        )

    @property
    def start(self) -> int:
        """Offset of the first byte; 0 if there is no segment."""
        return self.segments[0].start if self.segments else 0

    def find(self, offset: int) -> Segment | None:
        """The segment that holds the byte at `offset`."""
        segments = self.segments
        if not segments:
            return None
        index = (offset - segments[0].start) // self.size
        return segments[index] if 0 <= index < len(segments) else None

    def create(self, start: int) -> Segment:
        """Adds the segment that begins at `start`, which follows the last one. OSError if the disk refuses."""
        segment = self.build(start)
        self.segments.append(segment)
        return segment

    def build(self, start: int) -> Segment:
        """Creates the file without adding it; safe in a worker thread."""
        if not self.segments:
            self.folder.mkdir(parents=True, exist_ok=True)
        return Segment(self.folder / file_name(start), start, self.size)

    def cut(self, end: int) -> None:
        """Removes segments that begin after `end` and zeroes the bytes from `end` on."""
        while self.segments and self.segments[-1].start > end:
            self.segments.pop().destroy()
        for segment in self.segments[-2:]:
            segment.clear_from(max(end - segment.start, 0))

    def drop_first(self) -> None:
        self.segments.pop(0).destroy()

    def between(self, start: int, end: int) -> list[Segment]:
        """Segments that hold any byte of [start, end)."""
        return [segment for segment in self.segments if segment.start < end and segment.end > start]

    def close(self) -> None:
        for segment in self.segments:
            segment.close()
        self.segments = []

    def destroy(self) -> None:
        """Removes every file, and the folder if that leaves it empty."""
        for segment in self.segments:
            segment.destroy()
        self.segments = []
        remove_empty_folder(self.folder)
