"""The consumer groups that a broker knows (Java class `SubscriptionGroupManager`). Plain state, as the
topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from broker.tables.versions import first_version, next_version
from codec.bodies.config import DataVersion, SubscriptionGroupConfig, SubscriptionGroupWrapper
from codec.names import SYSTEM_GROUP_PREFIX, retry_topic

LONGEST_FOLDER_NAME = 255
"""Bytes; Linux NAME_MAX."""

BUILT_IN_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)


class GroupTable:
    """Group name → config. With `auto_create` a group that someone uses is made at once."""

    def __init__(self, now_ms: Callable[[], int], *, auto_create: bool = True) -> None:
        self._now_ms = now_ms
        self._groups = {
            name: SubscriptionGroupConfig(group_name=name, consume_broadcast_enable=True)
            for name in BUILT_IN_GROUPS
        }
        self.auto_create = auto_create
        self.version = first_version(now_ms)
        self.get: Callable[[str], SubscriptionGroupConfig | None] = self._groups.get

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def find(self, group: str) -> tuple[SubscriptionGroupConfig | None, bool]:
        """The config of a group, and whether it was made just now. None when it may not be made: also when
        the store could not have its retry topic.
        """
        config = self._groups.get(group)
        if config is not None:
            return config, False
        if not (self.auto_create or group.startswith(SYSTEM_GROUP_PREFIX)) or not can_have_retry_topic(group):
            return None, False
        config = SubscriptionGroupConfig(group_name=group)
        self.put(config)
        return config, True

    def put(self, config: SubscriptionGroupConfig) -> None:
        """Creates or overwrites a group; the version goes up."""
        self._groups[config.group_name] = config
        self.version = next_version(self.version, self._now_ms)

    def remove(self, group: str) -> bool:
        if self._groups.pop(group, None) is None:
            return False
        self.version = next_version(self.version, self._now_ms)
        return True

    def wrapper(self) -> SubscriptionGroupWrapper:
        return SubscriptionGroupWrapper(
            data_version=self.version, subscription_group_table=dict(self._groups)
        )

    def load(self, wrapper: SubscriptionGroupWrapper) -> None:
        self._groups.update(wrapper.subscription_group_table)
        self.version = wrapper.data_version or DataVersion(timestamp=self._now_ms(), counter=0)


def can_have_retry_topic(group: str) -> bool:
    """Whether the name can be part of a folder's name: 4.9 takes every name, even one that leads out of
    the store."""
    try:
        name = retry_topic(group).encode()
    except UnicodeEncodeError:
        return False
    return bool(group.strip()) and not {"/", "\0"} & set(group) and len(name) <= LONGEST_FOLDER_NAME
