"""Topics and consume queues of a broker."""

from __future__ import annotations

from typing import Final

from rmqcli.codec.bodies import config, route, stats
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.fastjson_writer import FASTJSON
from rmqcli.codec.headers import topics as headers
from rmqcli.codec.operations.access import (
    CREATE,
    DELETE,
    GET,
    PUB,
    SUB,
    UPDATE,
    on_cluster,
    on_group,
    on_topic,
)
from rmqcli.codec.operations.operation import NOT_SET, Operation

# fmt: off
UPDATE_AND_CREATE_TOPIC: Final = Operation(R.UPDATE_AND_CREATE_TOPIC, "A→B", request=headers.CreateTopicRequestHeader, refused_on_slave=True, remark=NOT_SET, access=(on_topic(CREATE),))
UPDATE_AND_CREATE_TOPIC_LIST: Final = Operation(R.UPDATE_AND_CREATE_TOPIC_LIST, "A→B", request=headers.CreateTopicListRequestHeader, request_body=config.CreateTopicListRequestBody, refused_on_slave=True, remark=NOT_SET, access=(on_topic(CREATE, named_by="topic_config_list.topic_name"),))
GET_ALL_TOPIC_CONFIG: Final = Operation(R.GET_ALL_TOPIC_CONFIG, "A/slave→B", reply=headers.GetAllTopicConfigResponseHeader, reply_body=config.TopicConfigSerializeWrapper, access=(on_cluster(GET),))
GET_TOPIC_STATS_INFO: Final = Operation(R.GET_TOPIC_STATS_INFO, "A→B", request=headers.GetTopicStatsInfoRequestHeader, reply_body=stats.TopicStatsTable, reply_dialect=FASTJSON, access=(on_topic(PUB, SUB, GET),))
DELETE_TOPIC_IN_BROKER: Final = Operation(R.DELETE_TOPIC_IN_BROKER, "A→B", request=headers.DeleteTopicRequestHeader, refused_on_slave=True, access=(on_topic(DELETE),))
QUERY_TOPIC_CONSUME_BY_WHO: Final = Operation(R.QUERY_TOPIC_CONSUME_BY_WHO, "A→B", request=headers.QueryTopicConsumeByWhoRequestHeader, reply_body=stats.GroupList, access=(on_topic(PUB, SUB, GET),))
GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Final = Operation(R.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, "A→B", reply_body=route.TopicList, access=(on_cluster(GET),))
CLEAN_EXPIRED_CONSUMEQUEUE: Final = Operation(R.CLEAN_EXPIRED_CONSUMEQUEUE, "A→B", access=(on_cluster(UPDATE),))
CLEAN_UNUSED_TOPIC: Final = Operation(R.CLEAN_UNUSED_TOPIC, "A→B", access=(on_cluster(UPDATE),))
QUERY_CONSUME_QUEUE: Final = Operation(R.QUERY_CONSUME_QUEUE, "A→B", request=headers.QueryConsumeQueueRequestHeader, reply_body=stats.QueryConsumeQueueResponseBody, remark=NOT_SET, access=(on_topic(SUB, GET), on_group(SUB, GET)))
GET_TOPIC_CONFIG: Final = Operation(R.GET_TOPIC_CONFIG, "A→B", request=headers.GetTopicConfigRequestHeader, reply_body=config.TopicConfigAndQueueMapping, access=(on_topic(PUB, SUB, GET),))
UPDATE_AND_CREATE_STATIC_TOPIC: Final = Operation(R.UPDATE_AND_CREATE_STATIC_TOPIC, "A→B", request=headers.CreateTopicRequestHeader, request_body=route.TopicQueueMappingDetail, access=(on_topic(CREATE),))
QUERY_CONSUME_TIME_SPAN: Final = Operation(R.QUERY_CONSUME_TIME_SPAN, "A→B", request=headers.QueryConsumeTimeSpanRequestHeader, reply_body=stats.QueryConsumeTimeSpanBody, reply_dialect=FASTJSON, access=(on_topic(PUB, SUB, GET), on_group(SUB, GET, named_by="group")))
