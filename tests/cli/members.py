"""Running members of a group, in threads of their own."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import trio

from rmqcli.client import ConsumeResult, PushConsumer, PushSettings
from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere
from rmqcli.codec.message import MessageExt
from rmqcli.testing import HasNameServer
from tests.support import PATIENCE

Listener = Callable[[list[MessageExt], Any], Awaitable[ConsumeResult]]

__all__ = ["Member", "member"]


class Member:
    """The bodies that a member consumed; `fails` makes its listener raise, `result` is its result."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.fails = False
        self.result = ConsumeResult.SUCCESS
        self.came = threading.Condition()

    async def consume(self, messages: list[MessageExt], context: Any) -> ConsumeResult:
        with self.came:
            self.bodies += [message.body for message in messages]
            self.came.notify_all()
        if self.fails:
            raise RuntimeError("the till is closed")
        return self.result

    def wait_for(self, count: int) -> None:
        with self.came:
            assert self.came.wait_for(lambda: len(self.bodies) >= count, PATIENCE)


@contextmanager
def member(cluster: HasNameServer, group: str, topic: str) -> Iterator[Member]:
    """A push consumer from the first message on; it is gone when the block ends."""
    found, ready, end = Member(), threading.Event(), trio.Event()
    token: list[trio.lowlevel.TrioToken] = []
    settings = PushSettings(grace=0.0, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)

    async def main() -> None:
        token.append(trio.lowlevel.current_trio_token())
        async with PushConsumer(
            group,
            {topic: "paid || sent"},
            found.consume,
            settings=settings,
            namesrv=cluster.namesrv,
            timeout=PATIENCE,
        ):
            ready.set()
            await end.wait()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield found
    finally:
        token[0].run_sync_soon(end.set)
        thread.join()
