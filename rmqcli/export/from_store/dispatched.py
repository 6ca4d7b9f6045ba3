"""The end of the commit log up to which the consume queues of a store are known to be complete.

A broker dispatches records in the order of the commit log, each to its queue and then to the index (Java
`DefaultMessageStore.dispatcherList`). So every record before the newest entry of any queue has its entry, and
so has every record before the last one that the index knows. For some topics their own queues and the index
tell enough: a store can have ten thousands of other queues.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from codec.errors import CorruptionError
from codec.store.index_file import HEADER, decode_header
from codec.store.record import scan_record
from rmqcli.export.from_store.queue_entries import UnsoundQueue, last_place
from rmqcli.store.read.commit_log import CommitLogFiles, LogViews, commit_log_folder
from rmqcli.store.read.consume_queue import Queue
from rmqcli.store.read.files import offset_files
from rmqcli.store.read.index import index_files
from rmqcli.store.read.peek import peeked


def newest_entry(queues: Sequence[Queue], store: Path) -> int:
    """Return the commit-log offset of the newest entry of these queues, 0 without any; UnsoundQueue if one
    points past the end of the log.
    """
    ends = [(last_place(queue), queue) for queue in queues]
    file = offset_files(commit_log_folder(store))[-1]
    for end, queue in ends:
        if end >= (file.base or 0) + file.size:
            raise UnsoundQueue(
                f"consume queue {queue.queue_id} of {queue.topic}: points past the end of the commit log"
            )
    return max((end for end, _ in ends), default=0)


def last_indexed(store: Path) -> int:
    """Return the commit-log offset of the last record that the index knows; 0 if it does not tell."""
    end = next((end for end in _ends(store) if end), 0)
    return end if _is_record(CommitLogFiles(store), end) else 0


def _ends(store: Path) -> Iterator[int]:
    """Yield the last commit-log offset of each index file that has items, the newest first."""
    try:
        files = index_files(store / "index")
    except (FileNotFoundError, NotADirectoryError):
        return
    for file in reversed(files):
        with peeked(file) as data:
            if len(data) >= HEADER.size:
                header = decode_header(data[: HEADER.size])
                yield header.end_phy_offset if header.index_count > 1 else 0


def _is_record(log: CommitLogFiles, offset: int) -> bool:
    """Return True if a whole record with the right CRC is there."""
    with LogViews(log.files) as views:
        try:
            place = views.place(offset)
            return place is not None and scan_record(*place, check_crc=True).physical_offset == offset
        except CorruptionError:
            return False
