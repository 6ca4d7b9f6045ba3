"""The reader of a connection: a background task, or the task that waits for the only reply.

Waking a task for a reply that another task has read costs a round of the scheduler, as much as the rest of a
request. So a task whose request is the only one reads until its reply has arrived, then hands over to the
background task. It polls before it sleeps if that is quicker (`polling`). While requests follow one by one,
the background task reads again only after a pause of PAUSE seconds.

Only a DirectStream allows this, because its wait for bytes can be abandoned at any time. Any other trio
stream is read by the background task only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sized
from functools import partial

import trio

from rmqcli.client.wire.streams import READ_SIZE, DirectStream, Stream
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection

# The choice between polling for a reply and sleeping until the system wakes the task.
#
# Sleeping and waking can cost more than the whole reply of a broker on the same machine; on a busy processor,
# polling only keeps the broker from running. So both ways are timed and the quicker one is used. A poll is a
# turn of trio's scheduler, in which all other tasks run, and it yields to other processes.

LOOKS = 32
LOOK_SECONDS = 150e-6  # the time that LOOKS polls take on an idle processor
TRIAL = 9  # requests that are timed for each mode; odd, for a majority
FIRST_PERIOD = 32  # requests until the other mode is tried; doubled each time it was not better
MAX_PERIOD = 1024
_give_way: Callable[[], object] = getattr(
    os, "sched_yield", partial(time.sleep, 0)
)  # Windows lacks the first
BETTER = 7 / 8  # a better mode must stay below this share of the median time of the mode in use


class Polling:
    """Chooses between polling and sleeping, for a connection with one request at a time.

    Times are on trio's clock.

    `left`: remaining polls for the current reply. Most requests of a trial must be quicker, so that a single
    pause of the system decides nothing.
    """

    def __init__(self) -> None:
        self.left = 0
        self._is_looking = False  # the mode in use
        self._is_trial = False  # of the other mode
        self._period = FIRST_PERIOD
        self._rest = FIRST_PERIOD
        self._times: list[float] = []
        self._limit = self._begun = 0.0
        self._votes = {True: 0, False: 0}

    def begin(self) -> None:
        self.left = LOOKS if self._is_looking is not self._is_trial else 0
        self._begun = trio.current_time()

    def in_vain(self) -> None:
        """Count a poll without a result."""
        if self.left:
            _give_way()
            # On a busy processor a poll can take long, so that their number alone is no limit.
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


PAUSE = 0.005
ALONE_BEFORE = 2  # lone requests after which the next one is expected to be alone as well

Received = Callable[[bytes], list[RemotingCommand]]
"""Called with the bytes read. Returns the requests from the peer in them."""


Answer = RemotingCommand | str | None
"""The reply, the reason why the connection was lost, or None after a timeout."""


class Call:
    """A request that ends once, with an answer. `heard`: the number of reads from the peer before it.

    `reads`: its task reads the connection itself and finds the answer; otherwise `task`, which waits, is
    woken, or `resume` is called, if the coroutine of the request is detached.
    """

    __slots__ = ("answer", "deadline", "heard", "is_over", "opaque", "protocol", "reads", "resume", "task")

    def __init__(self, protocol: Connection, deadline: float, heard: int) -> None:
        self.protocol = protocol
        self.deadline = deadline
        self.heard = heard
        self.opaque = -1
        self.task: trio.lowlevel.Task | None = None
        self.resume: Callable[[], object] | None = None
        self.reads = False
        self.is_over = False
        self.answer: Answer = None

    def end(self, answer: Answer) -> None:
        self.answer = answer
        self.is_over = True
        self.reads = False
        if self.task is not None:
            trio.lowlevel.reschedule(self.task)
        elif self.resume is not None:
            resume, self.resume = self.resume, None  # or the call and its coroutine would be a cycle
            resume()

    def give_up(self, _: object) -> trio.lowlevel.Abort:
        """Drop the request when its task is cancelled."""
        self.protocol.forget(self.opaque)
        return trio.lowlevel.Abort.SUCCEEDED


class Reader:
    """Reads replies; `run` is the background task, which passes all requests from the peer to `asked`.

    `calls` are the requests in flight. `run` and `read_for` raise the errors of the stream.
    """

    def __init__(
        self, stream: Stream, calls: Sized, received: Received, asked: Callable[[RemotingCommand], None]
    ) -> None:
        self._stream = stream
        self._direct = stream if isinstance(stream, DirectStream) else None
        self._calls = calls
        self._received = received
        self._asked = asked
        self._requests: list[RemotingCommand] = []
        self._polling = Polling()
        self._alone = 0
        self._recent = False  # a task has read by itself since the background task last checked
        self._parked: trio.lowlevel.Task | None = None
        self._is_awaited = False  # the background task waits for the end of the call that reads
        self._call: Call | None = None
        self.is_free = self._direct is not None
        """True while the task of a request may read."""

    async def run(self) -> None:
        """Read while no other task does, until cancelled."""
        seen: Call | None = None
        while True:
            self._hand_over()
            call = self._call
            # The call has been reading for a whole pause: wait for its end, without waking up again.
            if call is not None and call is seen:
                self._is_awaited = True
                await self._park()
            elif call is not None or (self._recent and not self._calls):
                seen, self._recent, self._is_awaited = call, False, False
                with trio.move_on_after(PAUSE):
                    await self._park()
            else:
                await self._read()

    async def _read(self) -> None:
        self.is_free = False
        try:
            data = await self._stream.receive_some(READ_SIZE)
        finally:
            self.is_free = self._direct is not None
        self._requests += self._received(bytes(data))
        # After lone requests the next one is expected to read for itself, so the background task pauses.
        self._recent = self._alone >= ALONE_BEFORE and self._direct is not None

    def expects(self) -> bool:
        """Return True if the task of the request just sent should `read_for` it instead of waiting."""
        if len(self._calls) == 1:
            self._alone += 1
            return self.is_free
        # Several requests are in flight, so the background task has to read.
        self.leave_to_background()
        return False

    def leave_to_background(self) -> None:
        """Let the background task read the reply to the request just sent."""
        self._alone = 0
        # While a call reads, it gets the other replies as well, and wakes the background task when it is over.
        if self._parked is not None and self._call is None:
            self._wake()

    @trio.lowlevel.enable_ki_protection
    async def read_for(self, call: Call) -> None:
        """Read until the call is over; called by the task of the call."""
        assert self._direct is not None
        wait_readable, read_now, polling = self._direct.wait_readable, self._direct.read_now, self._polling
        self.is_free = False
        self._call = call
        call.reads = True
        polling.begin()
        try:
            while not call.is_over:
                if polling.left:
                    # A checkpoint lets other tasks run, and delivers cancellation, between two polls.
                    await trio.lowlevel.checkpoint()
                else:
                    await wait_readable()
                if not call.is_over:
                    self._take(read_now(READ_SIZE))
            polling.end()
        # `call_off` raises this once the call has ended in another way, such as a timeout.
        except trio.ClosedResourceError:
            if not call.is_over:
                raise
        finally:
            self._call = None
            self.is_free = True
            self._recent = True
            if self._calls or self._is_awaited:
                self._wake()

    def _take(self, data: bytes | None) -> None:
        if data is None:
            self._polling.in_vain()
            return
        self._requests += self._received(data)
        # Requests from the peer are handled by the background task.
        if self._requests:
            self._wake()

    def call_off(self) -> None:
        """End the wait of the task that reads."""
        if self._direct is not None:
            self._direct.call_off()

    def _hand_over(self) -> None:
        while self._requests:
            self._asked(self._requests.pop(0))

    async def _park(self) -> None:
        def give_up(_: object) -> trio.lowlevel.Abort:
            self._parked = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._parked = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(give_up)

    def _wake(self) -> None:
        if self._parked is not None:
            task, self._parked = self._parked, None
            trio.lowlevel.reschedule(task)
