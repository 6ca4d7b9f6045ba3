"""The topics of a broker, and the rules for the creation of new ones (Java class `TopicConfigManager`).

The caller that changes the table requests its saving and registration. A config is replaced, never changed in
place, so that its identity shows whether it is still the one that was checked before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from rmqcli.broker.tables.configs import ConfigTable
from rmqcli.codec.bodies.config import TopicConfig, TopicConfigSerializeWrapper
from rmqcli.codec.codes import Perm
from rmqcli.codec.names import SystemTopic, is_system_topic, reply_topic

READ_WRITE = int(Perm.READ | Perm.WRITE)
SCHEDULE_QUEUES = 18
BENCHMARK_QUEUES = 1024
CLUSTER_TOPIC_QUEUES = 16
UNIT = 1
UNIT_SUB = 2


def _config(name: str, queues: int, perm: int = READ_WRITE, sys_flag: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        topic_sys_flag=sys_flag,
    )


def system_topics(
    *,
    cluster: str,
    broker_name: str,
    auto_create: bool = True,
    default_queues: int = 8,
    cluster_topic: bool = True,
    broker_topic: bool = True,
    trace_topic: str | None = None,
) -> list[TopicConfig]:
    """Return the topics that a broker creates for itself; `trace_topic` is the name of the trace topic, if
    any."""
    inherit = int(Perm.INHERIT)
    topics = [
        _config(SystemTopic.SELF_TEST, 1),
        _config(SystemTopic.BENCHMARK, BENCHMARK_QUEUES),
        _config(cluster, CLUSTER_TOPIC_QUEUES, inherit | (READ_WRITE if cluster_topic else 0)),
        _config(broker_name, 1, inherit | (READ_WRITE if broker_topic else 0)),
        _config(SystemTopic.OFFSET_MOVED_EVENT, 1),
        _config(SystemTopic.SCHEDULE, SCHEDULE_QUEUES),
        _config(reply_topic(cluster), 1),
    ]
    if auto_create:
        topics.append(_config(SystemTopic.AUTO_CREATE, default_queues, inherit | READ_WRITE))
    if trace_topic:
        topics.append(_config(trace_topic, 1))
    return topics


class TopicTable(ConfigTable[TopicConfig]):
    """Topic name → config, with a version that the name servers compare.

    `system` has configs that exist from the start; these and RocketMQ's system topics cannot be created or
    deleted.
    """

    def __init__(
        self, now_ms: Callable[[], int], system: Iterable[TopicConfig] = (), *, auto_create: bool = True
    ) -> None:
        super().__init__(now_ms, {config.topic_name: config for config in system}, auto_create=auto_create)
        self._system = set(self._configs)

    def is_system(self, topic: str) -> bool:
        return topic in self._system or is_system_topic(topic)

    def system_names(self) -> list[str]:
        """Return the topics in the reply to GET_SYSTEM_TOPIC_LIST_FROM_BROKER."""
        own = {
            SystemTopic.AUTO_CREATE,
            SystemTopic.TRANS_HALF,
            SystemTopic.TRANS_OP_HALF,
            SystemTopic.TRANS_CHECK_MAX_TIME,
            SystemTopic.TRACE,
        }
        return sorted(self._system | own)

    def put(self, config: TopicConfig) -> None:
        """Create or overwrite a topic."""
        self._put(config.topic_name, config)

    def inherit(
        self, topic: str, default_topic: str, queues: int, *, sys_flag: int = 0
    ) -> TopicConfig | None:
        """Create a topic like the default topic that its producer names. Return None if that is not
        inheritable.

        If automatic creation is off, no topic is inheritable; Java overlooks those named after cluster and
        broker.
        """
        default = self._configs.get(default_topic)
        if default is None or not default.perm & Perm.INHERIT or not self.auto_create:
            return None
        count = max(0, min(queues, default.write_queue_nums))
        config = msgspec.structs.replace(
            _config(topic, count, default.perm & ~int(Perm.INHERIT), sys_flag),
            topic_filter_type=default.topic_filter_type,
        )
        self.put(config)
        return config

    def ensure(self, topic: str, queues: int, *, sys_flag: int = 0) -> tuple[TopicConfig, bool]:
        """Return the config of a retry or dead-letter topic, and True if this call created it."""
        config = self._configs.get(topic)
        if config is not None:
            return config, False
        config = _config(topic, queues, sys_flag=sys_flag)
        self.put(config)
        return config, True

    def set_order_topics(self, ordered: Iterable[str]) -> bool:
        """Mark exactly these topics as ordered (ORDER_TOPIC_CONFIG of name servers). Return True if any
        changed."""
        wanted = set(ordered)
        changed = False
        for name, config in list(self._configs.items()):
            if config.order != (name in wanted):
                self._configs[name] = msgspec.structs.replace(config, order=name in wanted)
                changed = True
        if changed:
            self.renew_version()
        return changed

    def wrapper(self, topics: Iterable[TopicConfig] | None = None) -> TopicConfigSerializeWrapper:
        """Return the table, or a part of it, in the form in which it is saved and registered."""
        table = self._configs if topics is None else {config.topic_name: config for config in topics}
        return TopicConfigSerializeWrapper(data_version=self.version, topic_config_table=dict(table))

    def load(self, wrapper: TopicConfigSerializeWrapper) -> None:
        """Add a saved table, which takes precedence over the configs that exist from the start."""
        self._load(wrapper.topic_config_table, wrapper.data_version)


def describe_topic(config: TopicConfig) -> str:
    """Return a config in the format of Java's `TopicConfig.toString`, which is part of the remark for a wrong
    queue id.
    """
    perm = "".join(letter if config.perm & bit else "-" for letter, bit in (("R", 4), ("W", 2), ("X", 1)))
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm}, topicFilterType={config.topic_filter_type}, "
        f"topicSysFlag={config.topic_sys_flag}, order={'true' if config.order else 'false'}]"
    )


# The attributes of a topic and their changes (Java classes `TopicAttributes`, `AttributeUtil`).
#
# A change is `+key=value` or, for a topic that exists, `-key`. `message.type` is for proxies, which check it;
# no broker does. What this broker could not serve is refused: other kinds of queues, compaction, and
# `reserve.time`, which Java's brokers refuse too without tiered storage.

MESSAGE_TYPE = "message.type"
VALUES = {
    "queue.type": ("SimpleCQ",),
    "cleanup.policy": ("DELETE",),
    MESSAGE_TYPE: ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY"),
}
"""The accepted values of each attribute."""
UNCHANGEABLE = ("queue.type", "cleanup.policy")


def message_type(config: TopicConfig | None) -> str:
    """Return the attribute of a topic that says which messages it takes; NORMAL without one."""
    attributes = None if config is None else config.attributes
    return (attributes or {}).get(MESSAGE_TYPE, "NORMAL")


def parse_changes(text: str | None) -> dict[str, str]:
    """Return the changes in a text such as `+message.type=FIFO,-queue.type`: signed key → value. Raises
    ValueError."""
    changes: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not key.startswith("+" if equals else "-"):
            raise ValueError(f"attributes look like +key=value or -key, separated by commas: {part!r}")
        if key in changes:
            raise ValueError(f"key duplication: {key}")
        changes[key] = value
    return changes


def altered(current: Mapping[str, str] | None, changes: Mapping[str, str], *, is_new: bool) -> dict[str, str]:
    """Return the attributes after the changes. Raises ValueError, with Java's text where it has one."""
    attributes = dict(current or {})
    for signed, value in changes.items():
        sign, key = signed[:1], signed[1:]
        if sign not in ("+", "-") or f"{'-' if sign == '+' else '+'}{key}" in changes:
            raise ValueError(f"wrong format key: {signed}")
        if key not in VALUES:
            raise ValueError(f"unsupported key: {key}")
        if is_new and sign == "-":
            raise ValueError(f"only add attribute is supported while creating topic. key: {key}")
        if sign == "-" and key not in attributes:
            raise ValueError(f"attempt to delete a nonexistent key: {key}")
        if not is_new and key in UNCHANGEABLE:
            raise ValueError(f"attempt to update an unchangeable attribute. key: {key}")
        if sign == "-":
            del attributes[key]
        elif value in VALUES[key]:
            attributes[key] = value
        else:
            raise ValueError(f"this broker does not serve {key}={value}; it serves: {', '.join(VALUES[key])}")
    return attributes
