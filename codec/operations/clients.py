"""Connected clients: heartbeats, members, queue locks, and questions relayed to a consumer."""

from __future__ import annotations

from typing import Final

from codec.bodies.connections import (
    ConsumerConnection,
    GetConsumerListByGroupResponseBody,
    ProducerConnection,
    ProducerTableInfo,
)
from codec.bodies.heartbeat import CheckClientRequestBody, HeartbeatData
from codec.bodies.offsets import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from codec.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from codec.codes import RequestCode as R
from codec.headers.clients import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetAllProducerInfoRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumerListByGroupRequestHeader,
    GetConsumerListByGroupResponseHeader,
    GetConsumerRunningInfoRequestHeader,
    GetProducerConnectionListRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
    UnregisterClientRequestHeader,
    UnregisterClientResponseHeader,
)
from codec.operations.access import GET, SUB, UPDATE, on_cluster, on_group, on_topic
from codec.operations.operation import Operation

# fmt: off
HEART_BEAT: Final = Operation(R.HEART_BEAT, "C→B", request_body=HeartbeatData, access=(on_group(SUB, named_by="consumer_data_set.group_name"), on_topic(SUB, named_by="consumer_data_set.subscription_data_set.topic"), ))
UNREGISTER_CLIENT: Final = Operation(R.UNREGISTER_CLIENT, "C→B", request=UnregisterClientRequestHeader, reply=UnregisterClientResponseHeader, access=(on_group(SUB),))
GET_CONSUMER_LIST_BY_GROUP: Final = Operation(R.GET_CONSUMER_LIST_BY_GROUP, "C→B", request=GetConsumerListByGroupRequestHeader, reply=GetConsumerListByGroupResponseHeader, reply_body=GetConsumerListByGroupResponseBody, access=(on_group(SUB, GET),))
NOTIFY_CONSUMER_IDS_CHANGED: Final = Operation(R.NOTIFY_CONSUMER_IDS_CHANGED, "B→C", request=NotifyConsumerIdsChangedRequestHeader, answered=False )
LOCK_BATCH_MQ: Final = Operation(R.LOCK_BATCH_MQ, "C→B", request_body=LockBatchRequestBody, reply_body=LockBatchResponseBody, access=(on_group(SUB), on_topic(SUB, named_by="mq_set.topic")))
UNLOCK_BATCH_MQ: Final = Operation(R.UNLOCK_BATCH_MQ, "C→B", request_body=UnlockBatchRequestBody, access=(on_group(SUB), on_topic(SUB, named_by="mq_set.topic")))
CHECK_CLIENT_CONFIG: Final = Operation(R.CHECK_CLIENT_CONFIG, "C→B", request_body=CheckClientRequestBody)
GET_CONSUMER_CONNECTION_LIST: Final = Operation(R.GET_CONSUMER_CONNECTION_LIST, "A→B", request=GetConsumerConnectionListRequestHeader, reply_body=ConsumerConnection, access=(on_cluster(GET),))
GET_PRODUCER_CONNECTION_LIST: Final = Operation(R.GET_PRODUCER_CONNECTION_LIST, "A→B", request=GetProducerConnectionListRequestHeader, reply_body=ProducerConnection, access=(on_cluster(GET),))
GET_CONSUMER_RUNNING_INFO: Final = Operation(R.GET_CONSUMER_RUNNING_INFO, "A→B→C", request=GetConsumerRunningInfoRequestHeader, reply_body=ConsumerRunningInfo, access=(on_cluster(GET),))
CONSUME_MESSAGE_DIRECTLY: Final = Operation(R.CONSUME_MESSAGE_DIRECTLY, "A→B→C", request=ConsumeMessageDirectlyResultRequestHeader, request_body=bytes, reply_body=ConsumeMessageDirectlyResult, access=(on_cluster(UPDATE),))
GET_ALL_PRODUCER_INFO: Final = Operation(R.GET_ALL_PRODUCER_INFO, "A→B", request=GetAllProducerInfoRequestHeader, reply_body=ProducerTableInfo, access=(on_cluster(GET),))
