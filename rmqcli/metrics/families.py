"""The metrics, with the names of rocketmq-exporter if it has them. All are gauges, as in the exporter."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """The name of a metric, its meaning, and the names of its labels."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """A value of a metric; `labels` are in the order of the family."""

    family: Family
    labels: tuple[str, ...]
    value: float


BROKER = ("cluster", "brokerIP", "broker")
RUNTIME = ("cluster", "brokerIP", "brokerHost", "broker_version")
TOPIC = ("cluster", "broker", "topic")
GROUP = ("cluster", "broker", "topic", "group")

UP = Family("rmq_up", "1 if the broker answered, else 0", BROKER)
NAME_SERVER_UP = Family("rmq_name_server_up", "1 if a name server answered, else 0")
SERIES_DROPPED = Family("rmq_series_dropped", "Series left out because of the limit")
SCRAPE_SECONDS = Family("rmq_scrape_seconds", "Seconds that this scrape took")

BROKER_TPS = Family("rocketmq_broker_tps", "Messages stored per second, last 10 s", BROKER)
BROKER_QPS = Family("rocketmq_broker_qps", "Messages delivered per second, last 10 s", BROKER)
BEHIND = Family("rocketmq_broker_commitlog_diff", "Bytes that a slave has not copied from its master", BROKER)

PRODUCER_OFFSET = Family("rocketmq_producer_offset", "Sum of the queues' max offsets of a topic", TOPIC)
RETRY_OFFSET = Family("rocketmq_topic_retry_offset", "The same of a retry topic", TOPIC)
DLQ_OFFSET = Family(
    "rocketmq_topic_dlq_offset", "The same of a dead-letter topic", ("cluster", "broker", "group")
)
TIMERS = Family("rocketmq_timing_messages", "Timer messages that wait for a topic", TOPIC)
PRODUCER_TPS = Family("rocketmq_producer_tps", "Messages stored per second, last minute", TOPIC)
PRODUCER_SIZE = Family("rocketmq_producer_message_size", "Bytes stored per second, last minute", TOPIC)

CONSUMER_TPS = Family("rocketmq_consumer_tps", "Messages delivered per second, last minute", GROUP)
CONSUMER_SIZE = Family("rocketmq_consumer_message_size", "Bytes delivered per second, last minute", GROUP)
SEND_BACK = Family("rocketmq_send_back_nums", "Messages sent back per second, last minute", GROUP)
CONSUMER_OFFSET = Family("rocketmq_consumer_offset", "Sum of the committed offsets of a group", GROUP)
LATENCY = Family(
    "rocketmq_group_get_latency_by_storetime",
    "Age of the last message that a group has consumed where others wait behind it, ms",
    GROUP,
)
OF_GROUP = ("group", "topic", "countOfOnlineConsumers", "msgModel")
GROUP_DIFF = Family("rocketmq_group_diff", "Messages of a topic that a group has not consumed", OF_GROUP)
RETRY_DIFF = Family("rocketmq_group_retrydiff", "The same of the group's retry topic", OF_GROUP)
DLQ_DIFF = Family("rocketmq_group_dlqdiff", "The same of a dead-letter topic that a group consumes", OF_GROUP)
ACCUMULATION = Family("rocketmq_message_accumulation", "Messages that a group has not consumed", GROUP)
IN_FLIGHT = Family(
    "rocketmq_consumer_inflight_messages", "Messages that clients have and have not consumed", GROUP
)
GROUP_COUNT = Family("rocketmq_group_count", "Running consumers of a group", ("group",))
PRODUCER_COUNT = Family(
    "rocketmq_producer_count", "Running producers of a group", ("cluster", "broker", "group")
)


def runtime(name: str, help_text: str) -> Family:
    """Return a metric of the runtime figures of a broker."""
    return Family(f"rocketmq_brokeruntime_{name}", help_text, RUNTIME)
