"""The messages of the service, declared once in the table below, from which protobuf makes classes at import.

`messages.SendMessageRequest` is such a class. Each row names a message; each of its fields has a number, a
name and a type, with `?` for an optional field (one whose presence is known), `*` for a repeated one, and
`|name` for a member of the oneof `name`. The classes are in a separate pool, not protobuf's default one, so
that a client library with the same messages can also be imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

from rmqcli.codec.proxy.codes import ENUMS

PACKAGE = "apache.rocketmq.v2"
SERVICE = f"{PACKAGE}.MessagingService"

TABLE = """
FilterExpression: 1 type FilterType, 2 expression string
ExponentialBackoff: 1 initial Duration, 2 max Duration, 3 multiplier float
CustomizedBackoff: 1 next Duration*
RetryPolicy: 1 max_attempts int32, 2 exponential_backoff ExponentialBackoff|strategy,
    3 customized_backoff CustomizedBackoff|strategy
Resource: 1 resource_namespace string, 2 name string
SubscriptionEntry: 1 topic Resource, 2 expression FilterExpression
Address: 1 host string, 2 port int32
Endpoints: 1 scheme AddressScheme, 2 addresses Address*
Broker: 1 name string, 2 id int32, 3 endpoints Endpoints
MessageQueue: 1 topic Resource, 2 id int32, 3 permission Permission, 4 broker Broker,
    5 accept_message_types MessageType*
Digest: 1 type DigestType, 2 checksum string
DeadLetterQueue: 1 topic string, 2 message_id string
SystemProperties: 1 tag string?, 2 keys string*, 3 message_id string, 4 body_digest Digest, 5 body_encoding Encoding,
    6 message_type MessageType, 7 born_timestamp Timestamp, 8 born_host string, 9 store_timestamp Timestamp?,
    10 store_host string, 11 delivery_timestamp Timestamp?, 12 receipt_handle string?, 13 queue_id int32,
    14 queue_offset int64?, 15 invisible_duration Duration?, 16 delivery_attempt int32?, 17 message_group string?,
    18 trace_context string?, 19 orphaned_transaction_recovery_duration Duration?,
    20 dead_letter_queue DeadLetterQueue?, 21 lite_topic string?, 22 priority int32?
Message: 1 topic Resource, 2 user_properties map, 3 system_properties SystemProperties, 4 body bytes
Assignment: 1 message_queue MessageQueue
Status: 1 code Code, 2 message string
UA: 1 language Language, 2 version string, 3 platform string, 4 hostname string
Publishing: 1 topics Resource*, 2 max_body_size int32, 3 validate_message_type bool
Subscription: 1 group Resource?, 2 subscriptions SubscriptionEntry*, 3 fifo bool?, 4 receive_batch_size int32?,
    5 long_polling_timeout Duration?, 6 lite_subscription_quota int32?, 7 max_lite_topic_size int32?
Metric: 1 on bool, 2 endpoints Endpoints?
Settings: 1 client_type ClientType?, 2 access_point Endpoints?, 3 backoff_policy RetryPolicy?,
    4 request_timeout Duration?, 5 publishing Publishing|pub_sub, 6 subscription Subscription|pub_sub,
    7 user_agent UA, 8 metric Metric

QueryRouteRequest: 1 topic Resource, 2 endpoints Endpoints
QueryRouteResponse: 1 status Status, 2 message_queues MessageQueue*
SendMessageRequest: 1 messages Message*
SendResultEntry: 1 status Status, 2 message_id string, 3 transaction_id string, 4 offset int64, 5 recall_handle string
SendMessageResponse: 1 status Status, 2 entries SendResultEntry*
QueryAssignmentRequest: 1 topic Resource, 2 group Resource, 3 endpoints Endpoints
QueryAssignmentResponse: 1 status Status, 2 assignments Assignment*
ReceiveMessageRequest: 1 group Resource, 2 message_queue MessageQueue, 3 filter_expression FilterExpression,
    4 batch_size int32, 5 invisible_duration Duration?, 6 auto_renew bool, 7 long_polling_timeout Duration?,
    8 attempt_id string?
ReceiveMessageResponse: 1 status Status|content, 2 message Message|content, 3 delivery_timestamp Timestamp|content
AckMessageEntry: 1 message_id string, 2 receipt_handle string, 3 lite_topic string?
AckMessageRequest: 1 group Resource, 2 topic Resource, 3 entries AckMessageEntry*
AckMessageResultEntry: 1 message_id string, 2 receipt_handle string, 3 status Status
AckMessageResponse: 1 status Status, 2 entries AckMessageResultEntry*
ForwardMessageToDeadLetterQueueRequest: 1 group Resource, 2 topic Resource, 3 receipt_handle string,
    4 message_id string, 5 delivery_attempt int32, 6 max_delivery_attempts int32, 7 lite_topic string?
ForwardMessageToDeadLetterQueueResponse: 1 status Status
HeartbeatRequest: 1 group Resource?, 2 client_type ClientType
HeartbeatResponse: 1 status Status
EndTransactionRequest: 1 topic Resource, 2 message_id string, 3 transaction_id string,
    4 resolution TransactionResolution, 5 source TransactionSource, 6 trace_context string
EndTransactionResponse: 1 status Status
PrintThreadStackTraceCommand: 1 nonce string
ReconnectEndpointsCommand: 1 nonce string
ThreadStackTrace: 1 nonce string, 2 thread_stack_trace string?
VerifyMessageCommand: 1 nonce string, 2 message Message
VerifyMessageResult: 1 nonce string
RecoverOrphanedTransactionCommand: 1 message Message, 2 transaction_id string
NotifyUnsubscribeLiteCommand: 1 lite_topic string
TelemetryCommand: 1 status Status?, 2 settings Settings|command, 3 thread_stack_trace ThreadStackTrace|command,
    4 verify_message_result VerifyMessageResult|command,
    5 recover_orphaned_transaction_command RecoverOrphanedTransactionCommand|command,
    6 print_thread_stack_trace_command PrintThreadStackTraceCommand|command,
    7 verify_message_command VerifyMessageCommand|command,
    8 reconnect_endpoints_command ReconnectEndpointsCommand|command,
    9 notify_unsubscribe_lite_command NotifyUnsubscribeLiteCommand|command
NotifyClientTerminationRequest: 1 group Resource?
NotifyClientTerminationResponse: 1 status Status
ChangeInvisibleDurationRequest: 1 group Resource, 2 topic Resource, 3 receipt_handle string,
    4 invisible_duration Duration, 5 message_id string, 6 lite_topic string?, 7 suspend bool?
ChangeInvisibleDurationResponse: 1 status Status, 2 receipt_handle string
PullMessageRequest: 1 group Resource, 2 message_queue MessageQueue, 3 offset int64, 4 batch_size int32,
    5 filter_expression FilterExpression, 6 long_polling_timeout Duration
PullMessageResponse: 1 status Status|content, 2 message Message|content, 3 next_offset int64|content
UpdateOffsetRequest: 1 group Resource, 2 message_queue MessageQueue, 3 offset int64
UpdateOffsetResponse: 1 status Status
GetOffsetRequest: 1 group Resource, 2 message_queue MessageQueue
GetOffsetResponse: 1 status Status, 2 offset int64
QueryOffsetRequest: 1 message_queue MessageQueue, 2 query_offset_policy QueryOffsetPolicy, 3 timestamp Timestamp?
QueryOffsetResponse: 1 status Status, 2 offset int64
RecallMessageRequest: 1 topic Resource, 2 recall_handle string
RecallMessageResponse: 1 status Status, 2 message_id string
"""


class Method(NamedTuple):
    """An rpc. Its request is the message `{name}Request`, its reply `{name}Response`; Telemetry exchanges
    TelemetryCommands."""

    name: str
    streams_replies: bool = False
    streams_requests: bool = False

    @property
    def path(self) -> str:
        return f"/{SERVICE}/{self.name}"

    @property
    def request(self) -> Any:
        return _CLASSES["TelemetryCommand" if self.streams_requests else f"{self.name}Request"]

    @property
    def reply(self) -> Any:
        return _CLASSES["TelemetryCommand" if self.streams_requests else f"{self.name}Response"]


METHODS = (
    Method("QueryRoute"),
    Method("Heartbeat"),
    Method("SendMessage"),
    Method("QueryAssignment"),
    Method("ReceiveMessage", streams_replies=True),
    Method("AckMessage"),
    Method("ForwardMessageToDeadLetterQueue"),
    Method("PullMessage", streams_replies=True),
    Method("UpdateOffset"),
    Method("GetOffset"),
    Method("QueryOffset"),
    Method("EndTransaction"),
    Method("Telemetry", streams_replies=True, streams_requests=True),
    Method("NotifyClientTermination"),
    Method("ChangeInvisibleDuration"),
    Method("RecallMessage"),
)

_Field: Any = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    name: getattr(_Field, f"TYPE_{name.upper()}")
    for name in ["string", "bytes", "bool", "int32", "int64", "float"]
}
_KNOWN = {"Duration": duration_pb2, "Timestamp": timestamp_pb2}
_NAMES = {one.__name__ for one in ENUMS}


def _file() -> Any:
    """Return the descriptor of the file that the table declares."""
    file = descriptor_pb2.FileDescriptorProto(name="rmq/service.proto", package=PACKAGE, syntax="proto3")
    file.dependency.extend(module.DESCRIPTOR.name for module in _KNOWN.values())
    for enum in ENUMS:
        declared = file.enum_type.add(name=enum.__name__)
        for value in enum:
            declared.value.add(name=value.name, number=value.value)
    for row in TABLE.replace(",\n", ",").strip().splitlines():
        if row:
            name, _, fields = row.partition(": ")
            message = file.message_type.add(name=name)
            for text in fields.split(","):
                _declare(message, *text.split())
    # The oneofs of optional fields follow those that the table names.
    for message in file.message_type:
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")
    return file


def _declare(message: Any, number: str, name: str, kind: str) -> None:
    """Add a field of the table to the descriptor of its message."""
    kind, _, oneof = kind.partition("|")
    label = _Field.LABEL_REPEATED if kind == "map" or kind.endswith("*") else _Field.LABEL_OPTIONAL
    field = message.field.add(name=name, number=int(number), label=label, proto3_optional=kind.endswith("?"))
    kind = kind.rstrip("?*")
    if oneof:
        names = [one.name for one in message.oneof_decl]
        if oneof not in names:
            names.append(oneof)
            message.oneof_decl.add(name=oneof)
        field.oneof_index = names.index(oneof)
    if kind == "map":
        kind = "".join(word.capitalize() for word in name.split("_")) + "Entry"
        entry = message.nested_type.add(name=kind)
        entry.options.map_entry = True
        _declare(entry, "1", "key", "string")
        _declare(entry, "2", "value", "string")
        kind = f"{message.name}.{kind}"
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = _Field.TYPE_ENUM if kind in _NAMES else _Field.TYPE_MESSAGE
    field.type_name = f".google.protobuf.{kind}" if kind in _KNOWN else f".{PACKAGE}.{kind}"


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    for module in _KNOWN.values():
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    file = _file()
    pool.Add(file)
    names = [
        *(f"{PACKAGE}.{one.name}" for one in file.message_type),
        *(f"google.protobuf.{name}" for name in _KNOWN),
    ]
    found = (pool.FindMessageTypeByName(name) for name in names)
    return {one.name: message_factory.GetMessageClass(one) for one in found}


_CLASSES = _classes()
globals().update(_CLASSES)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
