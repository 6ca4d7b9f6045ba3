"""Keeps the event loop awake while requests follow each other closely (busy polling).

To wake a thread that sleeps takes the kernel 30 to 80 µs on a virtual machine, whose idle core has halted. A
client that sends its next request once it has the reply would wait for that each time.

A read that came within the limit of the one before begins it, and the same time without a read ends it. A
loop that has something to do in each round does not sleep anyway, and is left alone. Polling in vain, and
polling a loop that is busy, is followed by a number of reads that begin nothing.

Each look is a round of trio's loop, so all that may wake a task is seen. Between two looks the core is
offered to other threads, which may be those of the client. A process that has one core, or less by its quota,
never polls.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable

import trio

from broker.cores import cores

BUSY_ROUNDS = 8
"""Rounds of the loop, each with a read, after which it needs no polling."""
READS_AFTER_BUSY = 128
READS_AFTER_VAIN = 8


class BusyPoll:
    """Keeps the event loop awake. `limit_s` are the seconds of the rules above; 0 is never.

    `clock` are seconds; `give_way` lets other threads have the core.
    """

    def __init__(
        self,
        limit_s: Callable[[], float],
        *,
        clock: Callable[[], float] = time.perf_counter,
        give_way: Callable[[], object] = os.sched_yield,
        has_spare_core: Callable[[], bool] = lambda: cores() > 1,
    ) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._give_way = give_way
        self._has_spare_core = has_spare_core
        self._reads = 0
        self._next_start: float = 0
        self._last_read = -math.inf
        self._wanted = trio.Event()

    def note_read(self) -> None:
        """Begins to poll if this read has come soon after the last one."""
        self._reads += 1
        if self._reads < self._next_start:
            return
        now = self._clock()
        if now - self._last_read < self._limit_s():
            self._next_start = math.inf
            self._wanted.set()
        self._last_read = now

    async def run(self) -> None:
        """The service."""
        if not self._has_spare_core():
            self._next_start = math.inf
            await trio.sleep_forever()
        while True:
            self._wanted = trio.Event()
            await self._wanted.wait()
            pause = await self._poll()
            self._next_start = self._reads + pause
            self._last_read = -math.inf

    async def _poll(self) -> int:
        """Polls until it is in vain or needless. Returns the number of reads before it may begin again."""
        limit, seen, busy = self._limit_s(), self._reads, 0
        ends = self._clock() + limit
        while busy < BUSY_ROUNDS:
            self._give_way()
            await trio.lowlevel.checkpoint()
            if self._reads != seen:
                seen, busy = self._reads, busy + 1
                ends = self._clock() + limit
            elif self._clock() < ends:
                busy = 0
            else:
                return READS_AFTER_VAIN
        return READS_AFTER_BUSY
