"""Commits that conflict with other writers, or whose reply is lost."""

from __future__ import annotations

import time
from collections.abc import Callable

from rmqcli.export.errors import TableConflict, TableError
from rmqcli.export.tables.table import CommitConflict

COMMITS = 8
"""The number of commits that a run attempts, with growing pauses."""
FIRST_WAIT = 0.05  # seconds


def commit_patiently(
    shown: str,
    commit: Callable[[], None],
    is_there: Callable[[], bool],
    look_again: Callable[[], object] = lambda: None,
    lost: str = "nothing was added, so export again with --resume",
) -> None:
    """Commit, and repeat after `look_again` if another writer was faster. `lost` is the end of the
    message if all attempts fail.

    Raises TableConflict after COMMITS commits that conflicted with other writers.
    """
    for attempt in range(COMMITS):
        try:
            commit()
            return
        except CommitConflict:
            if is_there():
                return
            look_again()
        except TableError:
            if is_there():  # the reply was lost, not the commit
                return
            raise
        time.sleep(FIRST_WAIT * 2**attempt)
    raise TableConflict(f"{shown}: other writers were faster {COMMITS} times in a row; {lost}")
