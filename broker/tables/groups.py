"""The consumer groups that a broker knows (Java class `SubscriptionGroupManager`)."""

from __future__ import annotations

from collections.abc import Callable

from broker.tables.configs import ConfigTable
from codec.bodies.config import SubscriptionGroupConfig, SubscriptionGroupWrapper
from codec.names import BUILT_IN_GROUPS, SYSTEM_GROUP_PREFIX, retry_topic

LONGEST_FOLDER_NAME = 255
"""Bytes; Linux NAME_MAX."""


class GroupTable(ConfigTable[SubscriptionGroupConfig]):
    """Group name → config."""

    def __init__(self, now_ms: Callable[[], int], *, auto_create: bool = True) -> None:
        built_in = {
            name: SubscriptionGroupConfig(group_name=name, consume_broadcast_enable=True)
            for name in BUILT_IN_GROUPS
        }
        super().__init__(now_ms, built_in, auto_create=auto_create)
        self._forbidden: dict[str, dict[str, int]] | None = None

    def find(self, group: str) -> tuple[SubscriptionGroupConfig | None, bool]:
        """The config of a group, and True if this created it. None also when it could have no retry topic."""
        config = self._configs.get(group)
        if config is not None:
            return config, False
        if not (self.auto_create or group.startswith(SYSTEM_GROUP_PREFIX)) or not can_have_retry_topic(group):
            return None, False
        config = SubscriptionGroupConfig(group_name=group)
        self.put(config)
        return config, True

    def put(self, config: SubscriptionGroupConfig) -> None:
        """Creates or overwrites a group."""
        self._put(config.group_name, config)

    def wrapper(self) -> SubscriptionGroupWrapper:
        return SubscriptionGroupWrapper(
            data_version=self.version,
            subscription_group_table=dict(self._configs),
            forbidden_table=self._forbidden,
        )

    def load(self, wrapper: SubscriptionGroupWrapper) -> None:
        self._load(wrapper.subscription_group_table, wrapper.data_version)
        self._forbidden = wrapper.forbidden_table


def can_have_retry_topic(group: str) -> bool:
    """True when the name can be part of a folder's name: 4.9 accepts even one that leads out of the store."""
    try:
        name = retry_topic(group).encode()
    except UnicodeEncodeError:
        return False
    return bool(group.strip()) and not {"/", "\0"} & set(group) and len(name) <= LONGEST_FOLDER_NAME
