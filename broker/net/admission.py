"""Admission of the requests of one read by the gate."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from broker.net.session import Session
from codec.codes import RPC_RESPONSE
from codec.remoting.command import RemotingCommand

Gate = Callable[[Session, RemotingCommand], None]
"""Admits a request or raises Refusal. Every request passes it once, before its handler: checks of signatures
and permissions, counts and limits belong there. A request that DirectReaders read has a `header`, no ext
fields. For one that takes several turns to check it raises NotReady, whose `then` admits or refuses it."""


class Admission:
    """Takes the requests of one read to the gate in their order, each once; responses pass.

    Those that may be handled together, whose codes are `together`, are taken before they are handled; no
    other is, as what is handled may change the rules of the gate.
    """

    __slots__ = ("_commands", "_gate", "_session", "_together", "end", "failure")

    def __init__(
        self, gate: Gate, session: Session, commands: Sequence[RemotingCommand], together: Container[int]
    ) -> None:
        self._gate = gate
        self._session = session
        self._commands = commands
        self._together = together
        self.end = 0
        """The position at which the admitted requests end."""
        self.failure: Exception | None = None
        """The exception of the gate about the request there."""

    @property
    def decided(self) -> int:
        """The position at which the requests end that are admitted or refused."""
        return self.end + (self.failure is not None)

    def admits(self, position: int) -> bool:
        """Return True if the request at `position`, the next one to be handled, is admitted."""
        if self.end < position:
            self.end, self.failure = position, None
        if self.end == position:
            self._take()
        return self.end > position

    def admits_together(self, position: int, last: int) -> int:
        """Admit requests from the one at `position`, the next to be handled; return the end of those
        admitted.
        """
        if self.admits(position):
            while self.end < last and self._commands[self.end].code in self._together and self._take():
                pass
        return self.end

    def _take(self) -> bool:
        command = self._commands[self.end]
        if self.failure is None:
            try:
                if not command.flag & RPC_RESPONSE:
                    self._gate(self._session, command)
            except Exception as error:
                # Its traceback and our caller's frame would refer to each other, and keep the request's body.
                self.failure = error.with_traceback(None)
        if self.failure is not None:
            return False
        self.end += 1
        self._session.is_known = True
        return True
