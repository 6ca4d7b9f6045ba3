"""The messages that the members of a group handled, in order.

All members append to one file: one line is one write, so the order of the lines is the order of the handling
across processes, and a killed process leaves a whole line or none.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, NamedTuple

from tests.support import PATIENCE

__all__ = ["Handled", "Journal", "wait_for_work", "wait_until"]

LOOK_AGAIN = 0.05


class Handled(NamedTuple):
    """One message, handled once by one member."""

    member: str
    body: str
    queue_id: int


def wait_until(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    """Raises AssertionError with `what` when the condition does not hold in time.

    The limit includes the 60 s for which a broker keeps the locks of a dead member.
    """
    deadline = time.monotonic() + 3 * PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what()}"
        time.sleep(LOOK_AGAIN)


class Journal:
    """The file, read while it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._rest = b""
        self._handled: list[Handled] = []
        self.troubles: list[str] = []
        """Errors that clients reported, such as a lost connection."""
        path.touch()

    def writer(self) -> IO[bytes]:
        """Opens the file for the standard output of a member."""
        return self._path.open("ab")

    @property
    def handled(self) -> list[Handled]:
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "error" in said:
                self.troubles.append(said["error"])
            elif "body" in said:
                self._handled.append(Handled(said["member"], said["body"], said["queueId"]))
        return self._handled

    @property
    def bodies(self) -> set[str]:
        return {one.body for one in self.handled}

    @property
    def shares(self) -> Counter[str]:
        """The number of messages that each member handled."""
        return Counter(one.member for one in self.handled)

    @property
    def last_owners(self) -> dict[int, str]:
        """The member that handled the last message of each queue."""
        return {one.queue_id: one.member for one in self.handled}

    def summary(self, expected: int) -> str:
        handled, distinct = self.handled, len(self.bodies)
        shares = ", ".join(f"{member} {count}" for member, count in sorted(self.shares.items()))
        return f"{expected} sent, {distinct} distinct handled, {len(handled) - distinct} handled again ({shares})"


def wait_for_work(journal: Journal, members: Iterable[str], each: int) -> None:
    """Waits until every member has handled `each` messages."""

    def working() -> bool:
        shares = journal.shares
        return all(shares[member] >= each for member in members)

    wait_until(working, lambda: f"handled so far: {journal.shares}")
