"""Consume-queue entries as columns. Needs NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rmqcli.codec.layout import Buffer
from rmqcli.codec.store.consume_queue import ENTRY, FILLER_SIZE

Array = np.ndarray[Any, np.dtype[Any]]


class EntryColumns(NamedTuple):
    """Columns of some entries, copied in native byte order. Entries of size 0 were never written."""

    sizes: Array
    offsets: Array
    tags_codes: Array

    @property
    def fillers(self) -> Array:
        mask: Array = (self.sizes == FILLER_SIZE) & (self.offsets == 0)
        return mask

    @property
    def used(self) -> Array:
        """A mask of the entries that are written and not fillers."""
        mask: Array = (self.sizes > 0) & ~self.fillers
        return mask


def entry_columns(data: Buffer, begin: int = 0, end: int | None = None) -> EntryColumns:
    """Read the entries [begin, end) of a file, by default up to the last whole one."""
    stop = len(data) // ENTRY.size if end is None else end
    raw = np.frombuffer(data, ENTRY.dtype(), stop - begin, begin * ENTRY.size)
    # Sizes are copied first: an entry that a broker writes meanwhile then counts as missing, not as one with
    # offset 0.
    sizes = raw["size"].astype(np.int32)
    return EntryColumns(sizes, raw["commit_log_offset"].astype(np.int64), raw["tags_code"].astype(np.int64))
