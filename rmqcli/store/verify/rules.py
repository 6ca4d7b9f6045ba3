"""Tells damage from notes, by file, after a clean stop and after a kill.

Damage is what a start of the broker does not repair, or what a reader runs into. A note is a fact that a
broker deals with. docs/inspect.md has the same table.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

DAMAGE, NOTE = "damage", "note"


class Verdict(NamedTuple):
    """The verdict on a fact about a file, by the last stop of the broker."""

    file: str
    fact: str
    stopped: str = DAMAGE
    killed: str = DAMAGE


class Rule(Enum):
    """All facts that are judged; single bytes of records, entries and items that are wrong are damage."""

    LOG_LENGTH = Verdict("commitlog", "a file of another length than the others", NOTE, NOTE)
    TORN_END = Verdict("commitlog", "bytes behind the last record to which no entry leads", DAMAGE, NOTE)
    REPEATED = Verdict("commitlog", "a queue offset that a queue has twice")
    NO_PLACE = Verdict("commitlog", "a topic, queue id or queue offset that cannot be")
    NO_QUEUES = Verdict("consumequeue", "no queue, but records", DAMAGE, NOTE)
    NO_QUEUE = Verdict(
        "consumequeue", "a queue of `topics.json` that is missing, but has records", DAMAGE, NOTE
    )
    ENTRIES_BEFORE = Verdict("consumequeue", "records before the first entry of their queue")
    ENTRIES_AFTER = Verdict("consumequeue", "records after the last entry of their queue", DAMAGE, NOTE)
    HOLE = Verdict("consumequeue", "a hole in what the next start writes again", DAMAGE, NOTE)
    BATCH_UNITS = Verdict("batchconsumequeue", "units missing or unlike their records")
    NO_INDEX = Verdict("index", "no file, but records with keys", NOTE, NOTE)
    ITEMS_BEFORE = Verdict("index", "records with keys before the first file, or between files")
    ITEMS_AFTER = Verdict("index", "records with keys after the last file", DAMAGE, NOTE)
    NO_CHECKPOINT = Verdict("checkpoint", "missing, but records", NOTE, NOTE)
    CHECKPOINT = Verdict("checkpoint", "of another size, or unreadable")
    SAFE_POINT = Verdict("checkpoint", "a safe point that does not fit its CRC")
    CHECKPOINT_TIMES = Verdict("checkpoint", "a time that no record or index file has", NOTE, NOTE)
    CHECKPOINT_OFFSETS = Verdict("checkpoint", "an offset of 5.x that is not in the log", NOTE, NOTE)
    CHECKPOINT_REST = Verdict("checkpoint", "bytes where nothing is written", NOTE, NOTE)
    FROM_BACKUP = Verdict("config", "a table that is missing or empty, with a sound `.bak`", NOTE, NOTE)
    UNREADABLE = Verdict(
        "config",
        "a table or `.bak` that cannot be read; an empty one without a sound `.bak`, if there are records",
    )
    EMPTY_TABLE = Verdict(
        "config",
        "an empty table without a sound `.bak`, if there are no records, or of filters",
        NOTE,
        NOTE,
    )
    NO_TOPICS = Verdict("config", "no `topics.json` and no `.bak`, but records")
    NO_CONFIG = Verdict("config", "no folder, but records", NOTE, NOTE)
    TIMERS = Verdict("timerlog, timerwheel", "one without the other, unless the wheel is empty")

    def is_damage(self, *, crashed: bool) -> bool:
        return (self.value.killed if crashed else self.value.stopped) == DAMAGE
