"""Topic and group configurations with their versions (Java `TopicConfig`, `SubscriptionGroupConfig`,
`DataVersion`).

The wrappers are also the files topics.json and subscriptionGroup.json of a store's `config` folder.
"""

from __future__ import annotations

from codec.bodies.base import Body, Int32, Int64
from codec.bodies.route import TopicQueueMappingDetail, TopicQueueMappingInfo


class DataVersion(Body, frozen=True):
    """The version of a table; `timestamp` is epoch ms. Two are equal when all members are."""

    timestamp: Int64 = 0
    counter: Int64 = 0
    state_version: Int64 | None = None

    def next(self, now_ms: int) -> DataVersion:
        """Return the version after a change at `now_ms` (Java `nextVersion`)."""
        return DataVersion(now_ms, self.counter + 1, self.state_version)


class TopicConfig(Body, frozen=True):
    """One topic of a broker. `topic_sys_flag` has the bits 1 UNIT and 2 UNIT_SUB."""

    topic_name: str
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] | None = None


class TopicConfigSerializeWrapper(Body, frozen=True):
    """The topics of a broker, also the file topics.json. Only 5.x has the last three members."""

    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] | None = None
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] | None = None
    mapping_data_version: DataVersion | None = None


class DeletedTopics(Body, frozen=True):
    """The file deletedTopics.json, of rmq only: the commit-log offset before which a topic has no records."""

    deleted_topics: dict[str, Int64] = {}


class TopicConfigAndQueueMapping(TopicConfig, frozen=True):
    mapping_detail: TopicQueueMappingDetail | None = None


class CreateTopicListRequestBody(Body, frozen=True):
    topic_config_list: list[TopicConfig] = []


class ExponentialRetryPolicy(Body, frozen=True):
    """Retry delays that grow (5.x): `initial` × `multiplier` to the power of the attempt, up to `max` ms."""

    initial: Int64 = 5_000
    max: Int64 = 7_200_000
    multiplier: Int64 = 2


class CustomizedRetryPolicy(Body, frozen=True):
    """The retry delay of each attempt in ms (5.x); a Java array."""

    next: tuple[Int64, ...] = ()


class GroupRetryPolicy(Body, frozen=True):
    """The retry policy of a group (5.x); `type` is CUSTOMIZED or EXPONENTIAL."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    customized_retry_policy: CustomizedRetryPolicy | None = None


class SimpleSubscriptionData(Body, frozen=True):
    """A subscription that a group is expected to have (5.x)."""

    topic: str
    expression_type: str | None = None
    expression: str | None = None
    version: Int64 = 0


class SubscriptionGroupConfig(Body, frozen=True):
    """One consumer group of a broker. Its members read from `broker_id`, or from
    `which_broker_when_consume_slowly` while they are slow."""

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
    """The groups of a broker, also the file subscriptionGroup.json. `forbidden_table` (5.x) maps group →
    topic → bits."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    data_version: DataVersion = DataVersion()
    forbidden_table: dict[str, dict[str, Int32]] | None = None


class SubscriptionGroupList(Body, frozen=True):
    group_config_list: list[SubscriptionGroupConfig] = []


class GroupForbidden(Body, frozen=True):
    topic: str | None = None
    group: str | None = None
    readable: bool | None = None
