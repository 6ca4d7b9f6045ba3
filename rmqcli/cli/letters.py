"""The letters of options: one letter means one thing in every command.

An option with a name of this table has its letter, and no other option has a letter. `docs/contributing.md`
shows the table; a test compares both with the command tree.
"""

from __future__ import annotations

from collections.abc import Mapping

LETTERS: Mapping[str, str] = {
    "-n": "--namesrv",
    "-v": "--verbose",
    "-h": "--help",
    "-V": "--version",
    "-b": "--broker",
    "-g": "--group",
    "-T": "--topic",
    "-q": "--queue",
    "-k": "--key",
    "-t": "--tag",
    "-p": "--property",
    "-o": "--offset",
    "-f": "--format",
    "-y": "--yes",
    "-c": "--count",
    "-a": "--all",
    "-j": "--jobs",
}
