"""Namespaces of key-value entries (Java `KVConfigManager`), saved as kvConfig.json at every change."""

from __future__ import annotations

from pathlib import Path

from broker.store.tables_file import load_table, save_table
from codec.bodies.base import decode_body, encode_body
from codec.bodies.route import KVConfigSerializeWrapper

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"


class KVConfig:
    """All namespaces; `path` None saves nothing.

    Raises StoreDamaged when both file and backup are unreadable.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._namespaces: dict[str, dict[str, str]] = {}
        if path is not None:
            self._namespaces = load_table(path, _decode) or {}

    def get(self, namespace: str, key: str) -> str | None:
        return self._namespaces.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """The entries of a namespace; None when it never had any."""
        entries = self._namespaces.get(namespace)
        return None if entries is None else dict(entries)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Sets an entry. Raises OSError when it cannot be saved; it then does not change."""
        self._replace(namespace, {**self._namespaces.get(namespace, {}), key: value})

    def delete(self, namespace: str, key: str) -> None:
        """Deletes an entry. Raises OSError when that cannot be saved; the entry then stays."""
        entries = self._namespaces.get(namespace)
        if entries is not None and key in entries:
            self._replace(namespace, {name: value for name, value in entries.items() if name != key})

    def _replace(self, namespace: str, entries: dict[str, str]) -> None:
        namespaces = {**self._namespaces, namespace: entries}
        if self._path is not None:
            save_table(self._path, encode_body(KVConfigSerializeWrapper(config_table=namespaces)))
        self._namespaces = namespaces


def _decode(data: bytes) -> dict[str, dict[str, str]]:
    return decode_body(KVConfigSerializeWrapper, data).config_table
