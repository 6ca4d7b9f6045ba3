"""Replies of the name server: routes, clusters, topic lists, key-value tables (Java `protocol.route`,
`protocol.body`)."""

from __future__ import annotations

from operator import attrgetter
from typing import ClassVar

from rmqcli.codec.bodies.base import Body, Int32, Int64
from rmqcli.codec.codes import Perm
from rmqcli.codec.message_queue import MessageQueue

# Over all brokers: a route of many brokers with thousands of queues each took gigabytes and minutes.
MAX_QUEUES = 65_536
"""The maximum number of queues of one topic; a route with more is rejected."""


class QueueData(Body, frozen=True):
    """The queues of a topic on one broker name; `perm` has the bits of `rmqcli.codec.codes.Perm`."""

    # Older servers and the Go client misspell the name.
    ALIASES: ClassVar[dict[str, str]] = {"topicSynFlag": "topic_sys_flag"}

    broker_name: str
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 = 0


class BrokerData(Body, frozen=True):
    """The addresses of one broker name by broker id; 0 is the master."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[Int64, str] = {}
    zone_name: str | None = None
    enable_acting_master: bool | None = None


class TopicQueueMappingInfo(Body, frozen=True):
    """A static topic (5.x); `curr_id_map` maps logical queue ids to those of this broker."""

    topic: str = ""
    scope: str | None = None
    total_queues: Int32 = 0
    bname: str | None = None
    epoch: Int64 = 0
    dirty: bool = False
    curr_id_map: dict[Int32, Int32] = {}


class LogicQueueMappingItem(Body, frozen=True):
    """One range of a logical queue (5.x); an end of −1 means that it is open."""

    gen: Int32 = 0
    queue_id: Int32 = 0
    bname: str | None = None
    logic_offset: Int64 = 0
    start_offset: Int64 = 0
    end_offset: Int64 = -1
    time_of_start: Int64 = -1
    time_of_end: Int64 = -1


class TopicQueueMappingDetail(TopicQueueMappingInfo, frozen=True):
    hosted_queues: dict[Int32, list[LogicQueueMappingItem]] = {}


class TopicRouteData(Body, frozen=True):
    """The route of a topic; `order_topic_conf` has the form brokerA:4;brokerB:4."""

    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None

    @property
    def has_too_many_queues(self) -> bool:
        """True for a route with more than MAX_QUEUES queues."""
        counts = (max(queues.read_queue_nums, queues.write_queue_nums, 0) for queues in self.queue_datas)
        return sum(counts) > MAX_QUEUES


def subscribe_queues(topic: str, data: TopicRouteData) -> tuple[MessageQueue, ...]:
    """Return the queues to read from, by broker name and queue id (Java
    `topicRouteData2TopicSubscribeInfo`).
    """
    return tuple(
        MessageQueue(topic, queues.broker_name, queue_id)
        for queues in sorted(data.queue_datas, key=attrgetter("broker_name"))
        if queues.perm & Perm.READ
        for queue_id in range(queues.read_queue_nums)
    )


class ClusterInfo(Body, frozen=True):
    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class TopicList(Body, frozen=True):
    """Topic names. The reply of GET_SYSTEM_TOPIC_LIST_FROM_NS (304) has the names of brokers and clusters
    instead, and is the only one with `broker_addr`.
    """

    topic_list: list[str] = []
    broker_addr: str | None = None


class KVTable(Body, frozen=True):
    """Names and texts: a namespace of the name server (103, 219), or run-time statistics of a broker (28)."""

    table: dict[str, str] = {}


class KVConfigSerializeWrapper(Body, frozen=True):
    """The file kvConfig.json of a name server: namespace → key → value."""

    config_table: dict[str, dict[str, str]] = {}


class BrokerMemberGroup(Body, frozen=True):
    """The brokers with one broker name (5.x)."""

    cluster: str | None = None
    broker_name: str | None = None
    broker_addrs: dict[Int64, str] = {}


class GetBrokerMemberGroupResponseBody(Body, frozen=True):
    broker_member_group: BrokerMemberGroup | None = None
