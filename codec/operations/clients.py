"""Connected clients: heartbeats, members, queue locks, and requests that are relayed to a consumer."""

from __future__ import annotations

from typing import Final

from rmqcli.codec.bodies import heartbeat, offsets, running
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.headers import clients as headers
from rmqcli.codec.operations.access import GET, SUB, UPDATE, on_cluster, on_group, on_message, on_topic
from rmqcli.codec.operations.operation import Operation

# fmt: off
HEART_BEAT: Final = Operation(R.HEART_BEAT, "C→B", request_body=heartbeat.HeartbeatData, access=(on_group(SUB, named_by="consumer_data_set.group_name"), on_topic(SUB, named_by="consumer_data_set.subscription_data_set.topic")))
UNREGISTER_CLIENT: Final = Operation(R.UNREGISTER_CLIENT, "C→B", request=headers.UnregisterClientRequestHeader, reply=headers.UnregisterClientResponseHeader, access=(on_group(SUB),))
GET_CONSUMER_LIST_BY_GROUP: Final = Operation(R.GET_CONSUMER_LIST_BY_GROUP, "C→B", request=headers.GetConsumerListByGroupRequestHeader, reply=headers.GetConsumerListByGroupResponseHeader, reply_body=running.GetConsumerListByGroupResponseBody, access=(on_group(SUB, GET),))
NOTIFY_CONSUMER_IDS_CHANGED: Final = Operation(R.NOTIFY_CONSUMER_IDS_CHANGED, "B→C", request=headers.NotifyConsumerIdsChangedRequestHeader, answered=False)
LOCK_BATCH_MQ: Final = Operation(R.LOCK_BATCH_MQ, "C→B", request_body=offsets.LockBatchRequestBody, reply_body=offsets.LockBatchResponseBody, access=(on_group(SUB), on_topic(SUB, named_by="mq_set.topic")))
UNLOCK_BATCH_MQ: Final = Operation(R.UNLOCK_BATCH_MQ, "C→B", request_body=offsets.UnlockBatchRequestBody, access=(on_group(SUB), on_topic(SUB, named_by="mq_set.topic")))
CHECK_CLIENT_CONFIG: Final = Operation(R.CHECK_CLIENT_CONFIG, "C→B", request_body=heartbeat.CheckClientRequestBody)
GET_CONSUMER_CONNECTION_LIST: Final = Operation(R.GET_CONSUMER_CONNECTION_LIST, "A→B", request=headers.GetConsumerConnectionListRequestHeader, reply_body=running.ConsumerConnection, access=(on_group(SUB, GET),))
GET_PRODUCER_CONNECTION_LIST: Final = Operation(R.GET_PRODUCER_CONNECTION_LIST, "A→B", request=headers.GetProducerConnectionListRequestHeader, reply_body=running.ProducerConnection, access=(on_cluster(GET),))
GET_CONSUMER_RUNNING_INFO: Final = Operation(R.GET_CONSUMER_RUNNING_INFO, "A→B→C", request=headers.GetConsumerRunningInfoRequestHeader, reply_body=running.ConsumerRunningInfo, access=(on_group(SUB, GET),))
CONSUME_MESSAGE_DIRECTLY: Final = Operation(R.CONSUME_MESSAGE_DIRECTLY, "A→B→C", request=headers.ConsumeMessageDirectlyResultRequestHeader, request_body=bytes, reply_body=running.ConsumeMessageDirectlyResult, access=(on_group(SUB, UPDATE), on_message(SUB, at="msg_id")))
GET_ALL_PRODUCER_INFO: Final = Operation(R.GET_ALL_PRODUCER_INFO, "A→B", request=headers.GetAllProducerInfoRequestHeader, reply_body=running.ProducerTableInfo, access=(on_cluster(GET),))
