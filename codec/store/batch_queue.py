"""Batch consume queue files of 5.x: one unit of 46 bytes for each record (Java class `BatchConsumeQueue`).

A record with an inner batch has as many queue offsets as messages: the first is in its unit, so the place of
a unit in the file says nothing. `compacted_offset` is -1, as nothing sets it.
"""

from __future__ import annotations

import construct
from construct import Int16sb, Int32sb, Int64sb

from codec.layout import fused

UNIT = fused(
    construct.Struct(
        "commit_log_offset" / Int64sb,
        "size" / Int32sb,
        "tags_code" / Int64sb,
        "store_timestamp" / Int64sb,
        "base_offset" / Int64sb,
        "batch_size" / Int16sb,
        "compacted_offset" / Int32sb,
        "reserved" / Int32sb,
    )
)
FILE_UNITS = 300_000
"""Units of one file by default."""
FOLDER = "batchconsumequeue"
QUEUE_TYPE, BATCH = "queue.type", "BatchCQ"
"""The attribute of a topic, and its value, that make its queues batch consume queues."""
