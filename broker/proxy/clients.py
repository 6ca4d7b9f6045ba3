"""The clients of the front, by client id: the settings that they sent over Telemetry, and the stream back to
them.

A client outlives its connections. It is a channel in the broker's tables of groups, like a session of
remoting: a request of the broker becomes a telemetry command, such as the check of a half message. A client
that is silent for SILENT_SECONDS is removed, and for STREAMLESS_SECONDS if it has no telemetry stream.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final
from weakref import WeakSet

import trio

from rmqcli.broker.errors import RemoteClosed, RemoteTimeout
from rmqcli.broker.net.turns import Turns
from rmqcli.broker.proxy.answers import StatusError
from rmqcli.broker.proxy.convert import message_of
from rmqcli.broker.proxy.http2 import Call
from rmqcli.broker.proxy.questions import question, reply
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.errors import CodecError
from rmqcli.codec.message import MessageExt
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code
from rmqcli.codec.proxy.framing import GrpcStatus
from rmqcli.codec.records.reading import decode_record
from rmqcli.codec.remoting.command import RemotingCommand

MOST_CLIENTS: Final = 16_384
MOST_COMMANDS: Final = 64
"""Maximum number of telemetry commands that wait for one client; others are dropped, because the broker
repeats its checks.
"""
MOST_QUESTIONS: Final = 8
"""Maximum number of requests of administrators that wait for one client: each may hold a message of 4 MiB."""
SILENT_SECONDS: Final = 60.0
STREAMLESS_SECONDS: Final = 20.0
SCAN_SECONDS: Final = 5.0
SETTLED_SECONDS: Final = 1.5
"""The Node client drops settings that arrive before the routes of all its topics. It gets them once it has made
no call for this time, ..."""
LONGEST_SETTLING: Final = 10.0
"""... or waited for this one."""

_numbers = itertools.count(1)
_nonces = itertools.count(1)


class Client:
    """One client. `settings` are those that it sent, None if it has not (since this server runs)."""

    def __init__(
        self, client_id: str, access_key: str | None, peer_text: str, turns: Turns, broker_name: str = ""
    ) -> None:
        self.id = next(_numbers)
        self.client_id = client_id
        self.access_key = access_key
        self.peer_text = peer_text
        self.turns = turns
        self._broker_name = broker_name
        self.closed = False
        self._receives: WeakSet[trio.CancelScope] = WeakSet()
        self.language = ""
        self.settings: Any = None
        self.last_call = trio.current_time()
        self.stream: Call | None = None
        self._commands: deque[Any] = deque()
        self._answers: dict[tuple[str, str], trio.MemorySendChannel[Any]] = {}
        self._news = trio.Event()
        self._on_close: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<Client {self.client_id}>"

    # as a channel of the broker's tables

    def oneway(self, command: RemotingCommand) -> None:
        """Pass a request of the broker on, if there is such a command; it is dropped while the client has no
        stream."""
        if command.code == RequestCode.CHECK_TRANSACTION_STATE and self.stream is not None:
            with suppress(CodecError):  # the broker has logged what it could not read
                self.recover(decode_record(command.body), self._broker_name)

    def recover(self, half: MessageExt, broker_name: str) -> None:
        """Ask for the outcome of a transaction, given its half message on a broker."""
        place = transaction_id(half.commit_log_offset, half.queue_offset, broker_name)
        recovery = messages.RecoverOrphanedTransactionCommand(message=message_of(half), transaction_id=place)
        self.tell(messages.TelemetryCommand(recover_orphaned_transaction_command=recovery))

    async def request(self, request: RemotingCommand, timeout_s: float) -> RemotingCommand:
        """Send a request of an administrator as a telemetry command, and return the answer as the reply of a
        remoting client. A late or repeated answer is dropped. Raises RemoteClosed or RemoteTimeout.
        """
        nonce = str(next(_nonces))
        field, command = question(request, nonce)
        if self.stream is None:
            raise RemoteClosed(f"{self.client_id} has no telemetry stream")
        if len(self._answers) >= MOST_QUESTIONS:
            raise RemoteClosed(f"{self.client_id} has not answered {MOST_QUESTIONS} earlier requests")
        self._answers[field, nonce], receiver = trio.open_memory_channel[Any](1)
        began = trio.current_time()
        try:
            self.tell(command)
            with trio.fail_after(timeout_s):
                answer = await receiver.receive()
        except trio.TooSlowError:
            told = f"{self.client_id} did not answer code {request.code} in {timeout_s:g} s"
            raise RemoteTimeout(told) from None
        except trio.EndOfChannel:
            told = f"{self.client_id} ended its telemetry stream before it answered code {request.code}"
            raise RemoteClosed(told) from None
        finally:
            self._answers.pop((field, nonce), None)
            with suppress(ValueError):  # a command that nobody waits for is no longer sent
                self._commands.remove(command)
        return reply(request, answer, round(1000 * (trio.current_time() - began)))

    @property
    def is_asked(self) -> bool:
        return bool(self._answers)

    def answered(self, key: tuple[str, str], answer: Any) -> None:
        """Pass an answer to the request that waits for it, if there is one."""
        if key in self._answers:
            self._answers.pop(key).send_nowait(answer)

    def end_stream(self, stream: Call) -> None:
        """Forget a stream that has ended; requests sent over it are no longer answered."""
        if self.stream is stream:
            self.stream = None
            answers, self._answers = self._answers, {}
            for sender in answers.values():
                sender.close()

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when the client is removed."""
        if self.closed:
            callback()
        else:
            self._on_close.append(callback)

    def receiving(self) -> trio.CancelScope:
        """Return a scope that is cancelled when the client leaves."""
        scope = trio.CancelScope()
        self._receives.add(scope)
        return scope

    def leave(self) -> None:
        """Remove the client from its groups; its held receives end."""
        if self.closed:
            return
        self.closed = True
        for scope in list(self._receives):
            scope.cancel()
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback()

    def close(self) -> None:
        """Remove the client, and end its stream."""
        self.leave()
        if self.stream is not None:
            self.stream.finish()
            self.stream.cancel()

    # Telemetry

    def tell(self, command: Any) -> None:
        """Send a telemetry command as soon as the client reads it."""
        if len(self._commands) < MOST_COMMANDS:
            self._commands.append(command)
            self._news.set()

    async def send_commands(self, call: Call) -> None:
        """Send the commands over a stream, until cancelled."""
        while True:
            if not self._commands:
                self._news = trio.Event()
                await self._news.wait()
            command = self._commands.popleft()
            if self.is_node and command.HasField("settings"):
                await self._settled()
            await call.send(command.SerializeToString())
            if self.settings is None and command.HasField("status"):
                # Its first settings were refused. A Go client waits for others until the stream ends.
                call.finish(GrpcStatus.INVALID_ARGUMENT, command.status.message)
                call.cancel()

    @property
    def is_node(self) -> bool:
        return self.language in ("HTTP", "NODE_JS")

    async def _settled(self) -> None:
        begun = trio.current_time()
        while True:
            now = trio.current_time()
            until = min(self.last_call + SETTLED_SECONDS, begun + LONGEST_SETTLING)
            if now >= until:
                return
            await trio.sleep_until(until)


def transaction_id(commit_log_offset: int, half_offset: int, broker_name: str) -> str:
    """Return a transaction id that contains the offsets of its half message, so that nothing has to remember
    them.
    """
    return f"{commit_log_offset:016X}{half_offset:016X}{broker_name}"


class Clients:
    """All clients of a front, by client id and account. `broker_name` is that of the only broker, if there is one."""

    def __init__(self, turns: Turns, broker_name: str | None = None) -> None:
        self._turns = turns
        self._broker_name = broker_name or ""
        self._clients: dict[tuple[str, str | None], Client] = {}

    def __iter__(self) -> Iterator[Client]:
        return iter(list(self._clients.values()))

    def __len__(self) -> int:
        return len(self._clients)

    def find(self, client_id: str, access_key: str | None) -> Client | None:
        """Return a client, which is not silent now; None if it is not known."""
        client = self._clients.get((client_id, access_key))
        if client is not None:
            client.last_call = trio.current_time()
        return client

    def find_or_add(self, client_id: str, access_key: str | None, peer_text: str) -> Client:
        """Return a client, a new one if it is not known. Raises StatusError if there are too many."""
        client = self.find(client_id, access_key)
        if client is None:
            if len(self._clients) >= MOST_CLIENTS:
                raise StatusError(Code.TOO_MANY_REQUESTS, f"{MOST_CLIENTS} clients are connected")
            key = client_id, access_key
            client = self._clients[key] = Client(
                client_id, access_key, peer_text, self._turns, self._broker_name
            )
            client.on_close(partial(self._forget, key))
        return client

    def _forget(self, key: tuple[str, str | None]) -> None:
        del self._clients[key]

    async def run(self) -> None:
        """Run the service that removes silent clients."""
        while True:
            await trio.sleep(SCAN_SECONDS)
            now = trio.current_time()
            for client in self:
                limit = STREAMLESS_SECONDS if client.stream is None else SILENT_SECONDS
                if now - client.last_call > limit:
                    client.close()
