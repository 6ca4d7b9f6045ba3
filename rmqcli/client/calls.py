"""A request on its way, and the task that waits for its reply."""

from __future__ import annotations

import outcome
import trio

from codec.frame import RemotingCommand

__all__ = ["Answer", "Call"]

Answer = RemotingCommand | str | None
"""The reply; or why the connection was lost; or None: it did not come in time."""


class Call:
    """Ends once, with an answer. `heard`: how often the peer had been heard when the request was made.

    `reads`: the task reads the connection itself, so it will find the answer; else it is woken.
    """

    __slots__ = ("answer", "code", "deadline", "heard", "is_over", "opaque", "reads", "task")

    def __init__(self, task: trio.lowlevel.Task, code: int, deadline: float, heard: int) -> None:
        self.task = task
        self.code = code
        self.deadline = deadline
        self.heard = heard
        self.opaque = -1
        self.reads = False
        self.is_over = False
        self.answer: Answer = None

    def end(self, answer: Answer) -> None:
        self.answer = answer
        self.is_over = True
        if self.reads:
            self.reads = False
        else:
            trio.lowlevel.reschedule(self.task, outcome.Value(None))
