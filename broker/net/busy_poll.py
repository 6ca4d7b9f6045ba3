"""Keeps the event loop awake while requests follow each other closely (busy polling).

To wake a thread that sleeps takes the kernel 30 to 80 µs on a virtual machine, whose idle core has halted. A
client that sends its next request once it has the reply would wait for that each time.

A read that came within the limit of the one before begins it, and the same time without a read ends it. A
loop that has something to do in each round does not sleep anyway, and is left alone. In both cases a pause
follows, a number of reads that begin nothing. It doubles each time that polling has found few.

Each look is a round of trio's loop, so all that may wake a task is seen. Between two looks the core is
offered to other threads, which may be those of the client. A process that has one core, or less by its quota,
does not poll. No process does while its worker threads run: each time that one needs the interpreter lock, a
thread that polls would keep it for 5 ms.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable

import trio

from broker.system import cores

BUSY_ROUNDS = 8
"""Rounds of the loop, each with a read, after which it needs no polling."""
SHORTEST_PAUSE = 2
LONGEST_PAUSE = 4096
"""Reads."""
LEAST_HITS = 8
"""Reads that polling has to find for the shortest pause."""


class BusyPoll:
    """Keeps the event loop awake. `limit_s` are the seconds of the rules above; 0 is never.

    `clock` are seconds; `give_way` lets other threads have the core; `workers` is the number of worker
    threads that run, by default those of trio.
    """

    def __init__(
        self,
        limit_s: Callable[[], float],
        *,
        clock: Callable[[], float] = time.perf_counter,
        give_way: Callable[[], object] = os.sched_yield,
        has_spare_core: Callable[[], bool] = lambda: cores() > 1,
        workers: Callable[[], int] | None = None,
    ) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._give_way = give_way
        self._has_spare_core = has_spare_core
        self._workers = workers
        self._reads = 0
        self._next_start: float = 0
        self._last_read = -math.inf
        self._wanted = trio.Event()

    def note_read(self) -> None:
        """Begin to poll if this read has come soon after the last one."""
        self._reads += 1
        if self._reads < self._next_start:
            return
        now = self._clock()
        if now - self._last_read < self._limit_s():
            self._next_start = math.inf
            self._wanted.set()
        self._last_read = now

    async def run(self) -> None:
        """Run the service."""
        workers = self._workers or _workers_of_trio()
        pause = SHORTEST_PAUSE
        while True:
            self._wanted = trio.Event()
            await self._wanted.wait()
            hits = await self._poll(workers) if self._has_spare_core() else 0
            if hits >= LEAST_HITS:
                pause = SHORTEST_PAUSE
            self._next_start = self._reads + pause
            self._last_read = -math.inf
            if not workers():
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _poll(self, workers: Callable[[], int]) -> int:
        """Poll until it is in vain or needless, or a worker runs. Returns the number of reads that a loop
        asleep would have had to be woken for."""
        seen, busy, hits = self._reads, 0, 0
        ends = self._clock() + self._limit_s()
        while busy < BUSY_ROUNDS and not workers():
            if not busy:
                self._give_way()
            await trio.lowlevel.checkpoint()
            if self._reads == seen:
                if self._clock() >= ends:
                    break
                busy = 0
            else:
                hits += not busy
                seen, busy = self._reads, busy + 1
                ends = self._clock() + self._limit_s()
        return hits


def _workers_of_trio() -> Callable[[], int]:
    limiter = trio.to_thread.current_default_thread_limiter()
    return lambda: limiter.borrowed_tokens
