"""Topic and group configurations with their versions (Java `TopicConfig`, `SubscriptionGroupConfig`,
`DataVersion`).

The wrappers are also the files topics.json and subscriptionGroup.json of a store's `config` folder.
"""

# ruff: noqa: RUF012  msgspec copies an empty default for every value.
from __future__ import annotations

from codec.bodies.base import Body, Int32, Int64
from codec.bodies.route import TopicQueueMappingDetail, TopicQueueMappingInfo


class DataVersion(Body, frozen=True):
    """The version of a table: equal when all members are; `timestamp` in epoch ms."""

    timestamp: Int64 = 0
    counter: Int64 = 0
    state_version: Int64 | None = None

    def next(self, now_ms: int) -> DataVersion:
        """The version after a change at `now_ms` (Java `nextVersion`)."""
        return DataVersion(now_ms, self.counter + 1, self.state_version)


class TopicConfig(Body, frozen=True):
    """One topic of a broker. `topic_sys_flag`: 1 UNIT, 2 UNIT_SUB."""

    topic_name: str
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] | None = None


class TopicConfigSerializeWrapper(Body, frozen=True):
    """GET_ALL_TOPIC_CONFIG (21), and topics.json. The last three are what 5.x adds in a class of its own."""

    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] | None = None
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] | None = None
    mapping_data_version: DataVersion | None = None


TopicConfigAndMappingSerializeWrapper = TopicConfigSerializeWrapper


class TopicConfigAndQueueMapping(TopicConfig, frozen=True):
    """GET_TOPIC_CONFIG (351)."""

    mapping_detail: TopicQueueMappingDetail | None = None


class CreateTopicListRequestBody(Body, frozen=True):
    """UPDATE_AND_CREATE_TOPIC_LIST (18)."""

    topic_config_list: list[TopicConfig] = []


class ExponentialRetryPolicy(Body, frozen=True):
    """Waits in ms: `initial` × `multiplier` to the power of the attempt, at most `max` (5.x)."""

    initial: Int64 = 5_000
    max: Int64 = 7_200_000
    multiplier: Int64 = 2


class CustomizedRetryPolicy(Body, frozen=True):
    """The wait of each attempt in ms (5.x); a Java array."""

    next: tuple[Int64, ...] = ()


class GroupRetryPolicy(Body, frozen=True):
    """`type`: CUSTOMIZED or EXPONENTIAL (5.x)."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    customized_retry_policy: CustomizedRetryPolicy | None = None


class SimpleSubscriptionData(Body, frozen=True):
    """The subscription that a group is expected to have (5.x)."""

    topic: str
    expression_type: str | None = None
    expression: str | None = None
    version: Int64 = 0


class SubscriptionGroupConfig(Body, frozen=True):
    """One consumer group of a broker. `broker_id`: from which broker id it reads, and which instead when
    it reads slowly."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True
    consume_message_orderly: bool | None = None
    group_retry_policy: GroupRetryPolicy | None = None
    group_sys_flag: Int32 | None = None
    consume_timeout_minute: Int32 | None = None
    # A Java set.
    subscription_data_set: tuple[SimpleSubscriptionData, ...] | None = None
    attributes: dict[str, str] | None = None


class SubscriptionGroupWrapper(Body, frozen=True):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201), and subscriptionGroup.json. `forbidden_table` (5.x): group →
    topic → bits."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    data_version: DataVersion = DataVersion()
    forbidden_table: dict[str, dict[str, Int32]] | None = None


class SubscriptionGroupList(Body, frozen=True):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (225)."""

    group_config_list: list[SubscriptionGroupConfig] = []


class GroupForbidden(Body, frozen=True):
    """UPDATE_AND_GET_GROUP_FORBIDDEN (353)."""

    topic: str | None = None
    group: str | None = None
    readable: bool | None = None
