"""POP consumption and assignment of queues by the broker (5.x)."""

from __future__ import annotations

from typing import Final

from rmqcli.codec.bodies import pop as bodies
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.headers import pop as headers
from rmqcli.codec.operations.access import GET, SUB, UPDATE, on_cluster, on_group, on_topic
from rmqcli.codec.operations.operation import Operation

# fmt: off
QUERY_ASSIGNMENT: Final = Operation(R.QUERY_ASSIGNMENT, "C→B", request_body=bodies.QueryAssignmentRequestBody, reply_body=bodies.QueryAssignmentResponseBody, access=(on_topic(SUB), on_group(SUB)))
SET_MESSAGE_REQUEST_MODE: Final = Operation(R.SET_MESSAGE_REQUEST_MODE, "A→B", request_body=bodies.SetMessageRequestModeRequestBody, access=(on_cluster(UPDATE),))
GET_ALL_MESSAGE_REQUEST_MODE: Final = Operation(R.GET_ALL_MESSAGE_REQUEST_MODE, "slave→B", reply_body=bodies.MessageRequestModeSerializeWrapper, access=(on_cluster(GET),))
POP_MESSAGE: Final = Operation(R.POP_MESSAGE, "C→B", request=headers.PopMessageRequestHeader, reply=headers.PopMessageResponseHeader, reply_body=bytes, access=(on_topic(SUB), on_group(SUB)))
ACK_MESSAGE: Final = Operation(R.ACK_MESSAGE, "C→B", request=headers.AckMessageRequestHeader, access=(on_topic(SUB), on_group(SUB)))
PEEK_MESSAGE: Final = Operation(R.PEEK_MESSAGE, "C→B", request=headers.PeekMessageRequestHeader, reply=headers.PopMessageResponseHeader, reply_body=bytes, access=(on_topic(SUB), on_group(SUB)))
CHANGE_MESSAGE_INVISIBLETIME: Final = Operation(R.CHANGE_MESSAGE_INVISIBLETIME, "C→B", request=headers.ChangeInvisibleTimeRequestHeader, reply=headers.ChangeInvisibleTimeResponseHeader, access=(on_topic(SUB), on_group(SUB)))
NOTIFICATION: Final = Operation(R.NOTIFICATION, "C→B", request=headers.NotificationRequestHeader, reply=headers.NotificationResponseHeader, access=(on_topic(SUB), on_group(SUB)))
POLLING_INFO: Final = Operation(R.POLLING_INFO, "A→B", request=headers.PollingInfoRequestHeader, reply=headers.PollingInfoResponseHeader, access=(on_cluster(GET),))
POP_ROLLBACK: Final = Operation(R.POP_ROLLBACK, "A→B", access=(on_cluster(UPDATE),))
BATCH_ACK_MESSAGE: Final = Operation(R.BATCH_ACK_MESSAGE, "C→B", request_body=bodies.BatchAckMessageRequestBody, access=(on_topic(SUB, named_by="acks.topic"), on_group(SUB, named_by="acks.consumer_group")))
