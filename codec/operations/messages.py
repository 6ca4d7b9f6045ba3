"""Sends, recalls, replies and transactions; reads of messages by pull, key or commit-log offset."""

from __future__ import annotations

from typing import Final

from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.headers import pull, send, transactions
from rmqcli.codec.operations.access import GET, PUB, SUB, on_group, on_message, on_topic
from rmqcli.codec.operations.operation import Operation

# fmt: off
SEND_MESSAGE: Final = Operation(R.SEND_MESSAGE, "C→B", request=send.SendMessageRequestHeader, reply=send.SendMessageResponseHeader, request_body=bytes, access=(on_topic(PUB),))
SEND_MESSAGE_V2: Final = Operation(R.SEND_MESSAGE_V2, "C→B", request=send.SendMessageRequestHeaderV2, reply=send.SendMessageResponseHeader, request_body=bytes, access=(on_topic(PUB),))
SEND_BATCH_MESSAGE: Final = Operation(R.SEND_BATCH_MESSAGE, "C→B", request=send.SendMessageRequestHeaderV2, reply=send.SendMessageResponseHeader, request_body=bytes, access=(on_topic(PUB),))
CONSUMER_SEND_MSG_BACK: Final = Operation(R.CONSUMER_SEND_MSG_BACK, "C→B", request=send.ConsumerSendMsgBackRequestHeader, access=(on_group(SUB, named_by="group"), on_message(SUB, at="offset")))
END_TRANSACTION: Final = Operation(R.END_TRANSACTION, "C→B", request=transactions.EndTransactionRequestHeader, reply=transactions.EndTransactionResponseHeader, access=(on_message(PUB, at="commit_log_offset"),))
CHECK_TRANSACTION_STATE: Final = Operation(R.CHECK_TRANSACTION_STATE, "B→C", request=transactions.CheckTransactionStateRequestHeader, request_body=bytes, answered=False)
RESUME_CHECK_HALF_MESSAGE: Final = Operation(R.RESUME_CHECK_HALF_MESSAGE, "A→B", request=transactions.ResumeCheckHalfMessageRequestHeader, access=(on_message(PUB, at="msg_id"),))
SEND_REPLY_MESSAGE: Final = Operation(R.SEND_REPLY_MESSAGE, "C→B", request=send.SendMessageRequestHeader, reply=send.SendMessageResponseHeader, request_body=bytes, access=(on_topic(PUB),))
SEND_REPLY_MESSAGE_V2: Final = Operation(R.SEND_REPLY_MESSAGE_V2, "C→B", request=send.SendMessageRequestHeaderV2, reply=send.SendMessageResponseHeader, request_body=bytes, access=(on_topic(PUB),))
PUSH_REPLY_MESSAGE_TO_CLIENT: Final = Operation(R.PUSH_REPLY_MESSAGE_TO_CLIENT, "B→C", request=send.ReplyMessageRequestHeader, request_body=bytes)
RECALL_MESSAGE: Final = Operation(R.RECALL_MESSAGE, "C→B", request=send.RecallMessageRequestHeader, reply=send.RecallMessageResponseHeader, access=(on_topic(PUB),))
PULL_MESSAGE: Final = Operation(R.PULL_MESSAGE, "C→B", request=pull.PullMessageRequestHeader, reply=pull.PullMessageResponseHeader, reply_body=bytes, access=(on_topic(SUB), on_group(SUB)))
LITE_PULL_MESSAGE: Final = Operation(R.LITE_PULL_MESSAGE, "C→B", request=pull.PullMessageRequestHeader, reply=pull.PullMessageResponseHeader, reply_body=bytes, access=(on_topic(SUB), on_group(SUB)))
QUERY_MESSAGE: Final = Operation(R.QUERY_MESSAGE, "C→B", request=pull.QueryMessageRequestHeader, reply=pull.QueryMessageResponseHeader, reply_body=bytes, access=(on_topic(SUB, GET),))
VIEW_MESSAGE_BY_ID: Final = Operation(R.VIEW_MESSAGE_BY_ID, "C/A→B", request=pull.ViewMessageRequestHeader, reply=pull.ViewMessageResponseHeader, reply_body=bytes, access=(on_message(SUB, at="offset"),))
