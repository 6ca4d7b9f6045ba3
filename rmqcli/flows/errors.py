"""Errors of the flows; each message is one line that names the object and, if there is one, the remedy."""

from __future__ import annotations


class FlowError(Exception):
    """Base class. A message could not be read or sent."""


class InvalidInput(FlowError):
    """An option does not fit the cluster or the other options."""


class NotMapped(FlowError):
    """A topic that is not static, or a static one whose brokers contradict each other."""


class QueueNotFound(FlowError):
    """The topic has no such queue."""


class QueueNotPermitted(FlowError):
    """The topic has no queue with the required permission."""


class FilterNotSupported(FlowError):
    """A broker filters by tags only (`enablePropertyFilter=false`)."""


class OutcomeNotDelivered(FlowError):
    """A half message is stored, but its broker did not receive the end of its transaction.

    `maybe_stored` is its id, as in errors of the client library.
    """

    def __init__(self, msg_id: str) -> None:
        super().__init__(f"stored as {msg_id}, but the end of its transaction could not be delivered")
        self.maybe_stored = msg_id


class HalfInDoubt(FlowError):
    """A half message may be stored, but its transaction is never ended: no consumer will see it."""


class CommandNotRun(FlowError):
    """The shell could not run the command of `--exec`; every other message would also fail."""


class NotAttempted(FlowError):
    """The message was read, but sending had stopped."""
