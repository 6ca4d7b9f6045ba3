"""Findings of the checks of store files; each names the file and the byte."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from rmqcli.counts import many

MAX_FINDINGS = 1000
"""The maximum number of findings kept.

Further ones are only counted, so that a file of garbage takes bounded memory.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """Damage at byte `position` of `path`; `length` bytes cannot be read, None if unknown.

    With `only_properties`, a broker still reads the message and drops the pairs that do not parse. `is_last`:
    no whole record follows in the same log file.
    """

    path: Path
    position: int
    problem: str
    length: int | None = None
    only_properties: bool = False
    is_last: bool = False

    def __str__(self) -> str:
        lost = "" if self.length is None else f" ({many(self.length, 'byte')} unreadable)"
        return f"{self.path}: byte {self.position}: {self.problem}{lost}"


@dataclass(slots=True)
class Report:
    """A result: `items` sound records or entries in `files` files of `size` bytes; `used` are outside
    holes.
    """

    files: int = 0
    items: int = 0
    size: int = 0
    used: int = 0
    damaged: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        self.damaged += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)

    def take_last(self) -> Finding:
        """Remove and return the newest finding. Raises IndexError if none is kept."""
        self.damaged -= 1
        return self.findings.pop()

    def merge(self, other: Report) -> None:
        self.files += other.files
        self.items += other.items
        self.size += other.size
        self.used += other.used
        self.damaged += other.damaged
        self.findings += other.findings[: MAX_FINDINGS - len(self.findings)]

    @property
    def sound(self) -> bool:
        return not self.damaged


DAMAGE, NOTE = "damage", "note"


# Distinguishes damage from notes, by file, after a clean stop and after a kill.
#
# Damage is a fault that a start of the broker does not repair, or that affects readers. A note is a fact that
# a broker can handle. docs/inspect.md has the same table.


class Verdict(NamedTuple):
    """The verdict on a fact about a file, after a clean stop of the broker and after a kill."""

    file: str
    fact: str
    stopped: str = DAMAGE
    killed: str = DAMAGE


class Rule(Enum):
    """All facts that are judged. Single wrong bytes of records, entries and items are always damage."""

    LOG_LENGTH = Verdict("commitlog", "a file whose length differs from the others", NOTE, NOTE)
    TORN_END = Verdict("commitlog", "bytes after the last record to which no entry points", DAMAGE, NOTE)
    REPEATED = Verdict("commitlog", "a queue offset that occurs twice in a queue")
    NO_PLACE = Verdict("commitlog", "an impossible topic, queue id or queue offset")
    NO_QUEUES = Verdict("consumequeue", "no queue, but records", DAMAGE, NOTE)
    NO_QUEUE = Verdict(
        "consumequeue", "a queue of `topics.json` that is missing, but has records", DAMAGE, NOTE
    )
    ENTRIES_BEFORE = Verdict("consumequeue", "records before the first entry of their queue")
    ENTRIES_AFTER = Verdict("consumequeue", "records after the last entry of their queue", DAMAGE, NOTE)
    HOLE = Verdict("consumequeue", "a hole in entries that the next start writes again", DAMAGE, NOTE)
    BATCH_UNITS = Verdict("batchconsumequeue", "units that are missing or do not match their records")
    NO_INDEX = Verdict("index", "no file, but records with keys", NOTE, NOTE)
    ITEMS_BEFORE = Verdict("index", "records with keys before the first file, or between files")
    ITEMS_AFTER = Verdict("index", "records with keys after the last file", DAMAGE, NOTE)
    NO_CHECKPOINT = Verdict("checkpoint", "missing, but records", NOTE, NOTE)
    CHECKPOINT = Verdict("checkpoint", "a wrong size, or unreadable")
    SAFE_POINT = Verdict("checkpoint", "a safe point that does not match its CRC")
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
    TIMERS = Verdict("timerlog, timerwheel", "one without the other, unless the wheel is empty", NOTE, NOTE)

    def is_damage(self, *, crashed: bool) -> bool:
        return (self.value.killed if crashed else self.value.stopped) == DAMAGE
