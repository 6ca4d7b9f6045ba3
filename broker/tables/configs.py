"""Tables of configs with a version, which peers compare but never order (Java class `DataVersion`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from rmqcli.codec.bodies.config import DataVersion

ConfigT = TypeVar("ConfigT")


def first_version(now_ms: Callable[[], int]) -> DataVersion:
    """Return the version of an unchanged table."""
    return DataVersion(timestamp=now_ms(), counter=0)


def next_version(version: DataVersion, now_ms: Callable[[], int]) -> DataVersion:
    """Return the version after one more change."""
    return DataVersion(timestamp=now_ms(), counter=version.counter + 1)


class ConfigTable(Generic[ConfigT]):
    """Name → config. With `auto_create`, a config is created when its name is used.

    `dirty` is True if the table must be saved; the caller that changes the table sets it.
    """

    def __init__(
        self, now_ms: Callable[[], int], configs: Mapping[str, ConfigT], *, auto_create: bool
    ) -> None:
        self._now_ms = now_ms
        self._configs = dict(configs)
        self.auto_create = auto_create
        self.dirty = False
        self.version = first_version(now_ms)
        # Bound once for the hot paths, so `_configs` is changed in place and never replaced.
        self.get: Callable[[str], ConfigT | None] = self._configs.get

    def __contains__(self, name: str) -> bool:
        return name in self._configs

    def __iter__(self) -> Iterator[str]:
        return iter(self._configs)

    def __len__(self) -> int:
        return len(self._configs)

    def remove(self, name: str) -> bool:
        """Remove a config. Return False if there was none."""
        if self._configs.pop(name, None) is None:
            return False
        self.renew_version()
        return True

    def replace_all(self, configs: Mapping[str, ConfigT], version: DataVersion) -> bool:
        """Replace the table with that of a master, unless it has that version already. Return True if it was
        replaced."""
        if version == self.version:
            return False
        self._configs.clear()
        self._load(configs, version)
        return True

    def renew_version(self) -> None:
        """Count a change of the registered data, including data outside the configs."""
        self.version = next_version(self.version, self._now_ms)

    def _put(self, name: str, config: ConfigT) -> None:
        self._configs[name] = config
        self.renew_version()

    def _load(self, configs: Mapping[str, ConfigT], version: DataVersion | None) -> None:
        self._configs.update(configs)
        self.version = version or first_version(self._now_ms)
