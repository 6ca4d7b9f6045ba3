"""The state that the handlers of a name server share."""

from __future__ import annotations

import trio

from broker.clock import NowMs
from broker.config.namesrv import NamesrvConfig
from broker.disk import REAL, Disk
from broker.namesrv.kv_config import KVConfig
from broker.namesrv.route_table import RouteTable
from broker.net.dispatch import Barrier
from broker.net.session import Session
from broker.store.readiness import InThread


class NameServerState:
    """Routes, key-value entries and the configuration, which is replaced when it changes."""

    def __init__(
        self,
        config: NamesrvConfig,
        kv: KVConfig,
        now_ms: NowMs,
        *,
        disk: Disk = REAL,
        in_thread: InThread = trio.to_thread.run_sync,
    ) -> None:
        self.barrier: Barrier | None = None
        """Set by a handler whose reply waits for the disk; see `broker.net.dispatch.Batches`."""
        self.disk = disk
        self.in_thread = in_thread
        self.config = config
        self.kv = kv
        self.now_ms = now_ms
        self.routes = RouteTable()
        self._watched: set[Session] = set()

    def begin_batch(self) -> None:
        self.barrier = None

    def end_batch(self) -> None:
        """Nothing waits for the end of a batch."""

    def watch(self, session: Session) -> None:
        """Removes the registrations of a connection when it ends."""
        if session not in self._watched:
            self._watched.add(session)
            session.on_close(lambda: self._lost(session))

    def _lost(self, session: Session) -> None:
        self._watched.discard(session)
        self.routes.remove_owner(session)
