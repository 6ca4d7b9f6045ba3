"""The key-value entries of a name server (Java `KVConfigManager`)."""

from __future__ import annotations

from pathlib import Path

import trio

from rmqcli.broker.disk import REAL, Disk, backup_of, load_table, save_table
from rmqcli.broker.errors import Refusal
from rmqcli.broker.store.readiness import InThread
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.route import KVConfigSerializeWrapper
from rmqcli.codec.bodies.tables import decode_table
from rmqcli.codec.codes import ResponseCode

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
MOST_CHARACTERS = 4 * 1024 * 1024
"""Maximum number of characters of all key-value entries: names, values, and `EACH_ENTRY` each. Every change
saves all of them."""
EACH_ENTRY = 64


class KVConfig:
    """Namespaces of entries, saved on every change unless `path` is None."""

    def __init__(
        self, path: Path | None = None, *, disk: Disk = REAL, in_thread: InThread = trio.to_thread.run_sync
    ) -> None:
        self._path = path
        self._disk = disk
        self._in_thread = in_thread
        self._changing = trio.Lock()
        self._namespaces: dict[str, dict[str, str]] = {}
        self._size = 0

    def load(self) -> None:
        """Read the file if there is one. Blocks. Raises StoreDamaged if file and backup are unreadable."""
        if self._path is not None:
            backup = backup_of(self._path)
            # The file is saved on changes only: if there is a .bak, there was at least one entry.
            needed = "" if self._disk.state(backup) is None else f"beside {backup}"
            self._namespaces = load_table(self._disk, self._path, _decode, needed=needed) or {}
            self._size = sum(
                _size(namespace, key, value)
                for namespace, entries in self._namespaces.items()
                for key, value in entries.items()
            )

    def get(self, namespace: str, key: str) -> str | None:
        return self._namespaces.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return the entries of a namespace; None if it never had any."""
        entries = self._namespaces.get(namespace)
        return None if entries is None else dict(entries)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Save and then set an entry. Raises OSError, without setting it, if it cannot be saved, and Refusal
        if there are too many characters."""
        async with self._changing:
            known = self.get(namespace, key)
            more = len(value) - len(known) if known is not None else _size(namespace, key, value)
            if more > 0 and self._size + more > MOST_CHARACTERS:
                remark = f"the entries can have {MOST_CHARACTERS} characters at most"
                raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
            await self._save(namespace, key, value)
            self._namespaces.setdefault(namespace, {})[key] = value
            self._size += more

    async def delete(self, namespace: str, key: str) -> None:
        """Remove an entry once that is saved. Raises OSError, without removing it, if that cannot be
        saved."""
        async with self._changing:
            value = self.get(namespace, key)
            if value is not None:
                await self._save(namespace, key, None)
                del self._namespaces[namespace][key]
                self._size -= _size(namespace, key, value)

    async def _save(self, namespace: str, key: str, value: str | None) -> None:
        """Save the entries with one of them changed, or removed if `value` is None."""
        if self._path is not None:
            await self._in_thread(self._write, self._path, namespace, key, value)

    def _write(self, path: Path, namespace: str, key: str, value: str | None) -> None:
        """Write the entries, in a thread because copying and writing thousands of them takes long. They do
        not change meanwhile."""
        entries = {name: one for name, one in self._namespaces.get(namespace, {}).items() if name != key}
        if value is not None:
            entries[key] = value
        table = KVConfigSerializeWrapper(config_table={**self._namespaces, namespace: entries})
        save_table(self._disk, path, encode_body(table))


def _size(namespace: str, key: str, value: str) -> int:
    return EACH_ENTRY + len(namespace) + len(key) + len(value)


def _decode(data: bytes) -> dict[str, dict[str, str]] | None:
    table = decode_table(KVConfigSerializeWrapper, data)
    return None if table is None else table.config_table
