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

from codec.bodies.acl import AclInfo, UserInfo
from codec.bodies.config import (
    CreateTopicListRequestBody,
    DataVersion,
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
    TopicConfigAndQueueMapping,
    TopicConfigSerializeWrapper,
)
from codec.bodies.connections import (
    ConsumerConnection,
    GetConsumerListByGroupResponseBody,
    ProducerConnection,
    ProducerTableInfo,
)
from codec.bodies.controller import (
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    EpochEntryCache,
    HARuntimeInfo,
    SyncStateSet,
)
from codec.bodies.heartbeat import CheckClientRequestBody, HeartbeatData, QuerySubscriptionResponseBody
from codec.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    GetConsumerStatusBody,
    LockBatchRequestBody,
    LockBatchResponseBody,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
    UnlockBatchRequestBody,
)
from codec.bodies.pop import (
    BatchAckMessageRequestBody,
    MessageRequestModeSerializeWrapper,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from codec.bodies.registration import RegisterBrokerBody
from codec.bodies.route import (
    ClusterInfo,
    GetBrokerMemberGroupResponseBody,
    KVTable,
    TopicList,
    TopicQueueMappingDetail,
    TopicRouteData,
)
from codec.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from codec.bodies.stats import (
    BrokerStatsData,
    ConsumeStats,
    ConsumeStatsList,
    GroupList,
    QueryConsumeQueueResponseBody,
    QueryConsumeTimeSpanBody,
    TimerMetricsSerializeWrapper,
    TopicStatsTable,
)
from codec.codes import RequestCode as _C
from codec.headers.acl import (
    CreateAccessConfigRequestHeader,
    CreateAclRequestHeader,
    CreateUserRequestHeader,
    DeleteAccessConfigRequestHeader,
    DeleteAclRequestHeader,
    DeleteUserRequestHeader,
    GetAclRequestHeader,
    GetBrokerAclConfigResponseHeader,
    GetUserRequestHeader,
    ListAclsRequestHeader,
    ListUsersRequestHeader,
    UpdateAclRequestHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
    UpdateUserRequestHeader,
)
from codec.headers.base import Header
from codec.headers.brokers import (
    AddBrokerRequestHeader,
    CheckRocksdbCqWriteProgressRequestHeader,
    ExchangeHAInfoRequestHeader,
    ExchangeHAInfoResponseHeader,
    ExportRocksDBConfigToJsonRequestHeader,
    GetBrokerConfigResponseHeader,
    RegisterFilterServerRequestHeader,
    RegisterFilterServerResponseHeader,
    RegisterMessageFilterClassRequestHeader,
    RemoveBrokerRequestHeader,
    ResetMasterFlushOffsetHeader,
    ViewBrokerStatsDataRequestHeader,
)
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
from codec.headers.controller import (
    AlterSyncStateSetRequestHeader,
    AlterSyncStateSetResponseHeader,
    ApplyBrokerIdRequestHeader,
    ApplyBrokerIdResponseHeader,
    CleanControllerBrokerDataRequestHeader,
    ElectMasterRequestHeader,
    ElectMasterResponseHeader,
    GetMetaDataResponseHeader,
    GetNextBrokerIdRequestHeader,
    GetNextBrokerIdResponseHeader,
    GetReplicaInfoRequestHeader,
    GetReplicaInfoResponseHeader,
    NotifyBrokerRoleChangedRequestHeader,
    RegisterBrokerToControllerRequestHeader,
    RegisterBrokerToControllerResponseHeader,
)
from codec.headers.groups import (
    DeleteSubscriptionGroupRequestHeader,
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    QuerySubscriptionByConsumerRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    UpdateGroupForbiddenRequestHeader,
)
from codec.headers.kv import (
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
)
from codec.headers.offsets import (
    CloneGroupOffsetRequestHeader,
    GetConsumerStatusRequestHeader,
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    QueryCorrectionOffsetHeader,
    ResetOffsetRequestHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
    UpdateConsumerOffsetResponseHeader,
)
from codec.headers.pop import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
    NotificationRequestHeader,
    NotificationResponseHeader,
    PeekMessageRequestHeader,
    PollingInfoRequestHeader,
    PollingInfoResponseHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from codec.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from codec.headers.query import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
    ViewMessageResponseHeader,
)
from codec.headers.routes import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    BrokerHeartbeatRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    GetRouteInfoRequestHeader,
    NotifyMinBrokerIdChangeRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from codec.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    RecallMessageRequestHeader,
    RecallMessageResponseHeader,
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from codec.headers.topics import (
    CreateTopicListRequestHeader,
    CreateTopicRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    DeleteTopicRequestHeader,
    GetAllTopicConfigResponseHeader,
    GetTopicConfigRequestHeader,
    GetTopicsByClusterRequestHeader,
    GetTopicStatsInfoRequestHeader,
    QueryConsumeQueueRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    RegisterTopicRequestHeader,
)
from codec.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    EndTransactionResponseHeader,
    ResumeCheckHalfMessageRequestHeader,
)

__all__ = ["OPERATIONS", "Operation"]


class Operation(NamedTuple):
    """One request code: its headers and bodies, None where it has none."""

    code: _C
    request: type[Header] | None
    reply: type[Header] | None
    request_body: type | GenericAlias | None
    reply_body: type | GenericAlias | None
    direction: str


def _op(
    code: _C,
    direction: str,
    request: type[Header] | None = None,
    reply: type[Header] | None = None,
    request_body: type | GenericAlias | None = None,
    reply_body: type | GenericAlias | None = None,
) -> Operation:
    return Operation(code, request, reply, request_body, reply_body, direction)


# fmt: off
_ALL: Final = (
    _op(_C.SEND_MESSAGE, "C→B", request=SendMessageRequestHeader, reply=SendMessageResponseHeader, request_body=bytes),
    _op(_C.PULL_MESSAGE, "C→B", request=PullMessageRequestHeader, reply=PullMessageResponseHeader, reply_body=bytes),
    _op(_C.QUERY_MESSAGE, "C→B", request=QueryMessageRequestHeader, reply=QueryMessageResponseHeader, reply_body=bytes),
    _op(_C.QUERY_BROKER_OFFSET, ""),
    _op(_C.QUERY_CONSUMER_OFFSET, "C→B", request=QueryConsumerOffsetRequestHeader, reply=QueryConsumerOffsetResponseHeader),
    _op(_C.UPDATE_CONSUMER_OFFSET, "C→B", request=UpdateConsumerOffsetRequestHeader, reply=UpdateConsumerOffsetResponseHeader),
    _op(_C.UPDATE_AND_CREATE_TOPIC, "A→B", request=CreateTopicRequestHeader),
    _op(_C.UPDATE_AND_CREATE_TOPIC_LIST, "A→B", request=CreateTopicListRequestHeader, request_body=CreateTopicListRequestBody),
    _op(_C.GET_ALL_TOPIC_CONFIG, "A/slave→B", reply=GetAllTopicConfigResponseHeader, reply_body=TopicConfigSerializeWrapper),
    _op(_C.GET_TOPIC_CONFIG_LIST, ""),
    _op(_C.GET_TOPIC_NAME_LIST, ""),
    _op(_C.UPDATE_BROKER_CONFIG, "A→B", request_body=dict),
    _op(_C.GET_BROKER_CONFIG, "A→B", reply=GetBrokerConfigResponseHeader, reply_body=dict),
    _op(_C.TRIGGER_DELETE_FILES, ""),
    _op(_C.GET_BROKER_RUNTIME_INFO, "A→B", reply_body=KVTable),
    _op(_C.SEARCH_OFFSET_BY_TIMESTAMP, "C/A→B", request=SearchOffsetRequestHeader, reply=SearchOffsetResponseHeader),
    _op(_C.GET_MAX_OFFSET, "C/A→B", request=GetMaxOffsetRequestHeader, reply=GetMaxOffsetResponseHeader),
    _op(_C.GET_MIN_OFFSET, "C/A→B", request=GetMinOffsetRequestHeader, reply=GetMinOffsetResponseHeader),
    _op(_C.GET_EARLIEST_MSG_STORETIME, "C/A→B", request=GetEarliestMsgStoretimeRequestHeader, reply=GetEarliestMsgStoretimeResponseHeader),
    _op(_C.VIEW_MESSAGE_BY_ID, "C/A→B", request=ViewMessageRequestHeader, reply=ViewMessageResponseHeader, reply_body=bytes),
    _op(_C.HEART_BEAT, "C→B", request_body=HeartbeatData),
    _op(_C.UNREGISTER_CLIENT, "C→B", request=UnregisterClientRequestHeader, reply=UnregisterClientResponseHeader),
    _op(_C.CONSUMER_SEND_MSG_BACK, "C→B", request=ConsumerSendMsgBackRequestHeader),
    _op(_C.END_TRANSACTION, "C→B", request=EndTransactionRequestHeader, reply=EndTransactionResponseHeader),
    _op(_C.GET_CONSUMER_LIST_BY_GROUP, "C→B", request=GetConsumerListByGroupRequestHeader, reply=GetConsumerListByGroupResponseHeader, reply_body=GetConsumerListByGroupResponseBody),
    _op(_C.CHECK_TRANSACTION_STATE, "B→C", request=CheckTransactionStateRequestHeader, request_body=bytes),
    _op(_C.NOTIFY_CONSUMER_IDS_CHANGED, "B→C", request=NotifyConsumerIdsChangedRequestHeader),
    _op(_C.LOCK_BATCH_MQ, "C→B", request_body=LockBatchRequestBody, reply_body=LockBatchResponseBody),
    _op(_C.UNLOCK_BATCH_MQ, "C→B", request_body=UnlockBatchRequestBody),
    _op(_C.GET_ALL_CONSUMER_OFFSET, "slave→B", reply_body=ConsumerOffsetSerializeWrapper),
    _op(_C.GET_ALL_DELAY_OFFSET, "slave→B", reply_body=DelayOffsetSerializeWrapper),
    _op(_C.CHECK_CLIENT_CONFIG, "C→B", request_body=CheckClientRequestBody),
    _op(_C.GET_CLIENT_CONFIG, ""),
    _op(_C.UPDATE_AND_CREATE_ACL_CONFIG, "A→B", request=CreateAccessConfigRequestHeader),
    _op(_C.DELETE_ACL_CONFIG, "A→B", request=DeleteAccessConfigRequestHeader),
    _op(_C.GET_BROKER_CLUSTER_ACL_INFO, "A→B", reply=GetBrokerAclConfigResponseHeader),
    _op(_C.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, "A→B", request=UpdateGlobalWhiteAddrsConfigRequestHeader),
    _op(_C.GET_TIMER_CHECK_POINT, "slave→B", reply_body=bytes),
    _op(_C.GET_TIMER_METRICS, "slave→B", reply_body=TimerMetricsSerializeWrapper),
    _op(_C.PUT_KV_CONFIG, "A→N", request=PutKVConfigRequestHeader),
    _op(_C.GET_KV_CONFIG, "A→N", request=GetKVConfigRequestHeader, reply=GetKVConfigResponseHeader),
    _op(_C.DELETE_KV_CONFIG, "A→N", request=DeleteKVConfigRequestHeader),
    _op(_C.REGISTER_BROKER, "B→N", request=RegisterBrokerRequestHeader, reply=RegisterBrokerResponseHeader, request_body=RegisterBrokerBody, reply_body=KVTable),
    _op(_C.UNREGISTER_BROKER, "B→N", request=UnRegisterBrokerRequestHeader),
    _op(_C.GET_ROUTEINFO_BY_TOPIC, "C/A→N", request=GetRouteInfoRequestHeader, reply_body=TopicRouteData),
    _op(_C.GET_BROKER_CLUSTER_INFO, "A→N", reply_body=ClusterInfo),
    _op(_C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "A→B", request_body=SubscriptionGroupConfig),
    _op(_C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "A/slave→B", reply_body=SubscriptionGroupWrapper),
    _op(_C.GET_TOPIC_STATS_INFO, "A→B", request=GetTopicStatsInfoRequestHeader, reply_body=TopicStatsTable),
    _op(_C.GET_CONSUMER_CONNECTION_LIST, "A→B", request=GetConsumerConnectionListRequestHeader, reply_body=ConsumerConnection),
    _op(_C.GET_PRODUCER_CONNECTION_LIST, "A→B", request=GetProducerConnectionListRequestHeader, reply_body=ProducerConnection),
    _op(_C.WIPE_WRITE_PERM_OF_BROKER, "A→N", request=WipeWritePermOfBrokerRequestHeader, reply=WipeWritePermOfBrokerResponseHeader),
    _op(_C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, "A→N", reply_body=TopicList),
    _op(_C.DELETE_SUBSCRIPTIONGROUP, "A→B", request=DeleteSubscriptionGroupRequestHeader),
    _op(_C.GET_CONSUME_STATS, "A→B", request=GetConsumeStatsRequestHeader, reply_body=ConsumeStats),
    _op(_C.SUSPEND_CONSUMER, ""),
    _op(_C.RESUME_CONSUMER, ""),
    _op(_C.RESET_CONSUMER_OFFSET_IN_CONSUMER, ""),
    _op(_C.RESET_CONSUMER_OFFSET_IN_BROKER, ""),
    _op(_C.ADJUST_CONSUMER_THREAD_POOL, ""),
    _op(_C.WHO_CONSUME_THE_MESSAGE, ""),
    _op(_C.DELETE_TOPIC_IN_BROKER, "A→B", request=DeleteTopicRequestHeader),
    _op(_C.DELETE_TOPIC_IN_NAMESRV, "A→N", request=DeleteTopicFromNamesrvRequestHeader),
    _op(_C.REGISTER_TOPIC_IN_NAMESRV, "B/A→N", request=RegisterTopicRequestHeader, request_body=TopicRouteData),
    _op(_C.GET_KVLIST_BY_NAMESPACE, "A→N", request=GetKVListByNamespaceRequestHeader, reply_body=KVTable),
    _op(_C.RESET_CONSUMER_CLIENT_OFFSET, "B→C", request=ResetOffsetRequestHeader, request_body=ResetOffsetBody),
    _op(_C.GET_CONSUMER_STATUS_FROM_CLIENT, "B→C", request=GetConsumerStatusRequestHeader, reply_body=GetConsumerStatusBody),
    _op(_C.INVOKE_BROKER_TO_RESET_OFFSET, "A→B", request=ResetOffsetRequestHeader, reply_body=ResetOffsetBody),
    _op(_C.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, "A→B", request=GetConsumerStatusRequestHeader, reply_body=GetConsumerStatusBody),
    _op(_C.GET_TOPICS_BY_CLUSTER, "A→N", request=GetTopicsByClusterRequestHeader, reply_body=TopicList),
    _op(_C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "A→B", request_body=SubscriptionGroupList),
    _op(_C.QUERY_TOPIC_CONSUME_BY_WHO, "A→B", request=QueryTopicConsumeByWhoRequestHeader, reply_body=GroupList),
    _op(_C.REGISTER_FILTER_SERVER, "FS→B", request=RegisterFilterServerRequestHeader, reply=RegisterFilterServerResponseHeader),
    _op(_C.REGISTER_MESSAGE_FILTER_CLASS, "C→FS", request=RegisterMessageFilterClassRequestHeader, request_body=bytes),
    _op(_C.QUERY_CONSUME_TIME_SPAN, "A→B", request=QueryConsumeTimeSpanRequestHeader, reply_body=QueryConsumeTimeSpanBody),
    _op(_C.GET_SYSTEM_TOPIC_LIST_FROM_NS, "A→N", reply_body=TopicList),
    _op(_C.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, "A→B", reply_body=TopicList),
    _op(_C.CLEAN_EXPIRED_CONSUMEQUEUE, "A→B"),
    _op(_C.GET_CONSUMER_RUNNING_INFO, "A→B→C", request=GetConsumerRunningInfoRequestHeader, reply_body=ConsumerRunningInfo),
    _op(_C.QUERY_CORRECTION_OFFSET, "A→B", request=QueryCorrectionOffsetHeader, reply_body=QueryCorrectionOffsetBody),
    _op(_C.CONSUME_MESSAGE_DIRECTLY, "A→B→C", request=ConsumeMessageDirectlyResultRequestHeader, request_body=bytes, reply_body=ConsumeMessageDirectlyResult),
    _op(_C.SEND_MESSAGE_V2, "C→B", request=SendMessageRequestHeaderV2, reply=SendMessageResponseHeader, request_body=bytes),
    _op(_C.GET_UNIT_TOPIC_LIST, "A→N", reply_body=TopicList),
    _op(_C.GET_HAS_UNIT_SUB_TOPIC_LIST, "A→N", reply_body=TopicList),
    _op(_C.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, "A→N", reply_body=TopicList),
    _op(_C.CLONE_GROUP_OFFSET, "A→B", request=CloneGroupOffsetRequestHeader),
    _op(_C.VIEW_BROKER_STATS_DATA, "A→B", request=ViewBrokerStatsDataRequestHeader, reply_body=BrokerStatsData),
    _op(_C.CLEAN_UNUSED_TOPIC, "A→B"),
    _op(_C.GET_BROKER_CONSUME_STATS, "A→B", request=GetConsumeStatsInBrokerHeader, reply_body=ConsumeStatsList),
    _op(_C.UPDATE_NAMESRV_CONFIG, "A→N", request_body=dict),
    _op(_C.GET_NAMESRV_CONFIG, "A→N", reply_body=dict),
    _op(_C.SEND_BATCH_MESSAGE, "C→B", request=SendMessageRequestHeaderV2, reply=SendMessageResponseHeader, request_body=bytes),
    _op(_C.QUERY_CONSUME_QUEUE, "A→B", request=QueryConsumeQueueRequestHeader, reply_body=QueryConsumeQueueResponseBody),
    _op(_C.QUERY_DATA_VERSION, "B→N", request=QueryDataVersionRequestHeader, reply=QueryDataVersionResponseHeader, request_body=DataVersion, reply_body=DataVersion),
    _op(_C.RESUME_CHECK_HALF_MESSAGE, "A→B", request=ResumeCheckHalfMessageRequestHeader),
    _op(_C.SEND_REPLY_MESSAGE, "C→B", request=SendMessageRequestHeader, reply=SendMessageResponseHeader, request_body=bytes),
    _op(_C.SEND_REPLY_MESSAGE_V2, "C→B", request=SendMessageRequestHeaderV2, reply=SendMessageResponseHeader, request_body=bytes),
    _op(_C.PUSH_REPLY_MESSAGE_TO_CLIENT, "B→C", request=ReplyMessageRequestHeader, request_body=bytes),
    _op(_C.ADD_WRITE_PERM_OF_BROKER, "A→N", request=AddWritePermOfBrokerRequestHeader, reply=AddWritePermOfBrokerResponseHeader),
    _op(_C.GET_ALL_PRODUCER_INFO, "A→B", request=GetAllProducerInfoRequestHeader, reply_body=ProducerTableInfo),
    _op(_C.DELETE_EXPIRED_COMMITLOG, "A→B"),
    _op(_C.QUERY_TOPICS_BY_CONSUMER, "A→B", request=QueryTopicsByConsumerRequestHeader, reply_body=TopicList),
    _op(_C.QUERY_SUBSCRIPTION_BY_CONSUMER, "A→B", request=QuerySubscriptionByConsumerRequestHeader, reply_body=QuerySubscriptionResponseBody),
    _op(_C.GET_TOPIC_CONFIG, "A→B", request=GetTopicConfigRequestHeader, reply_body=TopicConfigAndQueueMapping),
    _op(_C.GET_SUBSCRIPTIONGROUP_CONFIG, "A→B", request=GetSubscriptionGroupConfigRequestHeader, reply_body=SubscriptionGroupConfig),
    _op(_C.UPDATE_AND_GET_GROUP_FORBIDDEN, "A→B", request=UpdateGroupForbiddenRequestHeader, reply_body=GroupForbidden),
    _op(_C.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, "A→B", request=CheckRocksdbCqWriteProgressRequestHeader, reply_body=bytes),
    _op(_C.EXPORT_ROCKSDB_CONFIG_TO_JSON, "A→B", request=ExportRocksDBConfigToJsonRequestHeader),
    _op(_C.LITE_PULL_MESSAGE, "C→B", request=PullMessageRequestHeader, reply=PullMessageResponseHeader, reply_body=bytes),
    _op(_C.RECALL_MESSAGE, "C→B", request=RecallMessageRequestHeader, reply=RecallMessageResponseHeader),
    _op(_C.QUERY_ASSIGNMENT, "C→B", request_body=QueryAssignmentRequestBody, reply_body=QueryAssignmentResponseBody),
    _op(_C.SET_MESSAGE_REQUEST_MODE, "A→B", request_body=SetMessageRequestModeRequestBody),
    _op(_C.GET_ALL_MESSAGE_REQUEST_MODE, "slave→B", reply_body=MessageRequestModeSerializeWrapper),
    _op(_C.UPDATE_AND_CREATE_STATIC_TOPIC, "A→B", request=CreateTopicRequestHeader, request_body=TopicQueueMappingDetail),
    _op(_C.GET_BROKER_MEMBER_GROUP, "B→N", request=GetBrokerMemberGroupRequestHeader, reply_body=GetBrokerMemberGroupResponseBody),
    _op(_C.ADD_BROKER, "A→container", request=AddBrokerRequestHeader, request_body=dict),
    _op(_C.REMOVE_BROKER, "A→container", request=RemoveBrokerRequestHeader),
    _op(_C.BROKER_HEARTBEAT, "B→N/controller", request=BrokerHeartbeatRequestHeader),
    _op(_C.NOTIFY_MIN_BROKER_ID_CHANGE, "N→B", request=NotifyMinBrokerIdChangeRequestHeader),
    _op(_C.EXCHANGE_BROKER_HA_INFO, "B→B", request=ExchangeHAInfoRequestHeader, reply=ExchangeHAInfoResponseHeader),
    _op(_C.GET_BROKER_HA_STATUS, "A→B", reply_body=HARuntimeInfo),
    _op(_C.RESET_MASTER_FLUSH_OFFSET, "A→B", request=ResetMasterFlushOffsetHeader),
    _op(_C.CONTROLLER_ALTER_SYNC_STATE_SET, "B→Ctl", request=AlterSyncStateSetRequestHeader, reply=AlterSyncStateSetResponseHeader, request_body=SyncStateSet, reply_body=SyncStateSet),
    _op(_C.CONTROLLER_ELECT_MASTER, "B/A→Ctl", request=ElectMasterRequestHeader, reply=ElectMasterResponseHeader, reply_body=ElectMasterResponseBody),
    _op(_C.CONTROLLER_REGISTER_BROKER, "B→Ctl", request=RegisterBrokerToControllerRequestHeader, reply=RegisterBrokerToControllerResponseHeader, reply_body=SyncStateSet),
    _op(_C.CONTROLLER_GET_REPLICA_INFO, "B→Ctl", request=GetReplicaInfoRequestHeader, reply=GetReplicaInfoResponseHeader, reply_body=SyncStateSet),
    _op(_C.CONTROLLER_GET_METADATA_INFO, "B/A→Ctl", reply=GetMetaDataResponseHeader),
    _op(_C.CONTROLLER_GET_SYNC_STATE_DATA, "A→Ctl", request_body=list[str], reply_body=BrokerReplicasInfo),
    _op(_C.GET_BROKER_EPOCH_CACHE, "A→B", reply_body=EpochEntryCache),
    _op(_C.NOTIFY_BROKER_ROLE_CHANGED, "Ctl→B", request=NotifyBrokerRoleChangedRequestHeader, request_body=SyncStateSet),
    _op(_C.UPDATE_CONTROLLER_CONFIG, "A→Ctl", request_body=dict),
    _op(_C.GET_CONTROLLER_CONFIG, "A→Ctl", reply_body=dict),
    _op(_C.CLEAN_BROKER_DATA, "A→Ctl", request=CleanControllerBrokerDataRequestHeader),
    _op(_C.CONTROLLER_GET_NEXT_BROKER_ID, "B→Ctl", request=GetNextBrokerIdRequestHeader, reply=GetNextBrokerIdResponseHeader),
    _op(_C.CONTROLLER_APPLY_BROKER_ID, "B→Ctl", request=ApplyBrokerIdRequestHeader, reply=ApplyBrokerIdResponseHeader),
    _op(_C.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, "A→B", request_body=dict),
    _op(_C.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, "A→B", request_body=bytes),
    _op(_C.GET_COLD_DATA_FLOW_CTR_INFO, "A→B", reply_body=bytes),
    _op(_C.SET_COMMITLOG_READ_MODE, "A→B"),
    _op(_C.AUTH_CREATE_USER, "A→B", request=CreateUserRequestHeader, request_body=UserInfo),
    _op(_C.AUTH_UPDATE_USER, "A→B", request=UpdateUserRequestHeader, request_body=UserInfo),
    _op(_C.AUTH_DELETE_USER, "A→B", request=DeleteUserRequestHeader),
    _op(_C.AUTH_GET_USER, "A→B", request=GetUserRequestHeader, reply_body=UserInfo),
    _op(_C.AUTH_LIST_USER, "A→B", request=ListUsersRequestHeader, reply_body=list[UserInfo]),
    _op(_C.AUTH_CREATE_ACL, "A→B", request=CreateAclRequestHeader, request_body=AclInfo),
    _op(_C.AUTH_UPDATE_ACL, "A→B", request=UpdateAclRequestHeader, request_body=AclInfo),
    _op(_C.AUTH_DELETE_ACL, "A→B", request=DeleteAclRequestHeader),
    _op(_C.AUTH_GET_ACL, "A→B", request=GetAclRequestHeader, reply_body=AclInfo),
    _op(_C.AUTH_LIST_ACL, "A→B", request=ListAclsRequestHeader, reply_body=list[AclInfo]),
    _op(_C.POP_MESSAGE, "C→B", request=PopMessageRequestHeader, reply=PopMessageResponseHeader, reply_body=bytes),
    _op(_C.ACK_MESSAGE, "C→B", request=AckMessageRequestHeader),
    _op(_C.PEEK_MESSAGE, "C→B", request=PeekMessageRequestHeader, reply=PopMessageResponseHeader, reply_body=bytes),
    _op(_C.CHANGE_MESSAGE_INVISIBLETIME, "C→B", request=ChangeInvisibleTimeRequestHeader, reply=ChangeInvisibleTimeResponseHeader),
    _op(_C.NOTIFICATION, "C→B", request=NotificationRequestHeader, reply=NotificationResponseHeader),
    _op(_C.POLLING_INFO, "A→B", request=PollingInfoRequestHeader, reply=PollingInfoResponseHeader),
    _op(_C.POP_ROLLBACK, "A→B"),
    _op(_C.BATCH_ACK_MESSAGE, "C→B", request_body=BatchAckMessageRequestBody),
)
# fmt: on

OPERATIONS: Final[Mapping[_C, Operation]] = MappingProxyType(
    {operation.code: operation for operation in _ALL}
)
