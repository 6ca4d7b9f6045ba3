"""Checks the data that a running copy writes, by reading it back from the files: `rmq mirror --verify`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from rmqcli.cli.exit_codes import CommandError, ExitCode

if TYPE_CHECKING:
    from rmqcli.broker.store import MessageStore
    from rmqcli.broker.store.readiness import InThread
    from rmqcli.store.verify.findings import Finding
    from rmqcli.store.verify.read_back import ReadBack

IDLE_SECONDS = 0.2
"""Seconds between two checks of a log that does not grow, or of damage before it is reported."""


class ReadingBack:
    """Checks what is written to `store` in `folder` from now on, in a worker thread that is idle half of the
    time.
    """

    def __init__(
        self, store: MessageStore, folder: Path, in_thread: InThread = trio.to_thread.run_sync
    ) -> None:
        self._store = store
        self._in_thread = in_thread
        self._folder = folder
        self._cuts = store.cuts
        self._back = None if self._is_empty else self._from(store.commit_log_max_offset)

    @property
    def verified(self) -> int:
        """The commit-log offset up to which everything written has been checked."""
        return self._store.commit_log_min_offset if self._back is None else self._back.verified

    async def run(self) -> None:
        """Check until cancelled. Raise CommandError for damage, and OSError."""
        while True:
            begin, before = time.monotonic(), self.verified
            finding = await self._check()
            if finding is not None:
                await trio.sleep(IDLE_SECONDS)  # a file may have been replaced while it was read
                finding = await self._check()
            if finding is not None:
                raise CommandError(f"{self._folder} is damaged: {finding}", ExitCode.CORRUPT)
            took = time.monotonic() - begin
            await trio.sleep(IDLE_SECONDS if self.verified == before else took)

    @property
    def _is_empty(self) -> bool:
        return self._store.commit_log_min_offset == self._store.commit_log_max_offset

    def _from(self, begin: int) -> ReadBack:
        from rmqcli.codec.store.delay_levels import DelayLevels
        from rmqcli.store.verify.read_back import ReadBack

        config = self._store.config
        return ReadBack(
            self._folder,
            begin,
            slots=self._store.index_size[0],
            file_size=self._store.commit_log_file_size,
            levels=DelayLevels(config.message_delay_level),
        )

    async def _check(self) -> Finding | None:
        """Check the next part, and return damage. A result found while the log was truncated is discarded,
        and checking continues from the new end.
        """
        if self._cuts != self._store.cuts:
            self._cuts, self._back = self._store.cuts, self._from(self._store.commit_log_max_offset)
        if self._back is None:
            if self._is_empty:
                return None
            self._back = self._from(self._store.commit_log_min_offset)
        finding = await self._in_thread(self._back.check, self._store.commit_log_max_offset)
        return finding if self._cuts == self._store.cuts else None
