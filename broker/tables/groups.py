"""The consumer groups that a broker knows (Java class `SubscriptionGroupManager`)."""

from __future__ import annotations

from collections.abc import Callable

from rmqcli.broker.tables.configs import ConfigTable
from rmqcli.codec.bodies.config import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rmqcli.codec.names import BUILT_IN_GROUPS, MAX_GROUP_LENGTH, RETRY_PREFIX, SYSTEM_GROUP_PREFIX

FORBIDDEN_READ = 1 << 2
"""The bit of `forbidden_table` that forbids reading (Java `PermName.INDEX_PERM_READ`)."""


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
        """Return the config of a group, and True if this call created it. Return None also if `name_problem`
        finds a problem."""
        if name_problem(group) is not None:  # a saved table may have such a group, as Java accepts any name
            return None, False
        config = self._configs.get(group)
        if config is not None:
            return config, False
        if not (self.auto_create or group.startswith(SYSTEM_GROUP_PREFIX)):
            return None, False
        config = SubscriptionGroupConfig(group_name=group)
        self.put(config)
        return config, True

    def put(self, config: SubscriptionGroupConfig) -> None:
        """Create or overwrite a group."""
        self._put(config.group_name, config)

    def is_forbidden(self, group: str, topic: str) -> bool:
        """Return True if the group must not read the topic."""
        return bool(self._forbidden) and bool(
            (self._forbidden or {}).get(group, {}).get(topic, 0) & FORBIDDEN_READ
        )

    def forbid(self, group: str, topic: str, *, is_forbidden: bool) -> None:
        """Forbid a group to consume a topic, or allow it again."""
        table = self._forbidden = self._forbidden or {}
        bits = table.get(group, {}).get(topic, 0)
        bits = bits | FORBIDDEN_READ if is_forbidden else bits & ~FORBIDDEN_READ
        if bits:
            table.setdefault(group, {})[topic] = bits
        elif topic in table.get(group, {}):
            del table[group][topic]
            if not table[group]:
                del table[group]
        self.renew_version()

    def wrapper(self) -> SubscriptionGroupWrapper:
        return SubscriptionGroupWrapper(
            data_version=self.version,
            subscription_group_table=dict(self._configs),
            forbidden_table=self._forbidden,
        )

    def load(self, wrapper: SubscriptionGroupWrapper) -> None:
        self._load(wrapper.subscription_group_table, wrapper.data_version)
        self._forbidden = wrapper.forbidden_table


def name_problem(group: str) -> str | None:
    """Return the problem with the name of a group; None if there is none.

    The retry topic of a group is a folder of the store and part of records. Characters that Java's clients do
    not use are accepted, as by a 4.9 broker.
    """
    if not group.strip():
        return "the name of the group is blank"
    if "/" in group or "\0" in group:
        return f"the group[{group}] has a name that no folder can have"
    try:
        size = len(group.encode())
    except UnicodeEncodeError:
        return "the name of the group is not text"
    if size > MAX_GROUP_LENGTH:
        return (
            f"the group[{group[:MAX_GROUP_LENGTH]}…] has a name of {size} bytes, {MAX_GROUP_LENGTH} is the "
            f"limit: its retry topic {RETRY_PREFIX}… could not be stored"
        )
    return None
