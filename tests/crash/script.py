"""A session: clients work on a broker whose disk is simulated, until a power cut or a kill ends it.

Everything follows from one seed: what the clients do and when, how long the disk takes, when the broker is
stopped and started again, how the clock is set, and at which call to the disk it all ends.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import trio

from rmqcli.broker.config import BrokerConfig
from rmqcli.broker.errors import StoreError
from rmqcli.broker.node import open_broker
from rmqcli.broker.store import MessageStore
from rmqcli.broker.testing.disk import SimulatedDisk
from rmqcli.broker.testing.in_memory import HOST, MemoryNetwork
from rmqcli.codec.remoting.command import RemotingCommand
from tests.crash.clients import Clients
from tests.crash.model import Model
from tests.crash.plan import PAUSES_S, PORT, SAVE_S, SETTINGS, TOPICS, Clock, Fault, Plan, image_of
from tests.crash.retention import HARDLY_ANY, Causes
from tests.crash.wire import Gone as Closed
from tests.crash.wire import Wire

DISK_S = (0.0, 0.0, 0.002, 0.02)
NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})


class Session:
    """The clients, and the broker in its lives, from one end to the next. `after` is the disk then."""

    def __init__(
        self,
        model: Model,
        disk: SimulatedDisk,
        clock: Clock,
        rng: random.Random,
        plan: Plan,
        causes: Causes,
        fault: Fault | None = None,
        settings: Mapping[str, Any] = NO_SETTINGS,
    ) -> None:
        self.model = model
        self.disk = disk
        self.clock = clock
        self.rng = rng
        self.plan = plan
        self.causes = causes
        self.fault = fault
        self.settings = settings
        self.refused_starts = 0
        self.after: SimulatedDisk | None = None
        self.opened: Callable[[Session], None] = lambda _: None
        """Called when the store was recovered, before the broker changes anything: the first time, and after
        stops that a disk may have kept from being clean."""
        self._is_open = False
        self.calls = 0
        self.requests = self.replies = 0
        disk.on_call = self._count

    @property
    def had_no_room(self) -> bool:
        """True if a call was refused with ENOSPC."""
        fault = self.fault
        return fault is not None and fault.errno == errno.ENOSPC and self.calls >= fault.call

    def _count(self, _name: str) -> None:
        self.calls += 1
        if self.calls == self.plan.last_call:
            self.end()
        if self.fault is not None and self.calls == self.fault.call:
            raise OSError(self.fault.errno, os.strerror(self.fault.errno))

    def end(self) -> None:
        """The power goes, or the process dies, now."""
        if self.after is not None:
            return
        if self.fault is None:
            self.model.saved_by = trio.current_time() - 2 * SAVE_S
        if self.plan.journal is None:
            self.model.kill()
            self.after = self.disk.killed()
        else:
            self.model.cut(image_of(self.disk.synced()))
            self.after = self.disk.power_cut(self.plan.journal)

    def fill(self, used: int) -> None:
        """Has other programs use so many bytes of the disk, unless that has ended with its power."""
        if self.after is not None:
            return
        self.disk.used = used
        self.causes.fill(used, trio.current_time())

    async def run(self) -> None:
        for _ in range(self.plan.lives):
            try:
                await self.live(self._work)
            except (OSError, StoreError):  # a start may be refused, by a disk that refuses or has no room
                if self.fault is None and self.causes.used < HARDLY_ANY:
                    raise
                self.refused_starts += 1
            if self.after is not None:
                return
        self.end()

    async def live(self, work: Callable[[Clients], Any]) -> None:
        """Runs a broker, and `work` with a connection to it. Raises what ends the broker."""
        try:
            await self._live(work)
        except BaseExceptionGroup as group:
            alone: BaseException = group
            while isinstance(alone, BaseExceptionGroup) and len(alone.exceptions) == 1:
                alone = alone.exceptions[0]
            raise alone from None

    async def _live(self, work: Callable[[Clients], Any]) -> None:
        self.model.life += 1
        self.sync = self.rng.random() < 0.5 if self.plan.sync is None else self.plan.sync
        flush = "SYNC_FLUSH" if self.sync else "ASYNC_FLUSH"
        config = BrokerConfig(
            **{**SETTINGS, **self.causes.settings, **self.settings, "flush_disk_type": flush}
        )
        async with trio.open_nursery() as nursery:
            network = MemoryNetwork(nursery)
            async with open_broker(
                config,
                now_ms=self.clock,
                rng=random.Random(self.rng.random()),
                network=network,
                in_thread=self._in_place,
                disk=self.disk,
            ):
                if self.after is None:
                    wire = Wire(await network.open_stream(HOST, PORT))
                    clients = self._clients(wire)
                    nursery.start_soon(wire.run, clients.asked)
                    nursery.start_soon(clients.answer)
                    await work(clients)
            nursery.cancel_scope.cancel()

    async def _in_place(self, function: Callable[..., Any], *arguments: Any, **_options: Any) -> Any:
        """Stands for a worker thread."""
        await trio.sleep(self.rng.choice(DISK_S))
        with self.disk.worker():
            result = function(*arguments)
        if getattr(function, "__func__", None) is MessageStore.load and self.after is None:
            self._note_open()
        return result

    def _note_open(self) -> None:
        if self._is_open and self.fault is None:
            return  # after a clean stop
        if self._is_open:
            self.model.kill()
        self._is_open = True
        self.opened(self)

    # --- the clients

    def _clients(self, wire: Wire) -> Clients:
        shows_flushed = self.sync and self.fault is None
        return Clients(
            self.model,
            self.rng,
            self.clock,
            self.causes,
            self.fill,
            partial(self._ask, wire),
            wire.tell,
            sync=self.sync,
            shows_flushed=shows_flushed,
        )

    async def _work(self, clients: Clients) -> None:
        try:
            await clients.heartbeat()
            for topic, queues in TOPICS.items():
                if self.model.topics.get(topic) is not True:
                    await clients.create(topic, queues)
        except Closed:
            return
        async with trio.open_nursery() as nursery:
            for client in clients.tasks:
                nursery.start_soon(self._repeat, client)

    async def _repeat(self, request: Callable[[], Any]) -> None:
        for _ in range(self.plan.requests):
            try:
                await request()
            except Closed:
                return
            if self.after is not None:
                return
            await trio.sleep(self.rng.choice(PAUSES_S))

    async def _ask(self, wire: Wire, code: int, header: Any, body: bytes = b"") -> RemotingCommand:
        """Closed, too, if the session ended before the reply: nobody knows of it then."""
        if self.replies == self.plan.last_reply > 0:
            self.end()
            raise Closed
        self.requests += 1
        reply = await wire.ask(code, header, body)
        if self.after is not None:
            raise Closed
        self.replies += 1
        return reply
