"""The three styles of the client, so that one scenario is a test of all: trio, asyncio and threads.

A scenario is an async function of a Style. In the style for threads its calls block, and nothing is awaited.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any, Self

import trio

from rmqcli import client
from rmqcli.client import (
    ClientError,
    ConsumeFromWhere,
    ConsumeResult,
    LiteSettings,
    MessageExt,
    PushSettings,
    aio,
    sync,
)
from tests.support import PATIENCE

Cancel = Callable[[], None]


class Blocking:
    """A client for threads, with methods that can be awaited."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aenter__(self) -> Self:
        self._inner.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inner.__exit__(kind, error, trace)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._inner, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            return method(*arguments, **options)

        return call


@dataclass(frozen=True)
class Style:
    """How a program of this style runs, waits, and creates clients and listeners."""

    name: str
    module: ModuleType
    run: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
    sleep: Callable[[float], Awaitable[None]]
    within: Callable[[float], Any]
    """An async context that is cancelled after some seconds, or by the function that it yields."""

    def client(self, kind: str, *arguments: Any, **options: Any) -> Any:
        made = getattr(self.module, kind)(*arguments, **options)
        return Blocking(made) if self.module is sync else made

    def listener(self, function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        """Return a listener that passes messages to a plain function, which must not block."""

        async def listen(messages: Any, context: Any) -> Any:
            return function(messages)

        def listen_in_thread(messages: Any, context: Any) -> Any:
            return function(messages)

        return listen_in_thread if self.module is sync else listen


def _run_blocking(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        scenario().send(None)
    except StopIteration:
        return
    raise AssertionError("the scenario waits for something that does not block")


async def _block(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251  the style for threads


class TooLate(BaseException):
    """Raised in a blocking call, as KeyboardInterrupt is."""


@asynccontextmanager
async def _within_trio(seconds: float) -> AsyncIterator[Cancel]:
    with trio.move_on_after(seconds) as scope:
        yield scope.cancel


@asynccontextmanager
async def _within_asyncio(seconds: float) -> AsyncIterator[Cancel]:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds) as limit:
            yield lambda: limit.reschedule(0)


@asynccontextmanager
async def _within_blocking(seconds: float) -> AsyncIterator[Cancel]:
    def alarm(*_: object) -> None:
        raise TooLate

    before = signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield lambda: signal.raise_signal(signal.SIGALRM)
    except TooLate:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


STYLES = (
    Style("trio", client, trio.run, trio.sleep, _within_trio),
    Style("asyncio", aio, lambda scenario: asyncio.run(scenario()), asyncio.sleep, _within_asyncio),
    Style("threads", sync, _run_blocking, _block, _within_blocking),
)

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
PUSH = PushSettings(consume_from=FIRST, rebalance_interval=1, grace=0.5)
LITE = LiteSettings(consume_from=FIRST, rebalance_interval=1)


class Consumers:
    """A consumer of each kind, of one topic with one queue, and the bodies that they got."""

    def __init__(self, style: Style, topic: str, **options: Any) -> None:
        self._style, self.topic = style, topic
        self.heard: dict[str, list[bytes]] = {"push": [], "lite": [], "pull": []}
        self.groups = {kind: f"G_{topic}_{kind}" for kind in self.heard}
        self._offset = 0
        self.push = style.client(
            "PushConsumer",
            self.groups["push"],
            {topic: "*"},
            style.listener(self._pushed),
            settings=PUSH,
            **options,
        )
        self.lite = style.client("LitePullConsumer", self.groups["lite"], settings=LITE, **options)
        self.pull = style.client("PullConsumer", self.groups["pull"], **options)

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        for one in (self.push, self.lite, self.pull):
            await self._stack.enter_async_context(one)
        await self.lite.subscribe(self.topic)
        (self.queue,) = await self.pull.message_queues(self.topic)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    def _pushed(self, messages: list[MessageExt]) -> ConsumeResult:
        self._note("push", messages)
        return ConsumeResult.SUCCESS

    def _note(self, kind: str, messages: list[MessageExt]) -> None:
        self.heard[kind] += [message.body for message in messages]

    async def get(self, *bodies: bytes) -> None:
        """Get messages until every consumer has got these."""
        until = time.monotonic() + PATIENCE
        while not all(set(bodies) <= set(found) for found in self.heard.values()):
            assert time.monotonic() < until, self.heard
            self._note("lite", await self.lite.poll(0.1))
            try:
                result = await self.pull.pull(self.queue, self._offset)
            except ClientError:
                await self._style.sleep(0.1)
                continue
            self._note("pull", result.messages)
            self._offset = result.next_begin_offset
