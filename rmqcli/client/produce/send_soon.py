"""Asynchronous sends with callbacks (Java `send(Message, SendCallback)`).

A send is a detached coroutine; it gets a task once it has to wait for anything but its reply.

Limit: `in_flight` concurrent sends, including their callbacks; `send_soon` waits while it is reached. Inside
a callback it does not wait, because callbacks that all send again would wait for each other.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any

import trio

from rmqcli.client.calls import Call, Calls
from rmqcli.client.errors import InvalidRequest
from rmqcli.client.instance import ClientInstance
from rmqcli.client.results import SendResult
from rmqcli.client.wire import reader
from rmqcli.client.wire.detached import attached, step
from rmqcli.codec.remoting.command import RemotingCommand

IN_FLIGHT = 1000
TOGETHER = 32
"""The number of calls of `send_soon` without waiting after which other tasks run.

A round of the scheduler costs as much as a third of a send.
"""

log = logging.getLogger("rmqcli.client.produce.send_soon")

SendCallback = Callable[[SendResult | Exception], Awaitable[object] | object]
"""Called with the result or exception of `send`.

A plain function runs in trio's thread and must not block.

```python
outcomes = []
await producer.send_soon(Message.of("orders", b"hello"), outcomes.append)
```
"""


class _Send:
    """One send and its callback, which run in `context`."""

    __slots__ = ("_call", "_underway", "about", "callback", "context", "coroutine")

    def __init__(
        self,
        underway: Underway,
        coroutine: Coroutine[Any, Any, SendResult],
        callback: Callable[..., Awaitable[object] | object] | None,
        context: Context,
        about: tuple[object, ...],
    ) -> None:
        self._underway = underway
        self.coroutine = coroutine
        self.callback = callback
        self.about = about
        self.context = context
        self._call: reader.Call | None = None

    def step(self) -> None:
        try:
            call = self.context.run(step, self.coroutine)
        except StopIteration as done:
            self._underway.ended(self, done.value)
        except Exception as error:  # passed to the callback, as `send` would raise it
            self._underway.ended(self, error)
        else:
            self._call = call
            if call is None:
                self.attach()
            else:
                call.resume = self

    def __call__(self) -> None:
        """Continue after the reply."""
        assert self._call is not None
        if isinstance(self._call.answer, RemotingCommand):
            self.step()
        else:  # the connection is being closed, so this is no time for another attempt
            self.attach()

    def attach(self) -> None:
        """Let a task carry out the rest."""
        if self._call is not None:
            self._call.resume = None
        self._underway.attach(self)


class Underway:
    """The asynchronous sends of one producer, between `open` and `close`."""

    def __init__(self, instance: ClientInstance, limit: int) -> None:
        if limit < 1:
            raise InvalidRequest(f"in_flight is {limit}: 1 or more is expected")
        self._instance = instance
        self._limit = limit
        self._open = False
        self._running = 0
        self._since_turn = 0
        self._detached: set[_Send] = set()
        self._calls = Calls()
        self._end, self._ended = trio.Event(), trio.Event()
        self._ended.set()
        self._calling: set[trio.lowlevel.Task] = set()
        self._waiting = trio.lowlevel.ParkingLot()
        self._closing = trio.lowlevel.ParkingLot()

    async def open(self) -> None:
        started, self._ended = trio.Event(), trio.Event()

        async def run() -> None:
            try:
                await self._calls.run(started.set, self._end)
            finally:
                self._ended.set()

        self._instance.start(run, "sends")
        await started.wait()
        self._open = True

    async def close(self, *, wait: bool) -> None:
        """Wait for all sends and callbacks. Without `wait`, or when cancelled, cancel them instead."""
        try:
            while wait and self._running:
                await self._closing.park()
        finally:
            self._open = False
            self._waiting.unpark_all()
            for send in list(self._detached):
                send.attach()  # only tasks can be cancelled
            self._end.set()
            with trio.CancelScope(shield=True):
                # Even a cancelled producer must not be outlived by its sends.
                await self._ended.wait()

    async def room(self) -> None:
        """Wait while the limit is reached."""
        self._check_open()
        self._since_turn += 1
        if self._since_turn < TOGETHER:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            self._since_turn = 0
            await trio.lowlevel.checkpoint()
        # A callback must not wait for its own send to end.
        while self._open and self._running >= self._limit and not self._is_callback():
            await self._waiting.park()
            self._since_turn = 0

    def begin(
        self,
        send: Coroutine[Any, Any, SendResult],
        callback: Callable[..., Awaitable[object] | object] | None,
        context: Context,
        *about: object,
    ) -> None:
        """Begin a send, regardless of the limit. Outside tasks, only the thread of the run may call this.

        The callback gets `about` before the outcome.
        """
        if not self._open:
            send.close()
            self._check_open()
        self._running += 1
        one = _Send(self, send, callback, context, about)
        self._detached.add(one)
        one.step()

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidRequest("a producer sends only inside its `async with` block")

    def _is_callback(self) -> bool:
        return trio.lowlevel.current_task() in self._calling

    def attach(self, send: _Send) -> None:
        self._detached.discard(send)
        self._in_task(send, self._carry_out(send))

    def _in_task(self, send: _Send, rest: Coroutine[Any, Any, None]) -> None:
        self._calls.start(Call(lambda: rest, self._called, send.context))

    async def _carry_out(self, send: _Send) -> None:
        outcome: SendResult | Exception
        try:
            outcome = await attached(send.coroutine)
        except Exception as error:
            outcome = error
        said = self._call_back(send, outcome)
        if said is not None:
            await self._await(said)

    def ended(self, send: _Send, outcome: SendResult | Exception) -> None:
        """Call back after a send without a task."""
        self._detached.discard(send)
        said = send.context.run(self._call_back, send, outcome)
        if said is None:
            self._leave()
        else:
            self._in_task(send, self._await(said))

    def _call_back(self, send: _Send, outcome: SendResult | Exception) -> Awaitable[object] | None:
        """Call back, unless the producer has been left. Return the awaitable of the callback, if any."""
        if not self._open:
            return None
        if send.callback is None:
            if isinstance(outcome, Exception):
                log.warning("a message was not sent: %s", outcome)
            return None
        try:
            said = send.callback(*send.about, outcome)
        except Exception:  # raised by the application; it must not end other sends
            log.exception("the callback of a send failed")
            return None
        return said if said is not None and inspect.isawaitable(said) else None

    async def _await(self, said: Awaitable[object]) -> None:
        task = trio.lowlevel.current_task()
        self._calling.add(task)
        try:
            await said
        except Exception:
            log.exception("the callback of a send failed")
        finally:
            self._calling.discard(task)

    def _called(self, _: object, error: BaseException | None) -> None:
        self._leave()
        if error is not None and self._open:
            raise error

    def _leave(self) -> None:
        self._running -= 1
        if self._waiting:
            self._waiting.unpark()
        if not self._running:
            self._closing.unpark_all()
