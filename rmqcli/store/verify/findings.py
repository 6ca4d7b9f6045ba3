"""Findings of the checks of store files; each names the file and the byte."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rmqcli.words import many

MAX_FINDINGS = 1000
"""Findings kept; more are only counted, so that a file of garbage costs bounded memory."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Damage at byte `position` of `path`; `length` bytes cannot be read, None if unknown.

    With `only_properties` a broker still reads the message and drops the pairs that do not parse.
    `is_last` says that no whole record follows in its log file.
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
    """A result: `items` sound records or entries in `files` files of `size` bytes, `used` without holes."""

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
        """Take the newest finding out. IndexError if none is kept."""
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
