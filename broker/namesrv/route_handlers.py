"""Questions about topics and clusters: codes 105, 106, 206, 216, 224, 304, 311–313, and 217, 901 of 5.x
(Java `DefaultRequestProcessor`)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from broker.errors import Refusal
from broker.namesrv.kv_config import ORDER_TOPIC_CONFIG
from broker.namesrv.state import NameServerState
from broker.net.session import Session
from codec.bodies.base import decode_body, encode_body
from codec.bodies.route import BrokerMemberGroup, GetBrokerMemberGroupResponseBody, TopicList, TopicRouteData
from codec.codes import ResponseCode
from codec.fastjson import FASTJSON, STANDARD
from codec.headers.base import from_ext
from codec.headers.routes import GetBrokerMemberGroupRequestHeader, GetRouteInfoRequestHeader
from codec.headers.topics import (
    DeleteTopicFromNamesrvRequestHeader,
    GetTopicsByClusterRequestHeader,
    RegisterTopicRequestHeader,
)
from codec.remoting.frame import RemotingCommand

__all__ = [
    "all_topics",
    "cluster_info",
    "delete_topic",
    "member_group",
    "register_topic",
    "route",
    "system_topics",
    "topics_of_cluster",
    "unit_sub_topics",
    "unit_sub_ununit_topics",
    "unit_topics",
]

STANDARD_JSON_VERSION = 401  # V4_9_4: younger clients read {"0": …} where older ones expect {0: …}


def route(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    header = from_ext(GetRouteInfoRequestHeader, request.ext_fields)
    found = state.routes.route(header.topic)
    if found is None:
        remark = (
            f"No topic route info in name server for the topic: {header.topic}\n"
            "See http://rocketmq.apache.org/docs/faq/ for further details."
        )
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
    if state.config.order_message_enable:
        found = replace(found, order_topic_conf=state.kv.get(ORDER_TOPIC_CONFIG, header.topic))
    standard = request.version >= STANDARD_JSON_VERSION or header.accept_standard_json_only
    body = encode_body(found, dialect=STANDARD if standard else FASTJSON)
    return request.reply(ResponseCode.SUCCESS, body=body)


def cluster_info(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    body = encode_body(state.routes.cluster_info(), dialect=FASTJSON)
    return request.reply(ResponseCode.SUCCESS, body=body)


def delete_topic(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    header = from_ext(DeleteTopicFromNamesrvRequestHeader, request.ext_fields)
    state.routes.delete_topic(header.topic, header.cluster_name)
    return request.reply(ResponseCode.SUCCESS)


def register_topic(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    header = from_ext(RegisterTopicRequestHeader, request.ext_fields)
    if request.body:
        state.routes.add_queues(header.topic, decode_body(TopicRouteData, request.body).queue_datas)
    return request.reply(ResponseCode.SUCCESS)


def member_group(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    header = from_ext(GetBrokerMemberGroupRequestHeader, request.ext_fields)
    group = BrokerMemberGroup(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_addrs=state.routes.member_group(header.broker_name),
    )
    body = encode_body(GetBrokerMemberGroupResponseBody(broker_member_group=group), dialect=FASTJSON)
    return request.reply(ResponseCode.SUCCESS, body=body)


def all_topics(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    return _topic_list(request, state.routes.topics())


def topics_of_cluster(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    header = from_ext(GetTopicsByClusterRequestHeader, request.ext_fields)
    return _topic_list(request, state.routes.topics_of_cluster(header.cluster))


def system_topics(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    names, address = state.routes.system_topics()
    return _topic_list(request, names, address)


def unit_topics(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    return _topic_list(request, state.routes.unit_topics())


def unit_sub_topics(state: NameServerState, _session: Session, request: RemotingCommand) -> RemotingCommand:
    return _topic_list(request, state.routes.unit_sub_topics())


def unit_sub_ununit_topics(
    state: NameServerState, _session: Session, request: RemotingCommand
) -> RemotingCommand:
    return _topic_list(request, state.routes.unit_sub_ununit_topics())


def _topic_list(
    request: RemotingCommand, topics: Sequence[str], address: str | None = None
) -> RemotingCommand:
    body = encode_body(TopicList(topic_list=list(topics), broker_addr=address))
    return request.reply(ResponseCode.SUCCESS, body=body)
