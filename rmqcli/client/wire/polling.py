"""Whether a task looks for its reply before it sleeps until the system wakes it.

To be put to sleep and woken can cost more than the whole answer of a broker on the same machine; where others want the
processor, looking only keeps the broker from it. So both ways are tried and the quicker one is kept. A look is a turn of
trio's scheduler, in which all other tasks go on, and it gives way to other processes.
"""

from __future__ import annotations

import os

import trio

LOOKS = 32
LOOK_SECONDS = 150e-6  # as long as that many take where nobody else wants the processor
TRIAL = 9  # requests that are timed for each way; odd
FIRST_PERIOD = 32  # requests until the other way is tried; twice as many each time it was no better
MAX_PERIOD = 1024
BETTER = 7 / 8
"""Of the median of the way in use: what takes more is not worth a change."""


class Polling:
    """For one connection, whose requests come one by one. `left`: looks for the reply that is awaited now.

    Times are on trio's clock. One pause of the system in a trial decides nothing: most of its requests must be quicker.
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
        """A request is on its way."""
        self.left = LOOKS if self._is_looking is not self._is_trial else 0
        self._begun = trio.current_time()

    def in_vain(self) -> None:
        """Nothing had come yet."""
        if self.left:
            os.sched_yield()
            in_time = trio.current_time() - self._begun < LOOK_SECONDS
            self.left = self.left - 1 if in_time else 0

    def end(self) -> None:
        """The reply is there."""
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
