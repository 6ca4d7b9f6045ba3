"""Send, recall, answer and end transactions; read messages by pull, key or position."""

from __future__ import annotations

from typing import Final

from codec.codes import RequestCode as R
from codec.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from codec.headers.query import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
    ViewMessageResponseHeader,
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
from codec.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    EndTransactionResponseHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from codec.operations.access import GET, PUB, SUB, UPDATE, on_cluster, on_group, on_topic
from codec.operations.operation import Operation

# fmt: off
SEND_MESSAGE: Final = Operation(R.SEND_MESSAGE, "C→B", request=SendMessageRequestHeader, reply=SendMessageResponseHeader, request_body=bytes, access=(on_topic(PUB),))
SEND_MESSAGE_V2: Final = Operation(R.SEND_MESSAGE_V2, "C→B", request=SendMessageRequestHeaderV2, reply=SendMessageResponseHeader, request_body=bytes, access=(on_topic(PUB),))
SEND_BATCH_MESSAGE: Final = Operation(R.SEND_BATCH_MESSAGE, "C→B", request=SendMessageRequestHeaderV2, reply=SendMessageResponseHeader, request_body=bytes, access=(on_topic(PUB),))
CONSUMER_SEND_MSG_BACK: Final = Operation(R.CONSUMER_SEND_MSG_BACK, "C→B", request=ConsumerSendMsgBackRequestHeader, access=(on_group(SUB, named_by="group"),))
END_TRANSACTION: Final = Operation(R.END_TRANSACTION, "C→B", request=EndTransactionRequestHeader, reply=EndTransactionResponseHeader, access=(on_topic(PUB),))
CHECK_TRANSACTION_STATE: Final = Operation(R.CHECK_TRANSACTION_STATE, "B→C", request=CheckTransactionStateRequestHeader, request_body=bytes, answered=False)
RESUME_CHECK_HALF_MESSAGE: Final = Operation(R.RESUME_CHECK_HALF_MESSAGE, "A→B", request=ResumeCheckHalfMessageRequestHeader, access=(on_cluster(UPDATE),))
SEND_REPLY_MESSAGE: Final = Operation(R.SEND_REPLY_MESSAGE, "C→B", request=SendMessageRequestHeader, reply=SendMessageResponseHeader, request_body=bytes)
SEND_REPLY_MESSAGE_V2: Final = Operation(R.SEND_REPLY_MESSAGE_V2, "C→B", request=SendMessageRequestHeaderV2, reply=SendMessageResponseHeader, request_body=bytes)
PUSH_REPLY_MESSAGE_TO_CLIENT: Final = Operation(R.PUSH_REPLY_MESSAGE_TO_CLIENT, "B→C", request=ReplyMessageRequestHeader, request_body=bytes )
RECALL_MESSAGE: Final = Operation(R.RECALL_MESSAGE, "C→B", request=RecallMessageRequestHeader, reply=RecallMessageResponseHeader, access=(on_topic(PUB),))
PULL_MESSAGE: Final = Operation(R.PULL_MESSAGE, "C→B", request=PullMessageRequestHeader, reply=PullMessageResponseHeader, reply_body=bytes, access=(on_topic(SUB), on_group(SUB)))
LITE_PULL_MESSAGE: Final = Operation(R.LITE_PULL_MESSAGE, "C→B", request=PullMessageRequestHeader, reply=PullMessageResponseHeader, reply_body=bytes, access=(on_topic(SUB), on_group(SUB)))
QUERY_MESSAGE: Final = Operation(R.QUERY_MESSAGE, "C→B", request=QueryMessageRequestHeader, reply=QueryMessageResponseHeader, reply_body=bytes, access=(on_topic(SUB, GET),))
VIEW_MESSAGE_BY_ID: Final = Operation(R.VIEW_MESSAGE_BY_ID, "C/A→B", request=ViewMessageRequestHeader, reply=ViewMessageResponseHeader, reply_body=bytes, access=(on_cluster(GET),))
