"""Subscription groups of a broker and their statistics."""

from __future__ import annotations

from typing import Final

from rmqcli.codec.bodies import config, heartbeat, route, stats
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.fastjson_writer import FASTJSON
from rmqcli.codec.headers import groups as headers
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
from rmqcli.codec.operations.operation import Operation

# fmt: off
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Final = Operation(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "A→B", request_body=config.SubscriptionGroupConfig, refused_on_slave=True, access=(on_group(CREATE, named_by="group_name"),))
GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Final = Operation(R.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "A/slave→B", reply_body=config.SubscriptionGroupWrapper, access=(on_cluster(GET),))
DELETE_SUBSCRIPTIONGROUP: Final = Operation(R.DELETE_SUBSCRIPTIONGROUP, "A→B", request=headers.DeleteSubscriptionGroupRequestHeader, refused_on_slave=True, access=(on_group(DELETE, named_by="group_name"),))
GET_CONSUME_STATS: Final = Operation(R.GET_CONSUME_STATS, "A→B", request=headers.GetConsumeStatsRequestHeader, reply_body=stats.ConsumeStats, reply_dialect=FASTJSON, access=(on_group(SUB, GET), on_topic(PUB, SUB, GET)))
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Final = Operation(R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "A→B", request_body=config.SubscriptionGroupList, refused_on_slave=True, access=(on_group(CREATE, named_by="group_config_list.group_name"),))
GET_BROKER_CONSUME_STATS: Final = Operation(R.GET_BROKER_CONSUME_STATS, "A→B", request=headers.GetConsumeStatsInBrokerHeader, reply_body=stats.ConsumeStatsList, reply_dialect=FASTJSON, access=(on_cluster(GET),))
QUERY_TOPICS_BY_CONSUMER: Final = Operation(R.QUERY_TOPICS_BY_CONSUMER, "A→B", request=headers.QueryTopicsByConsumerRequestHeader, reply_body=route.TopicList, access=(on_group(SUB, GET, named_by="group"),))
QUERY_SUBSCRIPTION_BY_CONSUMER: Final = Operation(R.QUERY_SUBSCRIPTION_BY_CONSUMER, "A→B", request=headers.QuerySubscriptionByConsumerRequestHeader, reply_body=heartbeat.QuerySubscriptionResponseBody, access=(on_group(SUB, GET, named_by="group"), on_topic(PUB, SUB, GET)))
GET_SUBSCRIPTIONGROUP_CONFIG: Final = Operation(R.GET_SUBSCRIPTIONGROUP_CONFIG, "A→B", request=headers.GetSubscriptionGroupConfigRequestHeader, reply_body=config.SubscriptionGroupConfig, access=(on_group(SUB, GET, named_by="group"),))
UPDATE_AND_GET_GROUP_FORBIDDEN: Final = Operation(R.UPDATE_AND_GET_GROUP_FORBIDDEN, "A→B", request=headers.UpdateGroupForbiddenRequestHeader, reply_body=config.GroupForbidden, access=(on_cluster(UPDATE),))
