"""Consumes messages for `rmq consume`: prints each one, or passes it to a command.

A message counts as consumed when it is printed and flushed (in a pipe: when the reader has read it), or when
its command exits with status 0. Once enough messages are tried, no other is processed: a listener that
receives one waits until the consumer closes, so that the message stays with the group. The same applies to
all messages whose command cannot be run.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from rmqcli.client import ClientError, Producer
from rmqcli.codec.message import MessageExt
from rmqcli.flows.errors import CommandNotRun
from rmqcli.flows.pipe import Pipe
from rmqcli.render.output import Output, warn

_TERMINATED = frozenset(
    status
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if (one := getattr(signal, name, None)) is not None  # Windows has no SIGHUP
    for status in (-one, 128 + one)
)
_SIGNAL_DELAY = 0.3
"""Seconds to wait, after a command was killed by a signal, for the same signal to reach this process (Ctrl-C,
end of a service), so that the message does not count as failed.
"""

_NOT_RUN = {126: "permission denied, or not executable", 127: "command not found"}
"""Exit statuses with which a POSIX shell reports that it could not run the command."""

Act = Callable[[MessageExt], Awaitable[bool]]


class Consumption:
    """A listener for both kinds of consumers; `done` and `later` are the results it returns.

    `count` limits the tries: a message whose command failed counts like a consumed one.
    """

    def __init__(self, act: Act, *, count: int | None, done: Any, later: Any) -> None:
        self._act = act
        self._left = count
        self._done, self._later = done, later
        self._enough = trio.Event()
        self._arrived = trio.Event()
        self._running = 0
        self._ended = trio.lowlevel.ParkingLot()
        self._failure: OSError | CommandNotRun | None = None
        self.consumed = 0
        self.failed = 0
        self.was_idle = False

    async def __call__(self, messages: list[MessageExt], context: object) -> Any:
        (message,) = messages
        await self._turn()
        self._arrived.set()
        try:
            consumed = await self._act(message)
        except (OSError, CommandNotRun) as error:  # every message would fail: closed output, no command
            # No status is ever returned, so the message stays with the group.
            self._failure = error
            self._enough.set()
            await trio.sleep_forever()
        finally:
            self._running -= 1
            self._ended.unpark_all()
        self._count(consumed=consumed)
        return self._done if consumed else self._later

    async def _turn(self) -> None:
        """Wait while the running messages may complete the count."""
        while self._enough.is_set() or (self._left is not None and self._running >= self._left):
            await self._ended.park()
        self._running += 1

    def _count(self, *, consumed: bool) -> None:
        self.consumed += consumed
        self.failed += not consumed
        self._arrived.set()
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self._enough.set()

    async def wait(
        self, idle: float | None, pipe: Pipe | None = None, *, begun: Callable[[], Awaitable[None]]
    ) -> None:
        """Wait until enough messages are consumed, none arrives for `idle` seconds, or the reader of the pipe
        is gone.

        `begun` waits until messages can arrive. Raise the error that ended the consumption.
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
        while self._running:  # messages that the reader read before it left are consumed
            await self._ended.park()
        self._failure = self._failure or BrokenPipeError()
        self._enough.set()

    async def _watch(self, idle: float, begun: Callable[[], Awaitable[None]]) -> None:
        await begun()
        while True:
            self._arrived = trio.Event()
            with trio.move_on_after(idle) as silence:
                await self._arrived.wait()
            if silence.cancelled_caught and not self._running:
                self.was_idle = True
                self._enough.set()
                return


def printing(output: Output, render: Callable[[MessageExt], bytes], pipe: Pipe | None) -> Act:
    """Return an action that prints each message; with `pipe`, it waits until the reader has it."""

    async def act(message: MessageExt) -> bool:
        if pipe is not None:
            await pipe.put(render(message))
            return True
        output.write(render(message))
        output.flush()
        return True

    return act


def running(shell_command: str, retries: int | None, producer: Producer | None = None) -> Act:
    """Return an action that runs the command for each message, with the body on standard input.

    With a producer, the output of the command is the reply. `retries` None: failed messages are not retried.
    The action raises CommandNotRun for a status with which the shell reports that it could not run the
    command.
    """

    async def act(message: MessageExt) -> bool:
        done = await trio.run_process(
            ["/bin/sh", "-c", shell_command],
            stdin=message.body,
            check=False,
            env=environment(message),
            capture_stdout=producer is not None,
        )
        # Ctrl-C reaches the command before this process: let it end the consumption first. Otherwise the
        # message would count as failed, and could become a dead letter.
        if done.returncode in _TERMINATED:
            await trio.sleep(_SIGNAL_DELAY)
        if done.returncode in _NOT_RUN:
            why = f"status {done.returncode}: {_NOT_RUN[done.returncode]}"
            raise CommandNotRun(f"--exec {shell_command!r}: {why}; {message.msg_id} stays with the group")
        if done.returncode:
            fate = _fate(message.reconsume_times, retries)
            warn(f"{message.queue}: message {message.msg_id} {fate}: {_exit_text(done.returncode)}")
        elif producer is not None:
            await _reply(producer, message, done.stdout)
        return not done.returncode

    return act


def _fate(reconsume_times: int, retries: int | None) -> str:
    if retries is None:
        return "failed"
    return "will be retried" if reconsume_times < retries else "is now a dead letter"


def _exit_text(status: int) -> str:
    return f"status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"


async def _reply(producer: Producer, request: MessageExt, printed: bytes) -> None:
    """Send the reply. Even after a failure the message counts as consumed, because its sender may not expect
    a reply.
    """
    why: object = "the requesting client has disconnected"
    try:
        if await producer.reply(request, printed.removesuffix(b"\n")) is not None:
            return
    except ClientError as error:
        why = error
    warn(f"{request.queue}: message {request.msg_id} was not replied to: {why}")


def environment(message: MessageExt) -> Mapping[str, str]:
    """Return the environment of this process with RMQ_* variables of the message; U+0000, which no
    environment can hold, is removed.
    """
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
