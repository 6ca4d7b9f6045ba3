"""Routes, clusters and lists of topics: codes 105, 106, 206, 216, 224, 304, 311–313, and 217, 901 of 5.x
(Java `DefaultRequestProcessor`)."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from msgspec.structs import replace

from rmqcli.broker.errors import Refusal
from rmqcli.broker.namesrv.kv_config import ORDER_TOPIC_CONFIG
from rmqcli.broker.namesrv.state import NameServerState
from rmqcli.broker.net.handling import Answered, Reply, Request
from rmqcli.broker.net.turns import LongWork, Steps
from rmqcli.broker.tables.topics import UNIT, UNIT_SUB
from rmqcli.codec.bodies.route import (
    BrokerMemberGroup,
    ClusterInfo,
    GetBrokerMemberGroupResponseBody,
    QueueData,
    TopicList,
    TopicRouteData,
)
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.fastjson import FASTJSON, STANDARD
from rmqcli.codec.headers.routes import GetBrokerMemberGroupRequestHeader, GetRouteInfoRequestHeader
from rmqcli.codec.headers.topics import (
    DeleteTopicFromNamesrvRequestHeader,
    GetTopicsByClusterRequestHeader,
    RegisterTopicRequestHeader,
)

STANDARD_JSON_VERSION = 401
"""V4_9_4, the first client version that reads {"0": …}; older ones expect {0: …}."""

TopicNames = Reply[None, TopicList]


def route(
    state: NameServerState, request: Request[GetRouteInfoRequestHeader, None]
) -> Reply[None, TopicRouteData]:
    """Return the route of a topic (code 105)."""
    header = request.header
    found = state.routes.route(header.topic)
    if found is None:
        remark = (
            f"No topic route info in name server for the topic: {header.topic}\n"
            "See http://rocketmq.apache.org/docs/faq/ for further details."
        )
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
    if state.config.order_message_enable:
        found = replace(found, order_topic_conf=state.kv.get(ORDER_TOPIC_CONFIG, header.topic))
    standard = request.command.version >= STANDARD_JSON_VERSION or header.accept_standard_json_only
    return Reply(body=found, dialect=STANDARD if standard else FASTJSON)


def cluster_info(state: NameServerState, _request: Request[None, None]) -> Answered[None, ClusterInfo]:
    """Return all clusters and brokers (code 106)."""
    return LongWork(_cluster_info(state))


def _cluster_info(state: NameServerState) -> Steps:
    body = yield from state.routes.cluster_info()
    return lambda: Reply(body=body)


def delete_topic(
    state: NameServerState, request: Request[DeleteTopicFromNamesrvRequestHeader, None]
) -> Reply[None, None]:
    """Remove the route of a topic from all clusters or one (code 216)."""
    header = request.header
    state.routes.delete_topic(header.topic, header.cluster_name)
    return Reply()


def register_topic(
    state: NameServerState, request: Request[RegisterTopicRequestHeader, TopicRouteData | None]
) -> Answered[None, None]:
    """Add queues to one topic (code 217, 5.x)."""
    queues = [] if request.body is None else request.body.queue_datas
    return LongWork(_add_queues(state, request.header.topic, queues))


def _add_queues(state: NameServerState, topic: str, queues: Sequence[QueueData]) -> Steps:
    yield from state.routes.add_queues(topic, queues)
    return Reply


def member_group(
    state: NameServerState, request: Request[GetBrokerMemberGroupRequestHeader, None]
) -> Reply[None, GetBrokerMemberGroupResponseBody]:
    """Return the addresses of one broker name (code 901, 5.x)."""
    header = request.header
    group = BrokerMemberGroup(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_addrs=state.routes.member_group(header.broker_name),
    )
    return Reply(body=GetBrokerMemberGroupResponseBody(broker_member_group=group))


def all_topics(state: NameServerState, _request: Request[None, None]) -> TopicNames:
    """Return all topics (code 206)."""
    return _topic_list(state.routes.topics())


def topics_of_cluster(
    state: NameServerState, request: Request[GetTopicsByClusterRequestHeader, None]
) -> Answered[None, TopicList]:
    """Return the topics of a cluster (code 224)."""
    return _found(state.routes.topics_of_cluster(request.header.cluster))


def system_topics(state: NameServerState, _request: Request[None, None]) -> TopicNames:
    """Return the names of clusters and brokers, which are also topics, and the address of a broker (code
    304)."""
    return _topic_list(*state.routes.system_topics())


def unit_topics(state: NameServerState, _request: Request[None, None]) -> Answered[None, TopicList]:
    """Return the topics with the flag UNIT (code 311)."""
    return _found(state.routes.flagged_topics(UNIT, UNIT))


def unit_sub_topics(state: NameServerState, _request: Request[None, None]) -> Answered[None, TopicList]:
    """Return the topics with the flag UNIT_SUB (code 312)."""
    return _found(state.routes.flagged_topics(UNIT_SUB, UNIT_SUB))


def unit_sub_ununit_topics(
    state: NameServerState, _request: Request[None, None]
) -> Answered[None, TopicList]:
    """Return the topics with the flag UNIT_SUB but not UNIT (code 313)."""
    return _found(state.routes.flagged_topics(UNIT | UNIT_SUB, UNIT_SUB))


def _found(topics: Generator[None, None, list[str]]) -> LongWork:
    return LongWork(_find(topics))


def _find(topics: Generator[None, None, list[str]]) -> Steps:
    found = yield from topics
    return lambda: _topic_list(found)


def _topic_list(topics: Sequence[str], address: str | None = None) -> TopicNames:
    return Reply(body=TopicList(topic_list=list(topics), broker_addr=address))
