"""Names that RocketMQ reserves, and the rules for topics and groups (Java `TopicValidator`, `Validators`,
`MixAll`).

A name consists of the characters `% | - _ 0-9 A-Z a-z`, at most 127 for a topic and 120 for a group, because
its retry topic `%RETRY%group` is also a topic (4.9 and 5.x up to 5.3.3 accept 255, and cannot store messages
that are sent back).
"""

from __future__ import annotations

import re

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
TIMER_TOPIC = SYSTEM_TOPIC_PREFIX + "wheel_timer"
"""The topic in which timer messages of 5.x wait, in queue 0."""
REVIVE_PREFIX = SYSTEM_TOPIC_PREFIX + "REVIVE_LOG_"
"""The topic, followed by the name of the cluster, in which brokers of 5.x record popped messages."""
REVIVE_GROUP = SYSTEM_GROUP_PREFIX + "REVIVE_GROUP"
TRANSACTION_GROUP = SYSTEM_GROUP_PREFIX + "TRANS"
"""The group whose offsets are the progress of transaction checks."""
MAX_TOPIC_LENGTH = 127
MAX_GROUP_LENGTH = MAX_TOPIC_LENGTH - len(RETRY_PREFIX)

_LEGAL = re.compile(r"^[%|a-zA-Z0-9_-]+$")


class SystemTopic:
    """Topics that a broker creates for itself."""

    AUTO_CREATE = "TBW102"
    SCHEDULE = "SCHEDULE_TOPIC_XXXX"
    BENCHMARK = "BenchmarkTest"
    TRANS_HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
    TRANS_OP_HALF = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    TRANS_CHECK_MAX_TIME = "TRANS_CHECK_MAX_TIME_TOPIC"
    TRACE = "RMQ_SYS_TRACE_TOPIC"
    SELF_TEST = "SELF_TEST_TOPIC"
    OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"


SYSTEM_TOPICS = frozenset(topic for name, topic in vars(SystemTopic).items() if not name.startswith("_"))
_KEPT = frozenset(
    {
        *(SystemTopic.SCHEDULE, SystemTopic.TRANS_HALF, SystemTopic.TRANS_OP_HALF),
        SystemTopic.TRANS_CHECK_MAX_TIME,
    }
)
_REPLIES = "_REPLY_TOPIC"
FORBIDDEN_SEND_TOPICS = SYSTEM_TOPICS - {SystemTopic.AUTO_CREATE, SystemTopic.BENCHMARK, SystemTopic.TRACE}
"""Java's brokers refuse sends to these topics with 16 (no permission)."""
BUILT_IN_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)
"""The consumer groups that every broker has from the start, in this order."""
SYSTEM_GROUPS = frozenset((*BUILT_IN_GROUPS, "CLIENT_INNER_PRODUCER", "SELF_TEST_P_GROUP"))


def is_system_topic(name: str) -> bool:
    """Return True for built-in topics. A broker also has topics named after its cluster and itself."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX)


def keeps_others(name: str) -> bool:
    """Return True for topics in which a broker keeps messages of other topics: delayed, half, or reply."""
    return name in _KEPT or name.startswith(SYSTEM_TOPIC_PREFIX) or name.endswith(_REPLIES)


def is_closed_to_senders(name: str) -> bool:
    """Return True for topics in which only brokers store messages."""
    return name in FORBIDDEN_SEND_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(name: str) -> bool:
    return name in SYSTEM_GROUPS or name.startswith(SYSTEM_GROUP_PREFIX)


def retry_topic(group: str) -> str:
    """Return `%RETRY%group`; a retry topic is returned unchanged."""
    return group if group.startswith(RETRY_PREFIX) else RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return `%DLQ%group`, the topic of messages whose retries are used up."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    return f"{cluster}{_REPLIES}"


def check_topic(name: str) -> None:
    """Raise ValueError, with the broker's remark, for an invalid topic name."""
    if not name.strip():
        raise ValueError("The specified topic is blank.")
    if not _LEGAL.fullmatch(name):
        raise ValueError(f"The specified topic contains illegal characters, allowing only {_LEGAL.pattern}")
    if len(name) > MAX_TOPIC_LENGTH:
        raise ValueError("The specified topic is longer than topic max length.")


def check_group(name: str) -> None:
    """Raise ValueError, with the Java client's text, for an invalid group name."""
    if not name.strip():
        raise ValueError("the specified group is blank")
    if len(name) > MAX_GROUP_LENGTH:
        raise ValueError(
            f"the specified group is longer than group max length {MAX_GROUP_LENGTH}: its retry topic "
            f"{RETRY_PREFIX}… could not be stored"
        )
    if not _LEGAL.fullmatch(name):
        raise ValueError(
            f"the specified group[{name}] contains illegal characters, allowing only {_LEGAL.pattern}"
        )
