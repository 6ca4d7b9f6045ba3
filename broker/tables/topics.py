"""The topics of a broker, and the rules for the creation of new ones (Java class `TopicConfigManager`).

The caller that changes the table requests its saving and registration. A config is replaced, never changed in
place, so that its identity shows whether it is still the one that was checked before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

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

        If automatic creation is off, no topic is inheritable; Java still allows those named after cluster and
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
