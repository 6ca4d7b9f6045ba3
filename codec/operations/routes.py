"""Routes, clusters and topic lists of a name server."""

from __future__ import annotations

from typing import Final

from rmqcli.codec.bodies import route as bodies
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.fastjson_writer import FASTJSON
from rmqcli.codec.headers import routes, topics
from rmqcli.codec.operations.access import GET, PUB, SUB, on_topic
from rmqcli.codec.operations.operation import Operation, optional

# fmt: off
GET_ROUTEINFO_BY_TOPIC: Final = Operation(R.GET_ROUTEINFO_BY_TOPIC, "C/A→N", request=routes.GetRouteInfoRequestHeader, reply_body=bodies.TopicRouteData, access=(on_topic(PUB, SUB, GET),))
GET_BROKER_CLUSTER_INFO: Final = Operation(R.GET_BROKER_CLUSTER_INFO, "A→N", reply_body=bodies.ClusterInfo, reply_dialect=FASTJSON)
WIPE_WRITE_PERM_OF_BROKER: Final = Operation(R.WIPE_WRITE_PERM_OF_BROKER, "A→N", request=routes.WipeWritePermOfBrokerRequestHeader, reply=routes.WipeWritePermOfBrokerResponseHeader)
GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Final = Operation(R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, "A→N", reply_body=bodies.TopicList)
DELETE_TOPIC_IN_NAMESRV: Final = Operation(R.DELETE_TOPIC_IN_NAMESRV, "A→N", request=topics.DeleteTopicFromNamesrvRequestHeader)
REGISTER_TOPIC_IN_NAMESRV: Final = Operation(R.REGISTER_TOPIC_IN_NAMESRV, "B/A→N", request=topics.RegisterTopicRequestHeader, request_body=optional(bodies.TopicRouteData))
GET_TOPICS_BY_CLUSTER: Final = Operation(R.GET_TOPICS_BY_CLUSTER, "A→N", request=topics.GetTopicsByClusterRequestHeader, reply_body=bodies.TopicList)
GET_SYSTEM_TOPIC_LIST_FROM_NS: Final = Operation(R.GET_SYSTEM_TOPIC_LIST_FROM_NS, "A→N", reply_body=bodies.TopicList)
GET_UNIT_TOPIC_LIST: Final = Operation(R.GET_UNIT_TOPIC_LIST, "A→N", reply_body=bodies.TopicList)
GET_HAS_UNIT_SUB_TOPIC_LIST: Final = Operation(R.GET_HAS_UNIT_SUB_TOPIC_LIST, "A→N", reply_body=bodies.TopicList)
GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Final = Operation(R.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, "A→N", reply_body=bodies.TopicList)
ADD_WRITE_PERM_OF_BROKER: Final = Operation(R.ADD_WRITE_PERM_OF_BROKER, "A→N", request=routes.AddWritePermOfBrokerRequestHeader, reply=routes.AddWritePermOfBrokerResponseHeader)
GET_BROKER_MEMBER_GROUP: Final = Operation(R.GET_BROKER_MEMBER_GROUP, "B→N", request=routes.GetBrokerMemberGroupRequestHeader, reply_body=bodies.GetBrokerMemberGroupResponseBody, reply_dialect=FASTJSON)
