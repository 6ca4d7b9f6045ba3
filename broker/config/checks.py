"""The values that a broker or name server refuses, and the features that a broker does not support.

Java silently replaces an unknown enum text with the default. Here an invalid value is an error: a broker that
does not start is better than one that was configured to flush synchronously but does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rmqcli.broker.config.broker import BrokerConfig
from rmqcli.broker.config.servers import NamesrvConfig, java_name
from rmqcli.broker.errors import ConfigError
from rmqcli.codec.acl.addresses import parse_rules
from rmqcli.codec.acl.errors import AclError
from rmqcli.codec.codes import MASTER_ID
from rmqcli.codec.names import MAX_TOPIC_LENGTH, SYSTEM_TOPICS, SystemTopic, check_topic, reply_topic
from rmqcli.codec.store.delay_levels import DelayLevels

LEAST_FILE_SIZE = 4096
"""Minimum size of a commit-log or consume-queue file, in bytes: one page."""
MOST = 2**31 - 1
"""The largest Java int, which limits every file and table."""
_ANY_ADDRESS = frozenset(("", "0.0.0.0", "::", "[::]", "0"))
MOST_BUSY_POLL_MICROS = 10_000
MOST_FILTERS = 16_384
"""Maximum number of filters of a topic for which bit maps are made: a queue extension can hold one of 32,747
bytes."""
MOST_QUEUES = 65_536
"""Maximum number of queues of a topic on one broker that clients accept."""


class _Rule(NamedTuple):
    holds: Callable[[Any], bool]
    expected: str


def _one_of(*words: str) -> _Rule:
    return _Rule(lambda value: value in words, " or ".join(words))


def _between(low: int, high: int, what: str = "a number") -> _Rule:
    return _Rule(lambda value: low <= value <= high, f"{what} from {low} to {high}")


def _is_name(text: str) -> bool:
    """Return True if the string can be the name of one of the broker's own topics."""
    is_word = bool(text) and text.isprintable() and not {"/", " "} & set(text) and text not in SYSTEM_TOPICS
    return is_word and len(text.encode()) <= MAX_TOPIC_LENGTH


def _is_cluster_name(text: str) -> bool:
    return _is_name(text) and _is_name(reply_topic(text))


def _is_property(text: str) -> bool:
    """Return True if the string can be a property of each message."""
    return text.isprintable() and len(text.encode()) <= MAX_TOPIC_LENGTH


def _is_topic_for_traces(text: str) -> bool:
    try:
        check_topic(text)
    except ValueError:
        return not text
    return text == SystemTopic.TRACE or text not in SYSTEM_TOPICS


def _hours(text: str) -> bool:
    return all(word.strip().isdigit() and int(word) < 24 for word in text.split(";"))


def _is_delay_table(text: str) -> bool:
    try:
        return bool(DelayLevels(text))
    except ValueError:
        return False


def _are_addresses(text: str | None) -> bool:
    try:
        parse_rules(text or "")
    except AclError:
        return False
    return True


_AT_LEAST_0 = _Rule(lambda value: value >= 0, "a number from 0")
_AT_LEAST_1 = _Rule(lambda value: value >= 1, "a number from 1")
_ONE_FOLDER = _Rule(
    lambda value: value is None or "," not in value, "one folder (a log in several is not supported)"
)
_NO_FOLDER = _Rule(lambda value: not value, "no other folder than storePathCommitLog")
_PERCENT = _Rule(lambda value: 0 <= value <= 100, "a percentage")
_FILE_SIZE = _between(LEAST_FILE_SIZE, MOST, "a number of bytes")
_NAMED = f"a name without blanks and '/', of at most {MAX_TOPIC_LENGTH} bytes, that is no system topic,"

_SERVER_VALUES: Mapping[str, _Rule] = {
    "listen_port": _Rule(lambda value: 0 <= value < 1 << 16, "a port"),
    "server_channel_max_idle_time_seconds": _AT_LEAST_1,
    "server_socket_backlog": _between(1, MOST),
    "max_connections": _AT_LEAST_1,
    "max_outgoing_bytes": _AT_LEAST_1,
}

_NAMESRV_VALUES: Mapping[str, _Rule] = {
    **_SERVER_VALUES,
    "scan_not_active_broker_interval": _AT_LEAST_1,
    "broker_expired_time": _AT_LEAST_1,
}

_BROKER_VALUES: Mapping[str, _Rule] = {
    **_SERVER_VALUES,
    "broker_name": _Rule(_is_name, _NAMED),
    "broker_cluster_name": _Rule(
        _is_cluster_name, _NAMED.replace(str(MAX_TOPIC_LENGTH), str(MAX_TOPIC_LENGTH - len(reply_topic(""))))
    ),
    "region_id": _Rule(_is_property, f"a text of at most {MAX_TOPIC_LENGTH} bytes"),
    "msg_trace_topic_name": _Rule(_is_topic_for_traces, "the name of a topic that is no other system topic"),
    "max_error_rate_of_bloom_filter": _between(1, 99, "a percentage"),
    "expect_consumer_num_use_filter": _between(1, MOST_FILTERS),
    "flush_disk_type": _one_of("ASYNC_FLUSH", "SYNC_FLUSH"),
    "broker_role": _one_of("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
    "broker_id": _AT_LEAST_0,
    "broker_ip1": _Rule(
        lambda value: value is None or value.strip() not in _ANY_ADDRESS,
        "an address that clients can connect to (a server listens on all addresses by bindAddress)",
    ),
    "advertised_port": _Rule(lambda value: 0 <= value < 1 << 16, "a port"),
    "broker_permission": _between(0, 7),
    "default_topic_queue_nums": _between(1, MOST_QUEUES),
    "busy_poll_micros": _between(0, MOST_BUSY_POLL_MICROS, "a number of microseconds"),
    "max_message_size": _between(1, MOST),
    "max_hash_slot_num": _between(1, MOST),
    "max_index_num": _between(2, MOST),
    "register_broker_timeout_mills": _AT_LEAST_1,
    "flush_interval_commit_log": _AT_LEAST_1,
    "flush_interval_consume_queue": _AT_LEAST_1,
    "sync_flush_timeout": _AT_LEAST_1,
    "clean_resource_interval": _AT_LEAST_1,
    "delete_commit_log_files_interval": _AT_LEAST_0,
    "mapped_file_size_commit_log": _FILE_SIZE,
    "mapped_file_size_consume_queue": _FILE_SIZE,
    "mapped_file_size_timer_log": _FILE_SIZE,
    "timer_max_delay_sec": _between(0, MOST),
    "timer_congest_num_each_slot": _between(0, MOST),
    "message_delay_level": _Rule(_is_delay_table, "delays such as 1s 5m 2h 1d, separated by blanks,"),
    "delete_when": _Rule(_hours, "hours of the day (0 to 23), separated by ';'"),
    "file_reserved_time": _AT_LEAST_0,
    "in_sync_replicas": _AT_LEAST_1,
    "min_in_sync_replicas": _AT_LEAST_1,
    "ha_white_remote_addresses": _Rule(
        _are_addresses, "addresses as in plain_acl.yml (10.0.0.1, 10.0.*.*, 10.0.0.1-9), separated by ';',"
    ),
    "store_path_commit_log": _ONE_FOLDER,
    "read_only_commit_log_store_paths": _NO_FOLDER,
    "disk_max_used_space_ratio": _PERCENT,
    "disk_space_clean_forcibly_ratio": _PERCENT,
    "disk_space_warning_level_ratio": _PERCENT,
}

_UNSUPPORTED: Sequence[tuple[str, Any, str]] = (
    ("disable_consume_if_consumer_read_slowly", True, "a slow group continues to consume"),
    ("enable_d_leger_commit_log", True, "nothing is replicated"),
    ("transient_store_pool_enable", True, "messages are written to the mapped file directly"),
    ("enable_lmq", True, "light message queues do not exist"),
    ("enable_multi_dispatch", True, "each message is in one queue only"),
)


def check_values(config: BrokerConfig | NamesrvConfig) -> None:
    """Raise ConfigError for the first invalid value, saying what is expected."""
    rules = _BROKER_VALUES if isinstance(config, BrokerConfig) else _NAMESRV_VALUES
    for field, rule in rules.items():
        value = getattr(config, field)
        if not rule.holds(value):
            raise ConfigError(f"{java_name(field)}={value}: {rule.expected} is expected")
    if isinstance(config, BrokerConfig) and config.broker_role == "SLAVE" and config.broker_id == MASTER_ID:
        raise ConfigError("brokerId=0 is the master's: with brokerRole=SLAVE a number from 1 is expected")


def unsupported(config: BrokerConfig) -> list[str]:
    """Return one line for each property that enables a feature which this broker does not have."""
    return [
        f"{java_name(field)}={str(value).lower() if value is True else value} is not supported: {consequence}"
        for field, value, consequence in _UNSUPPORTED
        if getattr(config, field) == value
    ] + _without_replies(config.broker_cluster_name)


def _without_replies(cluster: str) -> list[str]:
    try:
        check_topic(reply_topic(cluster))
    except ValueError:
        return [
            f"brokerClusterName={cluster}: requests get no reply, because clients refuse the topic "
            f"{reply_topic(cluster)}: use letters, digits, - and _"
        ]
    return []
