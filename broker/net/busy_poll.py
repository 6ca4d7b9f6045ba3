"""Busy polling, which keeps the event loop awake while requests follow each other closely.

On a virtual machine, whose idle core has halted, the kernel takes 30 to 80 µs to wake a sleeping thread. A
client that sends its next request when it has the reply would wait for that each time.

Polling begins when a read follows another one within the limit, and ends after the same time without a read.
It also ends if the loop has something to do in each round, because it does not sleep then anyway. In both
cases a pause follows: a number of reads that do not begin polling. It doubles each time that polling has
found few reads.

Each poll is a round of trio's loop, so any event that wakes a task is noticed. Between two polls, the core is
offered to other threads, which may be those of the client. A process with one core, or less because of its
quota, does not poll. Neither does a process while its worker threads run: each time that one needs the
interpreter lock, a polling thread would keep it for 5 ms.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import trio

from rmqcli.broker.system import give_way
from rmqcli.machine import cores

BUSY_ROUNDS = 8
"""Rounds of the loop in a row with a read in each, after which polling is unnecessary."""
SHORTEST_PAUSE = 2
LONGEST_PAUSE = 4096
"""Limits of a pause, in reads."""
LEAST_HITS = 8
"""The number of reads that polling must find for the shortest pause to follow."""


class BusyPoll:
    """Keeps the event loop awake. `limit_s` returns the limit described above, in seconds; 0 disables
    polling.

    `clock` returns seconds; `give_way` offers the core to other threads; `workers` returns the number of
    running worker threads, by default those of trio.
    """

    def __init__(
        self,
        limit_s: Callable[[], float],
        *,
        clock: Callable[[], float] = time.perf_counter,
        give_way: Callable[[], object] = give_way,
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
        """Begin to poll if this read came soon after the last one."""
        self._reads += 1
        if self._reads < self._next_start:
            return
        now = self._clock()
        if now - self._last_read < self._limit_s():
            # Not once more until `run` has set the next start.
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
        """Poll until it finds nothing, is unnecessary, or a worker runs. Return the number of reads for which
        a sleeping loop would have had to be woken."""
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
                # After a round with a read, the loop would not have slept: only the first one counts.
                hits += not busy
                seen, busy = self._reads, busy + 1
                ends = self._clock() + self._limit_s()
        return hits


def _workers_of_trio() -> Callable[[], int]:
    limiter = trio.to_thread.current_default_thread_limiter()
    return lambda: limiter.borrowed_tokens
