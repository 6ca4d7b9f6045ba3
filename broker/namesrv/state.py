"""The state shared by the handlers of a name server."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import trio

from rmqcli.broker.config import NamesrvConfig, config_properties, expand_path, write_properties
from rmqcli.broker.disk import REAL, Disk
from rmqcli.broker.namesrv.kv_config import KVConfig
from rmqcli.broker.namesrv.route_table import RouteTable
from rmqcli.broker.net.dispatch import Barrier
from rmqcli.broker.net.session import Session
from rmqcli.broker.net.turns import Jobs, Turns
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.system import NowMs

_log = logging.getLogger("rmqcli.broker.namesrv")


class NameServerState:
    """Routes, key-value entries, and the configuration, which is replaced on a change."""

    def __init__(
        self,
        config: NamesrvConfig,
        kv: KVConfig,
        now_ms: NowMs,
        *,
        disk: Disk = REAL,
        in_thread: InThread = trio.to_thread.run_sync,
        jobs: Jobs | None = None,
    ) -> None:
        self.barrier: Barrier | None = None
        """Set by a handler whose reply waits for the disk; see `rmqcli.broker.net.dispatch.Batches`."""
        self.config = config
        self.kv = kv
        self.now_ms = now_ms
        self.address: Mapping[str, str] = {}
        """The actual values of `bindAddress` and `listenPort`."""
        self.grpc_port: int | None = None
        """The port for gRPC clients of the broker that this process also runs."""
        self.routes = RouteTable()
        self.in_thread = in_thread
        self.jobs = jobs or Jobs(Turns())
        self._disk = disk
        self._saving = trio.Lock()
        self._watched: set[Session] = set()

    def begin_batch(self) -> None:
        self.barrier = None

    def end_batch(self) -> None:
        """Do nothing: nothing waits for the end of a batch."""

    async def save_config(self) -> None:
        """Save the current configuration to `configStorePath`."""
        if not self.config.config_store_path:
            return
        path = expand_path(self.config.config_store_path)
        async with self._saving:
            try:
                await self.in_thread(write_properties, path, config_properties(self.config), self._disk)
            except OSError as error:  # the change is effective until the next start, as in Java
                _log.error("cannot save the configuration to %s: %s", path, error)

    def watch(self, session: Session) -> None:
        """Remove the registrations of a connection when it ends."""
        if session not in self._watched:
            self._watched.add(session)
            session.on_close(lambda: self._lost(session))

    def _lost(self, session: Session) -> None:
        self._watched.discard(session)
        self.jobs.begin(self.routes.remove_owner(session))
