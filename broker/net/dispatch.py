"""Dispatches the requests of a connection to handlers, in order, and sends their replies.

The replies to one read are sent with one write; those to a long read with several, so that the peer can work
in the meantime. A handler is a plain function: it returns the reply, its encoded (short) frame, or None to
send no reply or a later one. An exception in a handler becomes a reply and a log line; it never ends the
connection.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from functools import partial
from typing import Protocol

import trio

from rmqcli.broker.errors import NotReady, Refusal
from rmqcli.broker.net.fast_failure import LONGEST_LOOK, FastFailure
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.turns import Pace, Turns
from rmqcli.codec.codes import RPC_ONEWAY, RPC_RESPONSE, ResponseCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.remoting.command import RemotingCommand

Gate = Callable[[Session, RemotingCommand], None]
"""Admits a request or raises Refusal. Every request passes the gate once, before its handler: checks of
signatures and permissions, counts and limits belong there. A request read by DirectReaders has a `header` and
no ext fields. If checking a request takes several turns, the gate raises NotReady, whose `then` admits or
refuses it."""


class Admission:
    """Passes the requests of one read to the gate in order, each once; responses are always admitted.

    Requests that may be handled together, with codes in `together`, are admitted before the first of them is
    handled. Other requests are not admitted in advance, because handling a request may change the rules of
    the gate.
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
        """The position after the last admitted request."""
        self.failure: Exception | None = None
        """The exception that the gate raised for the request at `end`."""

    @property
    def decided(self) -> int:
        """The position after the last request that was admitted or refused."""
        return self.end + (self.failure is not None)

    def admits(self, position: int) -> bool:
        """Return True if the request at `position`, the next one to be handled, is admitted."""
        if self.end < position:
            self.end, self.failure = position, None
        if self.end == position:
            self._take()
        return self.end > position

    def admits_together(self, position: int, last: int) -> int:
        """Admit the request at `position`, the next one to be handled, and those that may be handled with it;
        return the position after the last admitted one.
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
                # Its traceback and the caller's frame would form a cycle, which keeps the request's body
                # until the garbage collector runs.
                self.failure = error.with_traceback(None)
        if self.failure is not None:
            return False
        self.end += 1
        self._session.is_known = True
        return True


Handler = Callable[[Session, RemotingCommand], RemotingCommand | bytes | None]
Bind = Callable[[int], Handler | None]
HandlerTable = Mapping[int, Handler]


class Handlers(dict[int, Handler]):
    """Handlers by request code.

    `bind` returns the handler of a code when its first request arrives, because a server receives few of the
    codes that it knows; a code for which it returns None is refused as by Java.
    """

    def __init__(self, bind: Bind) -> None:
        super().__init__()
        self._bind = bind

    def __missing__(self, code: int) -> Handler:
        handler = self._bind(code)
        if handler is None:
            return unsupported  # not kept: a peer may send every number
        self[code] = handler
        return handler


RunHandler = Callable[[Session, Sequence[RemotingCommand]], int]
"""Handles as many of the next requests as it accepts, whatever their codes, in order; returns their number.
It queues their replies, now or later."""
RunTable = Mapping[int, RunHandler]
NO_RUNS: RunTable = {}

Barrier = Callable[[], Awaitable[object]]
"""Work that must end before a reply is sent. An exception of it becomes the reply."""

REPLIES_PER_WRITE = 32
"""Replies to a long read that are sent with one write; the peer works on them during the next ones."""

_log = logging.getLogger("rmqcli.broker.net.server")


class Batches(Protocol):
    """Is notified before and after requests are handled together: work that can wait is done after their
    replies are sent.

    If a handler sets `barrier`, its reply is sent once that has returned.
    """

    barrier: Barrier | None

    def begin_batch(self) -> None: ...

    def end_batch(self) -> None: ...


class _NoBatches:
    barrier: Barrier | None = None

    def begin_batch(self) -> None: ...

    def end_batch(self) -> None: ...


def unsupported(_session: Session, request: RemotingCommand) -> RemotingCommand:
    """Return Java's reply to a code without a handler."""
    return request.reply(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported"
    )


def failure_reply(session: Session, command: RemotingCommand, error: Exception) -> RemotingCommand:
    """Return the reply to a request whose handler raised `error`; bugs and undecodable requests are
    logged."""
    if isinstance(error, Refusal):
        return command.reply(error.code, error.remark, error.ext_fields)
    if isinstance(error, CodecError):
        _log.info("%s: %s: code %d: %s", session.server, session.peer_text, command.code, error)
    else:
        _log.error("%s: %s: code %d failed", session.server, session.peer_text, command.code, exc_info=error)
    return command.reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")


async def reply_behind(
    session: Session, request: RemotingCommand, reply: RemotingCommand | bytes | None, work: Barrier
) -> None:
    """Reply once `work` has ended; it is completed even if the sender has disconnected."""
    try:
        with trio.CancelScope(shield=True):
            await work()
    except Exception as error:  # as for a handler
        reply = failure_reply(session, request, error)
    if reply is not None:
        session.respond(request, reply)
        session.flush()


class Dispatcher:
    """Handlers by request code.

    Without a `gate` all requests are admitted; without `fast_failure` none is refused for having waited too
    long. A request whose code is in `runs` is offered to that handler first, with the requests after it that
    the gate admits.
    """

    def __init__(
        self,
        handlers: HandlerTable,
        turns: Turns,
        runs: RunTable = NO_RUNS,
        batches: Batches | None = None,
        gate: Gate | None = None,
        fast_failure: FastFailure | None = None,
    ) -> None:
        self._turns = turns
        self._handlers = handlers if isinstance(handlers, Handlers) else Handlers(handlers.get)
        self._runs = runs
        self._batches = batches or _NoBatches()
        self._gate = gate
        self._fast_failure = fast_failure or FastFailure()

    def pace(self) -> Pace:
        """Return the pace of a connection that has just been read."""
        return self._turns.pace()

    async def handle(
        self, session: Session, commands: list[RemotingCommand], pace: Pace | None = None
    ) -> None:
        """Handle the commands of one read, in as many turns as necessary; wait while the peer does not read
        its replies. `pace` is that of the read, if it began earlier."""
        position = 0
        admission = None
        if self._gate is None:
            session.is_known = True
        else:
            admission = Admission(self._gate, session, commands, self._runs)
        if pace is None and len(commands) > 1:
            pace = self._turns.pace()
        while position < len(commands):
            last = min(position + REPLIES_PER_WRITE, len(commands))
            if pace is not None and pace.took(LONGEST_LOOK) > self._fast_failure.shortest:
                # The gate has counted the requests before `first`, which are handled therefore.
                first = position if admission is None else max(position, admission.decided)
                last = self._refuse_late(session, commands, first, last, pace.took(0.0))
            position, missing = self._handle_some(session, commands, position, last, pace, admission)
            if missing is not None:
                await self._retry(session, commands[position], missing, self._batches.barrier)
                position += 1
            if session.is_congested:
                await session.drained()
                if pace is not None:
                    pace.took(0.0)  # this wait does not count: the peer itself was slow
            if pace is not None and position < len(commands):
                await pace.step()

    def _refuse_late(
        self, session: Session, commands: list[RemotingCommand], position: int, last: int, seconds: float
    ) -> int:
        """Refuse and remove those of the next requests that have waited for too long. Return the position
        after the others."""
        size = len(commands) - position
        kept: list[RemotingCommand] = []
        for command in commands[position:last]:
            if command.flag & (RPC_RESPONSE | RPC_ONEWAY) or not self._fast_failure.is_late(
                command.code, seconds
            ):
                kept.append(command)
            else:
                self._reply_failure(session, command, self._fast_failure.refusal("TIMEOUT", seconds, size))
        commands[position:last] = kept
        return position + len(kept)

    def _handle_some(
        self,
        session: Session,
        commands: list[RemotingCommand],
        position: int,
        last: int,
        pace: Pace | None,
        admission: Admission | None,
    ) -> tuple[int, NotReady | None]:
        """Handle commands from `position` to `last`, at least one, until the turn is over; send their replies
        with one write.

        Return the position after them, or that of a command that must wait, with its NotReady.
        """
        missing: NotReady | None = None
        runs, attempt = self._runs, self._attempt
        session.in_batch = True
        self._batches.begin_batch()
        while position < last and not session.is_congested:
            command = commands[position]
            if runs:
                run = runs.get(command.code)
                if run is not None:
                    end = last if admission is None else admission.admits_together(position, last)
                    if end > position and (handled := self._call_run(session, run, commands[position:end])):
                        position += handled
                        if pace is not None and pace.is_over:
                            break
                        continue
            if command.flag & RPC_RESPONSE:
                session.answered(command)
            else:
                if admission is None or admission.admits(position):
                    missing = attempt(session, command)
                else:
                    missing = self._not_admitted(session, command, admission.failure)
                if missing is not None:
                    if missing.in_order:
                        break
                    self._defer(session, command, missing)
                    missing = None
            position += 1
            if pace is not None and pace.is_over:
                break
        # Replies leave first: index items and listeners of the batch can wait.
        session.in_batch = False
        session.flush()
        self._batches.end_batch()
        return position, missing

    def _call_run(self, session: Session, run: RunHandler, commands: list[RemotingCommand]) -> int:
        try:
            return run(session, commands)
        except Exception as error:  # answered as a failure of the first request
            self._reply_failure(session, commands[0], error)
            return 1

    def _not_admitted(
        self, session: Session, command: RemotingCommand, failure: Exception | None
    ) -> NotReady | None:
        """Reply to a request that the gate refused. If its check takes several turns, return a NotReady
        instead."""
        if isinstance(failure, NotReady) and failure.then is not None:
            then = partial(self._admitted, failure.then)
            return NotReady(failure.ready, in_order=True, then=then)
        if failure is not None:
            self._reply_failure(session, command, failure)
        return None

    def _admitted(
        self, gate: Gate, session: Session, command: RemotingCommand
    ) -> RemotingCommand | bytes | None:
        """Handle a request whose check took several turns. `gate` has the result; this may be called
        again."""
        gate(session, command)
        session.is_known = True
        return self._handlers[command.code](session, command)

    def _attempt(
        self, session: Session, command: RemotingCommand, handler: Handler | None = None
    ) -> NotReady | None:
        """Handle a request that passed the gate, unless it needs the disk first."""
        try:
            reply = (handler or self._handlers[command.code])(session, command)
            if self._batches.barrier is not None:
                self._hold_back(session, command, reply)
                return None
            if command.flag & RPC_ONEWAY or reply is None:
                return None
            if isinstance(reply, bytes):
                session.queue_reply(reply)
            else:
                session.send(reply)
        except NotReady as missing:
            # Its traceback and the caller's frame would form a cycle, which keeps the request's body until
            # the garbage collector runs.
            return missing.with_traceback(None)
        except Exception as error:  # an error of a handler must not end the connection or its other requests
            self._reply_failure(session, command, error)
        return None

    def _hold_back(
        self, session: Session, command: RemotingCommand, reply: RemotingCommand | bytes | None
    ) -> None:
        """Send a reply once the barrier that its handler set has returned."""
        barrier, self._batches.barrier = self._batches.barrier, None
        # A one-way request has no reply, but its work has to be done as well.
        if barrier is not None and (reply is not None or command.is_oneway):
            session.spawn(reply_behind, session, command, reply, barrier)

    def _defer(self, session: Session, command: RemotingCommand, missing: NotReady) -> None:
        """Handle a request in a task, once the disk has done what it needs; later requests do not wait for
        it."""
        barrier, self._batches.barrier = self._batches.barrier, None
        session.spawn(self._handle_when_ready, session, command, missing, barrier)

    async def _handle_when_ready(
        self, session: Session, command: RemotingCommand, missing: NotReady, barrier: Barrier | None
    ) -> None:
        # A one-way request is handled even if its sender has disconnected.
        with trio.CancelScope(shield=True):
            await self._retry(session, command, missing, barrier)

    async def _retry(
        self, session: Session, command: RemotingCommand, missing: NotReady | None, barrier: Barrier | None
    ) -> None:
        """Handle a request that has to wait, again each time after its wait, until it is done.

        `barrier` is the one that an earlier attempt set. If the disk refuses, its error becomes the reply.
        """
        handler: Handler | None = None
        while missing is not None:
            # What a gate or a decoder has done in turns is not done again by later attempts.
            handler = missing.then or handler
            try:
                # Long work that has begun, and one-way requests, are never refused (see `fast_failure`).
                if missing.then is None and not command.is_oneway:
                    await self._fast_failure.in_time(command.code, missing.ready, session.spawn)
                else:
                    await missing.ready()
            except (OSError, Refusal) as error:
                self._reply_failure(session, command, error)
                return
            session.in_batch = True
            self._batches.begin_batch()
            # An earlier attempt may have set one, which `begin_batch` has reset and which still applies.
            self._batches.barrier = barrier
            missing = self._attempt(session, command, handler)
            barrier = self._batches.barrier
            session.in_batch = False
            session.flush()
            self._batches.end_batch()

    def _reply_failure(self, session: Session, command: RemotingCommand, error: Exception) -> None:
        session.respond(command, failure_reply(session, command, error))
