"""Dispatches the requests of a connection to handlers, in order, and sends their replies.

The replies of one read leave in one write; those of a long read in several, so that the peer works while we
do. A handler is a plain function: it returns the reply, or its encoded (short) frame, or None to send none or
a later one. Whatever a handler raises becomes a reply and a log line, never the end of the connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from broker.errors import Refusal
from broker.net.session import Session
from codec.codes import RPC_ONEWAY, RPC_RESPONSE, ResponseCode
from codec.errors import CodecError
from codec.remoting.frame import RemotingCommand, encode_frame

Handler = Callable[[Session, RemotingCommand], RemotingCommand | bytes | None]
HandlerTable = Mapping[int, Handler]
RunHandler = Callable[[Session, Sequence[RemotingCommand]], Sequence[bytes]]
"""Handles as many of the next requests as it accepts, whatever their codes, in order; returns one frame
for each."""
RunTable = Mapping[int, RunHandler]
NO_RUNS: RunTable = {}

Gate = Callable[[Session, RemotingCommand], None]
"""Admits a request or raises Refusal. Every request passes it before any handler or run: checks of signatures
and permissions, counts and limits belong there. A request that a DirectReader read has a `header`, no ext fields."""

REPLIES_PER_WRITE = 32

_log = logging.getLogger("broker.net.server")


class Batches(Protocol):
    """Receives the begin and the end of requests that are handled together: work that can wait until their
    replies are sent waits for the end."""

    def begin_batch(self) -> None: ...

    def end_batch(self) -> None: ...


class _NoBatches:
    def begin_batch(self) -> None: ...

    def end_batch(self) -> None: ...


def unsupported(_session: Session, request: RemotingCommand) -> RemotingCommand:
    """Java's reply to a code without a handler."""
    return request.reply(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported"
    )


def failure_reply(
    session: Session, command: RemotingCommand, error: Exception, server: str = "broker"
) -> RemotingCommand:
    """The reply to a request whose handler raised `error`; bugs and undecodable requests are logged."""
    if isinstance(error, Refusal):
        return command.reply(error.code, error.remark, error.ext_fields)
    if isinstance(error, CodecError):
        _log.info("%s: %s: code %d: %s", server, session.peer_text, command.code, error)
    else:
        _log.error("%s: %s: code %d failed", server, session.peer_text, command.code, exc_info=error)
    return command.reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")


class Dispatcher:
    """Handlers by request code.

    A code in `runs` is offered to that handler first, with the requests behind it. `gate` None admits all.
    """

    def __init__(
        self,
        handlers: HandlerTable,
        runs: RunTable = NO_RUNS,
        batches: Batches | None = None,
        name: str = "",
        gate: Gate | None = None,
    ) -> None:
        self._handlers = handlers
        self._runs = runs
        self._batches = batches or _NoBatches()
        self._name = name
        self._gate = gate

    async def handle(self, session: Session, commands: list[RemotingCommand]) -> None:
        """Handles what one read brought; waits while the peer does not read its replies."""
        position = 0
        while position < len(commands):
            position = self._handle_some(session, commands, position)
            if session.is_congested:
                await session.drained()

    def _handle_some(self, session: Session, commands: list[RemotingCommand], position: int) -> int:
        """Handles commands from `position` on for one write; returns the position behind them."""
        runs = self._runs
        session.in_batch = True
        self._batches.begin_batch()
        last = min(position + REPLIES_PER_WRITE, len(commands))
        while position < last and not session.is_congested:
            run = runs.get(commands[position].code)
            if run is not None and position + 1 < last:
                handled = self._handle_run(session, run, commands[position:last])
                position += handled
                if handled:
                    continue
            self._handle(session, commands[position])
            position += 1
        session.in_batch = False
        session.flush()
        self._batches.end_batch()
        return position

    def _handle_run(self, session: Session, run: RunHandler, commands: list[RemotingCommand]) -> int:
        """Handles some of the next requests; returns how many."""
        if self._gate is None:
            return self._call_run(session, run, commands)
        admitted: list[RemotingCommand] = []
        for command in commands:
            if command.code != commands[0].code or command.flag & RPC_RESPONSE:
                break
            try:
                self._gate(session, command)
            except Exception as error:  # as for a handler
                self._handle_admitted(session, run, admitted)
                self._reply_failure(session, command, error)
                return len(admitted) + 1
            admitted.append(command)
        self._handle_admitted(session, run, admitted)
        return len(admitted)

    def _handle_admitted(self, session: Session, run: RunHandler, commands: list[RemotingCommand]) -> None:
        """Handles requests that passed the gate; those that the run does not accept one by one."""
        handled = self._call_run(session, run, commands) if len(commands) > 1 else 0
        for command in commands[handled:]:
            self._call_handler(session, command)

    def _call_run(self, session: Session, run: RunHandler, commands: list[RemotingCommand]) -> int:
        try:
            frames = run(session, commands)
        except Exception as error:  # as for one request, which it counts as
            self._reply_failure(session, commands[0], error)
            return 1
        session.queue_replies(frames)
        return len(frames)

    def _handle(self, session: Session, command: RemotingCommand) -> None:
        if command.flag & RPC_RESPONSE:
            session.answered(command)
            return
        if self._gate is not None:
            try:
                self._gate(session, command)
            except Exception as error:  # as for a handler
                self._reply_failure(session, command, error)
                return
        self._call_handler(session, command)

    def _call_handler(self, session: Session, command: RemotingCommand) -> None:
        try:
            reply = self._handlers.get(command.code, unsupported)(session, command)
            if command.flag & RPC_ONEWAY or reply is None:
                return
            session.queue_reply(reply if isinstance(reply, bytes) else encode_frame(reply))
        except Exception as error:  # whatever a handler raises, the connection and its other requests go on
            self._reply_failure(session, command, error)

    def _reply_failure(self, session: Session, command: RemotingCommand, error: Exception) -> None:
        session.respond(command, failure_reply(session, command, error, self._name))
