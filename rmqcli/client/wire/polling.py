"""The choice between polling for a reply and sleeping until the system wakes the task.

Sleeping and waking can cost more than the whole reply of a broker on the same machine; on a busy processor,
polling only keeps the broker from running. So both ways are timed and the quicker one is used. A look is a
turn of trio's scheduler, in which all other tasks run, and it yields to other processes.
"""

from __future__ import annotations

import os

import trio

LOOKS = 32
LOOK_SECONDS = 150e-6  # the time of LOOKS on an idle processor
TRIAL = 9  # requests that are timed for each way; odd
FIRST_PERIOD = 32  # requests until the other way is tried; doubled each time it was not better
MAX_PERIOD = 1024
BETTER = 7 / 8  # the share of the median of the way in use that a better way must stay below


class Polling:
    """The choice for one connection with one request at a time. Times are on trio's clock.

    `left`: remaining looks for the current reply. Most requests of a trial must be quicker, so one pause of
    the system decides nothing.
    """

    def __init__(self) -> None:
        self.left = 0
        self._is_looking = False  # the way in use
        self._is_trial = False  # of the other way
        self._period = FIRST_PERIOD
        self._rest = FIRST_PERIOD
        self._times: list[float] = []
        self._limit = self._begun = 0.0
        self._votes = {True: 0, False: 0}

    def begin(self) -> None:
        self.left = LOOKS if self._is_looking is not self._is_trial else 0
        self._begun = trio.current_time()

    def in_vain(self) -> None:
        """Count a look without a result."""
        if self.left:
            os.sched_yield()
            in_time = trio.current_time() - self._begun < LOOK_SECONDS
            self.left = self.left - 1 if in_time else 0

    def end(self) -> None:
        if self._is_trial:
            self._vote(trio.current_time() - self._begun < self._limit)
            return
        self._rest -= 1
        if self._rest < TRIAL:
            self._times.append(trio.current_time() - self._begun)
            if not self._rest:
                self._limit = BETTER * sorted(self._times)[TRIAL // 2]
                self._is_trial = True

    def _vote(self, is_quicker: bool) -> None:
        votes = self._votes
        votes[is_quicker] += 1
        if votes[is_quicker] <= TRIAL // 2:
            return
        self._is_looking ^= is_quicker
        self._period = FIRST_PERIOD if is_quicker else min(2 * self._period, MAX_PERIOD)
        self._rest, self._is_trial = self._period, False
        self._times, self._votes = [], {True: 0, False: 0}
