"""Sums of fingerprints: what a walk of the commit log says about queues and index, without a look at them.

The check of the log sums the entries and items that its records should have; those of queues and index sum
what they have, and compare one by one only where the sums differ.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from codec.errors import CorruptionError
from rmqcli.store.read.commit_log import CommitLogFiles
from rmqcli.store.read.files import mapped
from rmqcli.store.read.index import geometry_of, index_files
from rmqcli.store.read.vectorised import is_vectorised

if TYPE_CHECKING:
    from codec.scan.dispatch_sums import DispatchKey, RecordSums


class LogSums:
    """Sums of the sound records of a commit log: by file and queues, and by pieces of the log."""

    def __init__(self, key: DispatchKey, log: CommitLogFiles) -> None:
        import numpy as np

        from codec.scan.dispatch_sums import PIECE_BITS, SUMS_OF_QUEUES

        self.key = key
        self.bases = [file.base or 0 for file in log.files]
        last = log.files[-1]
        self.first_piece = self.bases[0] >> PIECE_BITS
        pieces = ((self.bases[-1] + last.size) >> PIECE_BITS) - self.first_piece + 1
        self.queues = np.zeros((len(self.bases), SUMS_OF_QUEUES), np.uint64)
        self.items = np.zeros(pieces, np.uint64)

    def add(self, file: int, sums: RecordSums) -> None:
        """Adds the sums of records of a file."""
        self.queues[file] += sums.queues
        begin = sums.first_piece - self.first_piece
        self.items[begin : begin + len(sums.items)] += sums.items


def sums_for(log: CommitLogFiles, index: Path, secret: int | None = None) -> LogSums | None:
    """Returns sums without records; None without NumPy, and for a log whose files do not follow each other.

    `secret` has 128 bits, by default random ones.
    """
    files = log.files
    if not is_vectorised() or not files or any(file.base is None for file in files):
        return None
    ends = [(file.base or 0) + file.size for file in files]
    if any((after.base or 0) < end for after, end in zip(files[1:], ends, strict=False)):
        return None
    from codec.scan.dispatch_sums import DispatchKey, IndexTimes
    from codec.scan.fingerprints import Fingerprints

    fingerprints = Fingerprints.of(secrets.randbits(128) if secret is None else secret)
    times = sorted(_times(index))
    key = DispatchKey(fingerprints, IndexTimes([end for end, _ in times], [since for _, since in times]))
    return LogSums(key, log)


def _times(folder: Path) -> Iterable[tuple[int, int]]:
    """Yields the commit-log offset of the last item, and the first time, of each index file with items."""
    with suppress(FileNotFoundError, NotADirectoryError):
        for file in index_files(folder):
            with mapped(file) as data, suppress(CorruptionError):
                header = geometry_of(file, data).header
                yield header.end_phy_offset, header.begin_timestamp
