"""Names of store files: the offset of the first byte in 20 digits (Java `UtilAll.offset2FileName`).

Index files are named after the local time of their creation, to the millisecond: `yyyyMMddHHmmssSSS`. The
folder of a queue is named after its number, and is in the folder of its topic.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from functools import lru_cache

NAME_LENGTH = 20
INDEX_NAME_LENGTH = 17
MAX_OFFSET = 2**63 - 1
NAME_PATTERN = "[0-9]" * NAME_LENGTH
"""A glob pattern for the names of commit-log and consume-queue files."""
RECOVERED_FILES = 3
"""The number of last files of the log and of each queue that a start walks entry by entry (Java `CommitLog`,
`ConsumeQueue.recover`).
"""
LONGEST_FOLDER = 255
"""The maximum bytes of a folder's name. Topics that no broker accepts, and remains of damaged ones, may be
longer.
"""
MAX_QUEUE_ID = 2**31 - 1


@lru_cache(maxsize=4096)
def is_queue_folder(topic: str, queue_id: int) -> bool:
    """Return True if a queue can have a folder inside that of its topic; other names would lead elsewhere."""
    is_name = topic not in ("", ".", "..") and "/" not in topic and "\0" not in topic
    return is_name and len(topic.encode("utf-8", "replace")) <= LONGEST_FOLDER and queue_id >= 0


def is_queue_id(name: str) -> bool:
    """Return True if a name is that of a queue's folder."""
    is_number = name.isascii() and name.isdigit() and len(name) <= len(str(MAX_QUEUE_ID))
    return is_number and name == str(int(name)) and int(name) <= MAX_QUEUE_ID


def file_name(offset: int) -> str:
    """Return the name of the commit-log or consume-queue file that starts at a byte offset."""
    return f"{offset:020d}"


def is_file_name(name: str) -> bool:
    return len(name) == NAME_LENGTH and name.isascii() and name.isdigit() and int(name) <= MAX_OFFSET


def is_index_file_name(name: str) -> bool:
    return len(name) == INDEX_NAME_LENGTH and name.isascii() and name.isdigit()


def index_file_name(created_ms: int, tz: tzinfo | None = None) -> str:
    """Return the name of an index file created at a time (ms); `tz` None means the local zone."""
    created = datetime.fromtimestamp(created_ms // 1000, tz)
    return f"{created:%Y%m%d%H%M%S}{created_ms % 1000:03d}"


def index_file_name_after(last: str, wanted: str) -> str:
    """Return `wanted`, or the name after `last` if that is higher: names ascend even if a clock was set
    back.
    """
    return wanted if wanted > last else f"{int(last) + 1:0{INDEX_NAME_LENGTH}d}"
