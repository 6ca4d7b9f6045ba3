"""What each request code carries: ONE table of all codes.

Bodies: a class of `codec.bodies` or a `list[…]` of one is JSON; `dict` is properties text; `bytes` is not JSON (message
bodies, stored records, plain text, or JSON that has no class). None: no body. Two codes have a second form that the table does not show:
REGISTER_BROKER (103) compressed, and RESET_CONSUMER_CLIENT_OFFSET (220), ResetOffsetBodyForC for clients in C++.
Direction: C client, A admin tool, B broker, N name server, Ctl controller, FS filter server; "" for a code that has no processor.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import GenericAlias, MappingProxyType
from typing import Final, NamedTuple

from codec import bodies, headers
from codec.codes import RequestCode as _C

__all__ = ["OPERATIONS", "Operation"]


class Operation(NamedTuple):
    """One request code: its headers and bodies, None where it has none."""

    code: _C
    request: type[headers.Header] | None
    reply: type[headers.Header] | None
    request_body: type | GenericAlias | None
    reply_body: type | GenericAlias | None
    direction: str


def _op(
    code: _C,
    direction: str,
    request: type[headers.Header] | None = None,
    reply: type[headers.Header] | None = None,
    request_body: type | GenericAlias | None = None,
    reply_body: type | GenericAlias | None = None,
) -> Operation:
    return Operation(code, request, reply, request_body, reply_body, direction)


# fmt: off
_ALL: Final = (
    _op(_C.SEND_MESSAGE, "C→B", request=headers.SendMessageRequestHeader, reply=headers.SendMessageResponseHeader, request_body=bytes),
    _op(_C.PULL_MESSAGE, "C→B", request=headers.PullMessageRequestHeader, reply=headers.PullMessageResponseHeader, reply_body=bytes),
    _op(_C.QUERY_MESSAGE, "C→B", request=headers.QueryMessageRequestHeader, reply=headers.QueryMessageResponseHeader, reply_body=bytes),
    _op(_C.QUERY_BROKER_OFFSET, ""),
    _op(_C.QUERY_CONSUMER_OFFSET, "C→B", request=headers.QueryConsumerOffsetRequestHeader, reply=headers.QueryConsumerOffsetResponseHeader),
    _op(_C.UPDATE_CONSUMER_OFFSET, "C→B", request=headers.UpdateConsumerOffsetRequestHeader, reply=headers.UpdateConsumerOffsetResponseHeader),
    _op(_C.UPDATE_AND_CREATE_TOPIC, "A→B", request=headers.CreateTopicRequestHeader),
    _op(_C.UPDATE_AND_CREATE_TOPIC_LIST, "A→B", request=headers.CreateTopicListRequestHeader, request_body=bodies.CreateTopicListRequestBody),
    _op(_C.GET_ALL_TOPIC_CONFIG, "A/slave→B", reply=headers.GetAllTopicConfigResponseHeader, reply_body=bodies.TopicConfigSerializeWrapper),
    _op(_C.GET_TOPIC_CONFIG_LIST, ""),
    _op(_C.GET_TOPIC_NAME_LIST, ""),
    _op(_C.UPDATE_BROKER_CONFIG, "A→B", request_body=dict),
    _op(_C.GET_BROKER_CONFIG, "A→B", reply=headers.GetBrokerConfigResponseHeader, reply_body=dict),
    _op(_C.TRIGGER_DELETE_FILES, ""),
    _op(_C.GET_BROKER_RUNTIME_INFO, "A→B", reply_body=bodies.KVTable),
    _op(_C.SEARCH_OFFSET_BY_TIMESTAMP, "C/A→B", request=headers.SearchOffsetRequestHeader, reply=headers.SearchOffsetResponseHeader),
    _op(_C.GET_MAX_OFFSET, "C/A→B", request=headers.GetMaxOffsetRequestHeader, reply=headers.GetMaxOffsetResponseHeader),
    _op(_C.GET_MIN_OFFSET, "C/A→B", request=headers.GetMinOffsetRequestHeader, reply=headers.GetMinOffsetResponseHeader),
    _op(_C.GET_EARLIEST_MSG_STORETIME, "C/A→B", request=headers.GetEarliestMsgStoretimeRequestHeader, reply=headers.GetEarliestMsgStoretimeResponseHeader),
    _op(_C.VIEW_MESSAGE_BY_ID, "C/A→B", request=headers.ViewMessageRequestHeader, reply=headers.ViewMessageResponseHeader, reply_body=bytes),
    _op(_C.HEART_BEAT, "C→B", request_body=bodies.HeartbeatData),
    _op(_C.UNREGISTER_CLIENT, "C→B", request=headers.UnregisterClientRequestHeader, reply=headers.UnregisterClientResponseHeader),
    _op(_C.CONSUMER_SEND_MSG_BACK, "C→B", request=headers.ConsumerSendMsgBackRequestHeader),
    _op(_C.END_TRANSACTION, "C→B", request=headers.EndTransactionRequestHeader, reply=headers.EndTransactionResponseHeader),
    _op(_C.GET_CONSUMER_LIST_BY_GROUP, "C→B", request=headers.GetConsumerListByGroupRequestHeader, reply=headers.GetConsumerListByGroupResponseHeader, reply_body=bodies.GetConsumerListByGroupResponseBody),
    _op(_C.CHECK_TRANSACTION_STATE, "B→C", request=headers.CheckTransactionStateRequestHeader, request_body=bytes),
    _op(_C.NOTIFY_CONSUMER_IDS_CHANGED, "B→C", request=headers.NotifyConsumerIdsChangedRequestHeader),
    _op(_C.LOCK_BATCH_MQ, "C→B", request_body=bodies.LockBatchRequestBody, reply_body=bodies.LockBatchResponseBody),
    _op(_C.UNLOCK_BATCH_MQ, "C→B", request_body=bodies.UnlockBatchRequestBody),
    _op(_C.GET_ALL_CONSUMER_OFFSET, "slave→B", reply_body=bodies.ConsumerOffsetSerializeWrapper),
    _op(_C.GET_ALL_DELAY_OFFSET, "slave→B", reply_body=bodies.DelayOffsetSerializeWrapper),
    _op(_C.CHECK_CLIENT_CONFIG, "C→B", request_body=bodies.CheckClientRequestBody),
    _op(_C.GET_CLIENT_CONFIG, ""),
    _op(_C.UPDATE_AND_CREATE_ACL_CONFIG, "A→B", request=headers.CreateAccessConfigRequestHeader),
    _op(_C.DELETE_ACL_CONFIG, "A→B", request=headers.DeleteAccessConfigRequestHeader),
    _op(_C.GET_BROKER_CLUSTER_ACL_INFO, "A→B", reply=headers.GetBrokerAclConfigResponseHeader),
    _op(_C.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, "A→B", request=headers.UpdateGlobalWhiteAddrsConfigRequestHeader),
    _op(_C.GET_TIMER_CHECK_POINT, "slave→B", reply_body=bytes),
    _op(_C.GET_TIMER_METRICS, "slave→B", reply_body=bodies.TimerMetricsSerializeWrapper),
    _op(_C.PUT_KV_CONFIG, "A→N", request=headers.PutKVConfigRequestHeader),
    _op(_C.GET_KV_CONFIG, "A→N", request=headers.GetKVConfigRequestHeader, reply=headers.GetKVConfigResponseHeader),
    _op(_C.DELETE_KV_CONFIG, "A→N", request=headers.DeleteKVConfigRequestHeader),
    _op(_C.REGISTER_BROKER, "B→N", request=headers.RegisterBrokerRequestHeader, reply=headers.RegisterBrokerResponseHeader, request_body=bodies.RegisterBrokerBody, reply_body=bodies.KVTable),
    _op(_C.UNREGISTER_BROKER, "B→N", request=headers.UnRegisterBrokerRequestHeader),
    _op(_C.GET_ROUTEINFO_BY_TOPIC, "C/A→N", request=headers.GetRouteInfoRequestHeader, reply_body=bodies.TopicRouteData),
    _op(_C.GET_BROKER_CLUSTER_INFO, "A→N", reply_body=bodies.ClusterInfo),
    _op(_C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "A→B", request_body=bodies.SubscriptionGroupConfig),
    _op(_C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "A/slave→B", reply_body=bodies.SubscriptionGroupWrapper),
    _op(_C.GET_TOPIC_STATS_INFO, "A→B", request=headers.GetTopicStatsInfoRequestHeader, reply_body=bodies.TopicStatsTable),
    _op(_C.GET_CONSUMER_CONNECTION_LIST, "A→B", request=headers.GetConsumerConnectionListRequestHeader, reply_body=bodies.ConsumerConnection),
    _op(_C.GET_PRODUCER_CONNECTION_LIST, "A→B", request=headers.GetProducerConnectionListRequestHeader, reply_body=bodies.ProducerConnection),
    _op(_C.WIPE_WRITE_PERM_OF_BROKER, "A→N", request=headers.WipeWritePermOfBrokerRequestHeader, reply=headers.WipeWritePermOfBrokerResponseHeader),
    _op(_C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, "A→N", reply_body=bodies.TopicList),
    _op(_C.DELETE_SUBSCRIPTIONGROUP, "A→B", request=headers.DeleteSubscriptionGroupRequestHeader),
    _op(_C.GET_CONSUME_STATS, "A→B", request=headers.GetConsumeStatsRequestHeader, reply_body=bodies.ConsumeStats),
    _op(_C.SUSPEND_CONSUMER, ""),
    _op(_C.RESUME_CONSUMER, ""),
    _op(_C.RESET_CONSUMER_OFFSET_IN_CONSUMER, ""),
    _op(_C.RESET_CONSUMER_OFFSET_IN_BROKER, ""),
    _op(_C.ADJUST_CONSUMER_THREAD_POOL, ""),
    _op(_C.WHO_CONSUME_THE_MESSAGE, ""),
    _op(_C.DELETE_TOPIC_IN_BROKER, "A→B", request=headers.DeleteTopicRequestHeader),
    _op(_C.DELETE_TOPIC_IN_NAMESRV, "A→N", request=headers.DeleteTopicFromNamesrvRequestHeader),
    _op(_C.REGISTER_TOPIC_IN_NAMESRV, "B/A→N", request=headers.RegisterTopicRequestHeader, request_body=bodies.TopicRouteData),
    _op(_C.GET_KVLIST_BY_NAMESPACE, "A→N", request=headers.GetKVListByNamespaceRequestHeader, reply_body=bodies.KVTable),
    _op(_C.RESET_CONSUMER_CLIENT_OFFSET, "B→C", request=headers.ResetOffsetRequestHeader, request_body=bodies.ResetOffsetBody),
    _op(_C.GET_CONSUMER_STATUS_FROM_CLIENT, "B→C", request=headers.GetConsumerStatusRequestHeader, reply_body=bodies.GetConsumerStatusBody),
    _op(_C.INVOKE_BROKER_TO_RESET_OFFSET, "A→B", request=headers.ResetOffsetRequestHeader, reply_body=bodies.ResetOffsetBody),
    _op(_C.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, "A→B", request=headers.GetConsumerStatusRequestHeader, reply_body=bodies.GetConsumerStatusBody),
    _op(_C.GET_TOPICS_BY_CLUSTER, "A→N", request=headers.GetTopicsByClusterRequestHeader, reply_body=bodies.TopicList),
    _op(_C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "A→B", request_body=bodies.SubscriptionGroupList),
    _op(_C.QUERY_TOPIC_CONSUME_BY_WHO, "A→B", request=headers.QueryTopicConsumeByWhoRequestHeader, reply_body=bodies.GroupList),
    _op(_C.REGISTER_FILTER_SERVER, "FS→B", request=headers.RegisterFilterServerRequestHeader, reply=headers.RegisterFilterServerResponseHeader),
    _op(_C.REGISTER_MESSAGE_FILTER_CLASS, "C→FS", request=headers.RegisterMessageFilterClassRequestHeader, request_body=bytes),
    _op(_C.QUERY_CONSUME_TIME_SPAN, "A→B", request=headers.QueryConsumeTimeSpanRequestHeader, reply_body=bodies.QueryConsumeTimeSpanBody),
    _op(_C.GET_SYSTEM_TOPIC_LIST_FROM_NS, "A→N", reply_body=bodies.TopicList),
    _op(_C.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, "A→B", reply_body=bodies.TopicList),
    _op(_C.CLEAN_EXPIRED_CONSUMEQUEUE, "A→B"),
    _op(_C.GET_CONSUMER_RUNNING_INFO, "A→B→C", request=headers.GetConsumerRunningInfoRequestHeader, reply_body=bodies.ConsumerRunningInfo),
    _op(_C.QUERY_CORRECTION_OFFSET, "A→B", request=headers.QueryCorrectionOffsetHeader, reply_body=bodies.QueryCorrectionOffsetBody),
    _op(_C.CONSUME_MESSAGE_DIRECTLY, "A→B→C", request=headers.ConsumeMessageDirectlyResultRequestHeader, request_body=bytes, reply_body=bodies.ConsumeMessageDirectlyResult),
    _op(_C.SEND_MESSAGE_V2, "C→B", request=headers.SendMessageRequestHeaderV2, reply=headers.SendMessageResponseHeader, request_body=bytes),
    _op(_C.GET_UNIT_TOPIC_LIST, "A→N", reply_body=bodies.TopicList),
    _op(_C.GET_HAS_UNIT_SUB_TOPIC_LIST, "A→N", reply_body=bodies.TopicList),
    _op(_C.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, "A→N", reply_body=bodies.TopicList),
    _op(_C.CLONE_GROUP_OFFSET, "A→B", request=headers.CloneGroupOffsetRequestHeader),
    _op(_C.VIEW_BROKER_STATS_DATA, "A→B", request=headers.ViewBrokerStatsDataRequestHeader, reply_body=bodies.BrokerStatsData),
    _op(_C.CLEAN_UNUSED_TOPIC, "A→B"),
    _op(_C.GET_BROKER_CONSUME_STATS, "A→B", request=headers.GetConsumeStatsInBrokerHeader, reply_body=bodies.ConsumeStatsList),
    _op(_C.UPDATE_NAMESRV_CONFIG, "A→N", request_body=dict),
    _op(_C.GET_NAMESRV_CONFIG, "A→N", reply_body=dict),
    _op(_C.SEND_BATCH_MESSAGE, "C→B", request=headers.SendMessageRequestHeaderV2, reply=headers.SendMessageResponseHeader, request_body=bytes),
    _op(_C.QUERY_CONSUME_QUEUE, "A→B", request=headers.QueryConsumeQueueRequestHeader, reply_body=bodies.QueryConsumeQueueResponseBody),
    _op(_C.QUERY_DATA_VERSION, "B→N", request=headers.QueryDataVersionRequestHeader, reply=headers.QueryDataVersionResponseHeader, request_body=bodies.DataVersion, reply_body=bodies.DataVersion),
    _op(_C.RESUME_CHECK_HALF_MESSAGE, "A→B", request=headers.ResumeCheckHalfMessageRequestHeader),
    _op(_C.SEND_REPLY_MESSAGE, "C→B", request=headers.SendMessageRequestHeader, reply=headers.SendMessageResponseHeader, request_body=bytes),
    _op(_C.SEND_REPLY_MESSAGE_V2, "C→B", request=headers.SendMessageRequestHeaderV2, reply=headers.SendMessageResponseHeader, request_body=bytes),
    _op(_C.PUSH_REPLY_MESSAGE_TO_CLIENT, "B→C", request=headers.ReplyMessageRequestHeader, request_body=bytes),
    _op(_C.ADD_WRITE_PERM_OF_BROKER, "A→N", request=headers.AddWritePermOfBrokerRequestHeader, reply=headers.AddWritePermOfBrokerResponseHeader),
    _op(_C.GET_ALL_PRODUCER_INFO, "A→B", request=headers.GetAllProducerInfoRequestHeader, reply_body=bodies.ProducerTableInfo),
    _op(_C.DELETE_EXPIRED_COMMITLOG, "A→B"),
    _op(_C.QUERY_TOPICS_BY_CONSUMER, "A→B", request=headers.QueryTopicsByConsumerRequestHeader, reply_body=bodies.TopicList),
    _op(_C.QUERY_SUBSCRIPTION_BY_CONSUMER, "A→B", request=headers.QuerySubscriptionByConsumerRequestHeader, reply_body=bodies.QuerySubscriptionResponseBody),
    _op(_C.GET_TOPIC_CONFIG, "A→B", request=headers.GetTopicConfigRequestHeader, reply_body=bodies.TopicConfigAndQueueMapping),
    _op(_C.GET_SUBSCRIPTIONGROUP_CONFIG, "A→B", request=headers.GetSubscriptionGroupConfigRequestHeader, reply_body=bodies.SubscriptionGroupConfig),
    _op(_C.UPDATE_AND_GET_GROUP_FORBIDDEN, "A→B", request=headers.UpdateGroupForbiddenRequestHeader, reply_body=bodies.GroupForbidden),
    _op(_C.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, "A→B", request=headers.CheckRocksdbCqWriteProgressRequestHeader, reply_body=bytes),
    _op(_C.EXPORT_ROCKSDB_CONFIG_TO_JSON, "A→B", request=headers.ExportRocksDBConfigToJsonRequestHeader),
    _op(_C.LITE_PULL_MESSAGE, "C→B", request=headers.PullMessageRequestHeader, reply=headers.PullMessageResponseHeader, reply_body=bytes),
    _op(_C.RECALL_MESSAGE, "C→B", request=headers.RecallMessageRequestHeader, reply=headers.RecallMessageResponseHeader),
    _op(_C.QUERY_ASSIGNMENT, "C→B", request_body=bodies.QueryAssignmentRequestBody, reply_body=bodies.QueryAssignmentResponseBody),
    _op(_C.SET_MESSAGE_REQUEST_MODE, "A→B", request_body=bodies.SetMessageRequestModeRequestBody),
    _op(_C.GET_ALL_MESSAGE_REQUEST_MODE, "slave→B", reply_body=bodies.MessageRequestModeSerializeWrapper),
    _op(_C.UPDATE_AND_CREATE_STATIC_TOPIC, "A→B", request=headers.CreateTopicRequestHeader, request_body=bodies.TopicQueueMappingDetail),
    _op(_C.GET_BROKER_MEMBER_GROUP, "B→N", request=headers.GetBrokerMemberGroupRequestHeader, reply_body=bodies.GetBrokerMemberGroupResponseBody),
    _op(_C.ADD_BROKER, "A→container", request=headers.AddBrokerRequestHeader, request_body=dict),
    _op(_C.REMOVE_BROKER, "A→container", request=headers.RemoveBrokerRequestHeader),
    _op(_C.BROKER_HEARTBEAT, "B→N/controller", request=headers.BrokerHeartbeatRequestHeader),
    _op(_C.NOTIFY_MIN_BROKER_ID_CHANGE, "N→B", request=headers.NotifyMinBrokerIdChangeRequestHeader),
    _op(_C.EXCHANGE_BROKER_HA_INFO, "B→B", request=headers.ExchangeHAInfoRequestHeader, reply=headers.ExchangeHAInfoResponseHeader),
    _op(_C.GET_BROKER_HA_STATUS, "A→B", reply_body=bodies.HARuntimeInfo),
    _op(_C.RESET_MASTER_FLUSH_OFFSET, "A→B", request=headers.ResetMasterFlushOffsetHeader),
    _op(_C.CONTROLLER_ALTER_SYNC_STATE_SET, "B→Ctl", request=headers.AlterSyncStateSetRequestHeader, reply=headers.AlterSyncStateSetResponseHeader, request_body=bodies.SyncStateSet, reply_body=bodies.SyncStateSet),
    _op(_C.CONTROLLER_ELECT_MASTER, "B/A→Ctl", request=headers.ElectMasterRequestHeader, reply=headers.ElectMasterResponseHeader, reply_body=bodies.ElectMasterResponseBody),
    _op(_C.CONTROLLER_REGISTER_BROKER, "B→Ctl", request=headers.RegisterBrokerToControllerRequestHeader, reply=headers.RegisterBrokerToControllerResponseHeader, reply_body=bodies.SyncStateSet),
    _op(_C.CONTROLLER_GET_REPLICA_INFO, "B→Ctl", request=headers.GetReplicaInfoRequestHeader, reply=headers.GetReplicaInfoResponseHeader, reply_body=bodies.SyncStateSet),
    _op(_C.CONTROLLER_GET_METADATA_INFO, "B/A→Ctl", reply=headers.GetMetaDataResponseHeader),
    _op(_C.CONTROLLER_GET_SYNC_STATE_DATA, "A→Ctl", request_body=list[str], reply_body=bodies.BrokerReplicasInfo),
    _op(_C.GET_BROKER_EPOCH_CACHE, "A→B", reply_body=bodies.EpochEntryCache),
    _op(_C.NOTIFY_BROKER_ROLE_CHANGED, "Ctl→B", request=headers.NotifyBrokerRoleChangedRequestHeader, request_body=bodies.SyncStateSet),
    _op(_C.UPDATE_CONTROLLER_CONFIG, "A→Ctl", request_body=dict),
    _op(_C.GET_CONTROLLER_CONFIG, "A→Ctl", reply_body=dict),
    _op(_C.CLEAN_BROKER_DATA, "A→Ctl", request=headers.CleanControllerBrokerDataRequestHeader),
    _op(_C.CONTROLLER_GET_NEXT_BROKER_ID, "B→Ctl", request=headers.GetNextBrokerIdRequestHeader, reply=headers.GetNextBrokerIdResponseHeader),
    _op(_C.CONTROLLER_APPLY_BROKER_ID, "B→Ctl", request=headers.ApplyBrokerIdRequestHeader, reply=headers.ApplyBrokerIdResponseHeader),
    _op(_C.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, "A→B", request_body=dict),
    _op(_C.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, "A→B", request_body=bytes),
    _op(_C.GET_COLD_DATA_FLOW_CTR_INFO, "A→B", reply_body=bytes),
    _op(_C.SET_COMMITLOG_READ_MODE, "A→B"),
    _op(_C.AUTH_CREATE_USER, "A→B", request=headers.CreateUserRequestHeader, request_body=bodies.UserInfo),
    _op(_C.AUTH_UPDATE_USER, "A→B", request=headers.UpdateUserRequestHeader, request_body=bodies.UserInfo),
    _op(_C.AUTH_DELETE_USER, "A→B", request=headers.DeleteUserRequestHeader),
    _op(_C.AUTH_GET_USER, "A→B", request=headers.GetUserRequestHeader, reply_body=bodies.UserInfo),
    _op(_C.AUTH_LIST_USER, "A→B", request=headers.ListUsersRequestHeader, reply_body=list[bodies.UserInfo]),
    _op(_C.AUTH_CREATE_ACL, "A→B", request=headers.CreateAclRequestHeader, request_body=bodies.AclInfo),
    _op(_C.AUTH_UPDATE_ACL, "A→B", request=headers.UpdateAclRequestHeader, request_body=bodies.AclInfo),
    _op(_C.AUTH_DELETE_ACL, "A→B", request=headers.DeleteAclRequestHeader),
    _op(_C.AUTH_GET_ACL, "A→B", request=headers.GetAclRequestHeader, reply_body=bodies.AclInfo),
    _op(_C.AUTH_LIST_ACL, "A→B", request=headers.ListAclsRequestHeader, reply_body=list[bodies.AclInfo]),
    _op(_C.POP_MESSAGE, "C→B", request=headers.PopMessageRequestHeader, reply=headers.PopMessageResponseHeader, reply_body=bytes),
    _op(_C.ACK_MESSAGE, "C→B", request=headers.AckMessageRequestHeader),
    _op(_C.PEEK_MESSAGE, "C→B", request=headers.PeekMessageRequestHeader, reply=headers.PopMessageResponseHeader, reply_body=bytes),
    _op(_C.CHANGE_MESSAGE_INVISIBLETIME, "C→B", request=headers.ChangeInvisibleTimeRequestHeader, reply=headers.ChangeInvisibleTimeResponseHeader),
    _op(_C.NOTIFICATION, "C→B", request=headers.NotificationRequestHeader, reply=headers.NotificationResponseHeader),
    _op(_C.POLLING_INFO, "A→B", request=headers.PollingInfoRequestHeader, reply=headers.PollingInfoResponseHeader),
    _op(_C.POP_ROLLBACK, "A→B"),
    _op(_C.BATCH_ACK_MESSAGE, "C→B", request_body=bodies.BatchAckMessageRequestBody),
)
# fmt: on

OPERATIONS: Final[Mapping[_C, Operation]] = MappingProxyType(
    {operation.code: operation for operation in _ALL}
)
