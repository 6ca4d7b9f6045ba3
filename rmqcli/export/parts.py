"""A store cut into parts that can be scanned apart: byte ranges of commit log files.

A part takes every record that starts inside its range. It does not know where the first of them is: it looks for the first
place from its begin on where a whole record lies whose CRC and commit-log offset are right, and walks on from there past its
end to the record that starts there. So no driver has to read the store to cut it, and no record is taken twice or missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from codec.errors import CorruptionError
from rmqcli.export.rows import RowFilter
from rmqcli.store.commit_log import CommitLog, next_record
from rmqcli.store.files import NamedFile, mapped

__all__ = ["Part", "parts_of", "scan_part"]


class Part(NamedTuple):
    """Records of `path` that start in [begin, end); `base` is the commit-log offset of the file's first byte."""

    path: str
    base: int | None
    size: int
    begin: int
    end: int


def parts_of(store: Path, part_size: int) -> list[Part]:
    """The commit log of a store folder (or a commit log folder or file) in ranges of about `part_size` bytes."""
    found: list[Part] = []
    for file in CommitLog(store).files:
        count = max(1, -(-file.size // part_size)) if file.base is not None else 1
        cuts = [file.size * n // count for n in range(count + 1)]
        pairs = pairwise(cuts)
        found += [Part(str(file.path), file.base, file.size, begin, end) for begin, end in pairs]
    return found


def scan_part(part: Part, rows: RowFilter) -> Iterator[Any]:
    """Record batches of the part's records. CorruptionError, naming file and byte, at damage inside the part."""
    from codec.scan.arrow import scan_batches

    file = NamedFile(Path(part.path), part.base, part.size)
    with mapped(file) as data:
        begin = _first_record(file, data, part)
        if begin is None:
            return
        try:
            for batch in scan_batches(data, begin, part.end):
                taken = rows.apply(batch)
                if taken.num_rows:
                    yield taken
        except CorruptionError as error:
            raise CorruptionError(f"{file.path}: byte {error.position}: {error}", error.position) from None


def _first_record(file: NamedFile, data: memoryview, part: Part) -> int | None:
    if part.begin == 0:
        return 0
    found = next_record(file, data[: part.end + _HEAD], part.begin)
    return None if found is None or found >= part.end else found


_HEAD = 1 << 23
"""A record that starts just before a part's end reaches behind it: at most the broker's largest message."""
