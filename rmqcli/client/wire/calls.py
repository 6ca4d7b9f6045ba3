"""A request in flight and the task that waits for its reply."""

from __future__ import annotations

from collections.abc import Callable

import trio

from codec.remoting.frame import RemotingCommand

Answer = RemotingCommand | str | None
"""The reply, the reason for which the connection was lost, or None after a time-out."""


class Call:
    """A request that ends once, with an answer. `heard`: the number of reads from the peer before the
    request.

    `reads`: its task reads the connection itself and finds the answer; else the task in `wait` is woken.
    """

    __slots__ = ("answer", "deadline", "heard", "is_over", "opaque", "reads", "task")

    def __init__(self, deadline: float, heard: int) -> None:
        self.deadline = deadline
        self.heard = heard
        self.opaque = -1
        self.task: trio.lowlevel.Task | None = None
        self.reads = False
        self.is_over = False
        self.answer: Answer = None

    def end(self, answer: Answer) -> None:
        self.answer = answer
        self.is_over = True
        self.reads = False
        if self.task is not None:
            trio.lowlevel.reschedule(self.task)

    async def wait(self, give_up: Callable[[], None]) -> None:
        """Waits for the end; a cancellation calls `give_up`."""

        def abort(_: object) -> trio.lowlevel.Abort:
            give_up()
            return trio.lowlevel.Abort.SUCCEEDED

        self.task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)
