"""Names of store files: the byte offset at which the file starts, in 20 digits (Java `UtilAll.offset2FileName`).

Index files are named by the local time of their creation instead, to the millisecond: `yyyyMMddHHmmssSSS`.
"""

from __future__ import annotations

from datetime import datetime, tzinfo

from codec.errors import CorruptionError

NAME_LENGTH = 20
INDEX_NAME_LENGTH = 17
MAX_OFFSET = 2**63 - 1
NAME_PATTERN = "[0-9]" * NAME_LENGTH
"""Glob pattern of commit log and consume queue file names."""


def file_name(offset: int) -> str:
    """Returns the name of the commit log or consume queue file that starts at a byte offset."""
    return f"{offset:020d}"


def is_file_name(name: str) -> bool:
    return len(name) == NAME_LENGTH and name.isascii() and name.isdigit() and int(name) <= MAX_OFFSET


def parse_file_name(name: str) -> int:
    """Returns the byte offset at which the file starts. Raises CorruptionError for any other name."""
    if not is_file_name(name):
        raise CorruptionError(f"not the name of a store file: {name[:64]!r}")
    return int(name)


def is_index_file_name(name: str) -> bool:
    return len(name) == INDEX_NAME_LENGTH and name.isascii() and name.isdigit()


def index_file_name(created_ms: int, tz: tzinfo | None = None) -> str:
    """Returns the name of an index file created at a moment (ms); `tz` None means the local zone."""
    created = datetime.fromtimestamp(created_ms // 1000, tz)
    return f"{created:%Y%m%d%H%M%S}{created_ms % 1000:03d}"


def index_file_name_after(last: str, wanted: str) -> str:
    """Returns `wanted`, else the name after `last`: names ascend even if a clock was set back."""
    return wanted if wanted > last else f"{int(last) + 1:0{INDEX_NAME_LENGTH}d}"


def parse_index_file_name(name: str, tz: tzinfo | None = None) -> int:
    """Returns when the index file was created, in ms. Raises CorruptionError for any other name."""
    if is_index_file_name(name):
        try:
            created = datetime.strptime(name[:-3], "%Y%m%d%H%M%S").replace(tzinfo=tz)
            return int(created.timestamp()) * 1000 + int(name[-3:])
        except (ValueError, OverflowError):
            pass
    raise CorruptionError(f"not the name of an index file: {name[:64]!r}")
