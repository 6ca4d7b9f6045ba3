"""What `rmq consume` does with each message: print it, or give it to a command.

A message counts as consumed when it is printed and flushed, in a pipe when the reader took it, or when its command ended with
status 0. When there were enough, no
other message is touched: a listener that gets one waits until the consumer is left, and the message stays with the group.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from codec.message import MessageExt
from rmqcli.client import ClientError, Producer
from rmqcli.render.output import Output, warn
from rmqcli.render.pipe import Pipe

__all__ = ["Consumption", "environment"]

_ENDED_FROM_OUTSIDE = frozenset(
    status for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) for status in (-one, 128 + one)
)
_UNTIL_WE_ARE_TOLD = 0.3
"""Seconds. Ctrl-C, or the end of a service, is for the command and for us: then the message has not failed, but comes again."""

Act = Callable[[MessageExt], Awaitable[bool]]


class Consumption:
    """A listener for both kinds of consumers: `done` and `later` are what they want to hear."""

    def __init__(self, act: Act, *, count: int | None, done: Any, later: Any) -> None:
        self._act = act
        self._left = count
        self._done, self._later = done, later
        self._enough = trio.Event()
        self._heard = trio.Event()
        self._running = 0
        self._ended = trio.lowlevel.ParkingLot()
        self._failure: OSError | None = None
        self.consumed = 0
        self.was_idle = False

    async def __call__(self, messages: list[MessageExt], context: object) -> Any:
        (message,) = messages
        await self._turn()
        self._heard.set()
        try:
            taken = await self._act(message)
        except OSError as error:  # standard output is closed, or there is no shell: no message will do better
            self._failure = error
            self._enough.set()
            await trio.sleep_forever()
        finally:
            self._running -= 1
            self._ended.unpark_all()
        if not taken:
            return self._later
        self._count()
        return self._done

    async def _turn(self) -> None:
        """Waits while those that run may be enough already."""
        while self._enough.is_set() or (self._left is not None and self._running >= self._left):
            await self._ended.park()
        self._running += 1

    def _count(self) -> None:
        self.consumed += 1
        self._heard.set()
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self._enough.set()

    async def wait(
        self, idle: float | None, pipe: Pipe | None = None, *, begun: Callable[[], Awaitable[None]]
    ) -> None:
        """Until there were enough, nothing came for `idle` seconds, or nobody reads the pipe; raises what made an end of it.

        `begun` waits until messages can come.
        """
        async with trio.open_nursery() as nursery:
            if idle is not None:
                nursery.start_soon(self._watch, idle, begun)
            if pipe is not None:
                nursery.start_soon(self._watch_reader, pipe)
            await self._enough.wait()
            nursery.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure

    async def _watch_reader(self, pipe: Pipe) -> None:
        await pipe.reader_gone()
        while self._running:  # what the reader took before it left is consumed
            await self._ended.park()
        self._failure = self._failure or BrokenPipeError()
        self._enough.set()

    async def _watch(self, idle: float, begun: Callable[[], Awaitable[None]]) -> None:
        await begun()
        while True:
            self._heard = trio.Event()
            with trio.move_on_after(idle) as silence:
                await self._heard.wait()
            if silence.cancelled_caught and not self._running:
                self.was_idle = True
                self._enough.set()
                return


def printing(output: Output, render: Callable[[MessageExt], bytes], pipe: Pipe | None) -> Act:
    """Prints each message; with `pipe`, where `output` goes, until the reader has it."""

    async def act(message: MessageExt) -> bool:
        if pipe is not None:
            await pipe.put(render(message))
            return True
        output.write(render(message))
        output.flush()
        return True

    return act


def running(shell_command: str, retries: int | None, producer: Producer | None = None) -> Act:
    """Runs the command for each message, its body on standard input; with a producer what it prints is the reply. `retries` None:
    what fails does not come again."""

    async def act(message: MessageExt) -> bool:
        done = await trio.run_process(
            ["/bin/sh", "-c", shell_command],
            stdin=message.body,
            check=False,
            env=environment(message),
            capture_stdout=producer is not None,
        )
        if done.returncode in _ENDED_FROM_OUTSIDE:
            await trio.sleep(_UNTIL_WE_ARE_TOLD)
        if done.returncode:
            fate = _fate(message.reconsume_times, retries)
            warn(f"{message.queue}: message {message.msg_id} {fate}: {_how_it_ended(done.returncode)}")
        elif producer is not None:
            await _reply(producer, message, done.stdout)
        return not done.returncode

    return act


def _fate(reconsume_times: int, retries: int | None) -> str:
    if retries is None:
        return "failed"
    return "comes again" if reconsume_times < retries else "is a dead letter now"


def _how_it_ended(status: int) -> str:
    return f"status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"


async def _reply(producer: Producer, request: MessageExt, printed: bytes) -> None:
    """Who asked may be gone, or may not have asked at all: the message counts as consumed all the same."""
    try:
        await producer.reply(request, printed.removesuffix(b"\n"))
    except ClientError as error:
        warn(f"{request.queue}: message {request.msg_id} is not answered: {error}")


def environment(message: MessageExt) -> Mapping[str, str]:
    """The environment of a command: ours, and RMQ_* of the message. U+0000, which no environment can hold, is left out."""
    import os

    named = {
        "RMQ_TOPIC": message.topic,
        "RMQ_BROKER": message.broker_name,
        "RMQ_QUEUE_ID": str(message.queue_id),
        "RMQ_QUEUE_OFFSET": str(message.queue_offset),
        "RMQ_MSG_ID": message.msg_id,
        "RMQ_TAG": message.tags or "",
        "RMQ_KEYS": " ".join(message.keys),
        "RMQ_RECONSUME_TIMES": str(message.reconsume_times),
    }
    return os.environ | {name: value.replace("\0", "") for name, value in named.items()}
