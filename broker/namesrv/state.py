"""The state that the handlers of a name server share."""

from __future__ import annotations

import logging
from pathlib import Path

import trio

from broker.clock import NowMs
from broker.config import NamesrvConfig, config_properties, expand_path, write_properties
from broker.disk import REAL, Disk, load_table, save_table
from broker.namesrv.route_table import RouteTable
from broker.net.dispatch import Barrier
from broker.net.session import Session
from broker.store.readiness import InThread
from codec.bodies.base import encode_body
from codec.bodies.route import KVConfigSerializeWrapper
from codec.bodies.tables import decode_table

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"

_log = logging.getLogger("broker.namesrv")


class KVConfig:
    """Namespaces of entries (Java `KVConfigManager`), saved at every change unless `path` is None."""

    def __init__(
        self, path: Path | None = None, *, disk: Disk = REAL, in_thread: InThread = trio.to_thread.run_sync
    ) -> None:
        self._path = path
        self._disk = disk
        self._in_thread = in_thread
        self._changing = trio.Lock()
        self._namespaces: dict[str, dict[str, str]] = {}

    def load(self) -> None:
        """Reads the file if there is one. Blocks. StoreDamaged when file and backup are unreadable."""
        if self._path is not None:
            self._namespaces = load_table(self._disk, self._path, _decode) or {}

    def get(self, namespace: str, key: str) -> str | None:
        return self._namespaces.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """The entries of a namespace; None when it never had any."""
        entries = self._namespaces.get(namespace)
        return None if entries is None else dict(entries)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Sets an entry, once it is saved. OSError when it cannot be saved: it does not exist then."""
        async with self._changing:
            await self._replace(namespace, {**self._namespaces.get(namespace, {}), key: value})

    async def delete(self, namespace: str, key: str) -> None:
        """Removes an entry, once that is saved. OSError when it cannot be saved: the entry still exists."""
        async with self._changing:
            entries = self._namespaces.get(namespace)
            if entries is not None and key in entries:
                rest = {name: value for name, value in entries.items() if name != key}
                await self._replace(namespace, rest)

    async def _replace(self, namespace: str, entries: dict[str, str]) -> None:
        namespaces = {**self._namespaces, namespace: entries}
        if self._path is not None:
            text = encode_body(KVConfigSerializeWrapper(config_table=namespaces))
            await self._in_thread(save_table, self._disk, self._path, text)
        self._namespaces = namespaces


def _decode(data: bytes) -> dict[str, dict[str, str]]:
    return decode_table(KVConfigSerializeWrapper, data).config_table


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
        self.config = config
        self.kv = kv
        self.now_ms = now_ms
        self.routes = RouteTable()
        self.in_thread = in_thread
        self._disk = disk
        self._saving = trio.Lock()
        self._watched: set[Session] = set()

    def begin_batch(self) -> None:
        self.barrier = None

    def end_batch(self) -> None:
        """Nothing waits for the end of a batch."""

    async def save_config(self) -> None:
        """Saves the current configuration at `configStorePath`."""
        if not self.config.config_store_path:
            return
        path = expand_path(self.config.config_store_path)
        async with self._saving:
            try:
                await self.in_thread(write_properties, path, config_properties(self.config), self._disk)
            except OSError as error:  # the change holds until the next start, as in Java
                _log.error("cannot save the configuration to %s: %s", path, error)

    def watch(self, session: Session) -> None:
        """Removes the registrations of a connection when it ends."""
        if session not in self._watched:
            self._watched.add(session)
            session.on_close(lambda: self._lost(session))

    def _lost(self, session: Session) -> None:
        self._watched.discard(session)
        self.routes.remove_owner(session)
