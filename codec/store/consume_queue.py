"""Consume-queue files: one entry of 20 bytes for each message of a queue (Java class `ConsumeQueue`).

The queue offset of a message is the byte offset of its entry / 20. The tags code is the hash of the tag,
in the schedule topic the delivery time (ms); far below any hash it is the address of an extension entry.
An entry is in use when its offset is ≥ 0 and its size > 0. A queue that does not start at 0 begins with
FILLER entries.
"""

from __future__ import annotations

import construct
from construct import Int32sb, Int64sb

from codec.layout import fused

ENTRY = fused(construct.Struct("commit_log_offset" / Int64sb, "size" / Int32sb, "tags_code" / Int64sb))
ENTRY_SIZE = ENTRY.size
FILE_ENTRIES = 300_000
"""Entries of one file by default."""
FILLER_SIZE = 0x7FFFFFFF
FILLER = ENTRY.pack(0, FILLER_SIZE, 0)
