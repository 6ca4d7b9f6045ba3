"""Routes, clusters and topic lists of a name server."""

from __future__ import annotations

from typing import Final

from codec.bodies.route import ClusterInfo, GetBrokerMemberGroupResponseBody, TopicList, TopicRouteData
from codec.codes import RequestCode as R
from codec.fastjson_writer import FASTJSON
from codec.headers.routes import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    GetBrokerMemberGroupRequestHeader,
    GetRouteInfoRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from codec.headers.topics import (
    DeleteTopicFromNamesrvRequestHeader,
    GetTopicsByClusterRequestHeader,
    RegisterTopicRequestHeader,
)
from codec.operations.access import GET, PUB, SUB, on_topic
from codec.operations.operation import Operation, optional

# fmt: off
GET_ROUTEINFO_BY_TOPIC: Final = Operation(R.GET_ROUTEINFO_BY_TOPIC, "C/A→N", request=GetRouteInfoRequestHeader, reply_body=TopicRouteData, access=(on_topic(PUB, SUB, GET),))
GET_BROKER_CLUSTER_INFO: Final = Operation(R.GET_BROKER_CLUSTER_INFO, "A→N", reply_body=ClusterInfo, reply_dialect=FASTJSON )
WIPE_WRITE_PERM_OF_BROKER: Final = Operation(R.WIPE_WRITE_PERM_OF_BROKER, "A→N", request=WipeWritePermOfBrokerRequestHeader, reply=WipeWritePermOfBrokerResponseHeader)
GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Final = Operation(R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, "A→N", reply_body=TopicList )
DELETE_TOPIC_IN_NAMESRV: Final = Operation(R.DELETE_TOPIC_IN_NAMESRV, "A→N", request=DeleteTopicFromNamesrvRequestHeader )
REGISTER_TOPIC_IN_NAMESRV: Final = Operation(R.REGISTER_TOPIC_IN_NAMESRV, "B/A→N", request=RegisterTopicRequestHeader, request_body=optional(TopicRouteData))
GET_TOPICS_BY_CLUSTER: Final = Operation(R.GET_TOPICS_BY_CLUSTER, "A→N", request=GetTopicsByClusterRequestHeader, reply_body=TopicList )
GET_SYSTEM_TOPIC_LIST_FROM_NS: Final = Operation(R.GET_SYSTEM_TOPIC_LIST_FROM_NS, "A→N", reply_body=TopicList)
GET_UNIT_TOPIC_LIST: Final = Operation(R.GET_UNIT_TOPIC_LIST, "A→N", reply_body=TopicList)
GET_HAS_UNIT_SUB_TOPIC_LIST: Final = Operation(R.GET_HAS_UNIT_SUB_TOPIC_LIST, "A→N", reply_body=TopicList)
GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Final = Operation(R.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, "A→N", reply_body=TopicList )
ADD_WRITE_PERM_OF_BROKER: Final = Operation(R.ADD_WRITE_PERM_OF_BROKER, "A→N", request=AddWritePermOfBrokerRequestHeader, reply=AddWritePermOfBrokerResponseHeader)
GET_BROKER_MEMBER_GROUP: Final = Operation(R.GET_BROKER_MEMBER_GROUP, "B→N", request=GetBrokerMemberGroupRequestHeader, reply_body=GetBrokerMemberGroupResponseBody, reply_dialect=FASTJSON)
