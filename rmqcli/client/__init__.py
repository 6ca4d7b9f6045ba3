"""The client library: producers, consumers and administration over the remoting protocol, on trio.

`async with Producer(...) as producer:`, likewise `PullConsumer` and `Admin`; leaving the block ends every task and connection
it started. Units: timeouts are seconds (float) on trio's clock, timestamps epoch milliseconds, sizes bytes. Every failure is
a `ClientError`; a refusal is never an empty result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codec.lazy import lazy_names

if TYPE_CHECKING:
    from rmqcli.client.admin import Admin
    from rmqcli.client.admin.values import (
        BrokerSummary,
        ConnectedProducer,
        GroupDescription,
        GroupSummary,
        QueryResult,
        QueueLag,
        QueueReset,
        QueueResetResult,
        ResetPlan,
        ResetResult,
        ResetTarget,
        TopicChange,
    )
    from rmqcli.client.batches import split_batch
    from rmqcli.client.errors import (
        UNREACHED,
        BrokerBusy,
        BrokerRefused,
        ClientError,
        ConnectionFailed,
        ConnectionLost,
        ConsumerOffline,
        CorruptReply,
        GroupNotFound,
        InvalidRequest,
        NoNameServer,
        NoRoute,
        NotFound,
        NotPermitted,
        NotSupported,
        OnlineResetUnsupported,
        RequestTimeout,
        TopicNotFound,
        UnexpectedReply,
    )
    from rmqcli.client.instance import ClientInstance
    from rmqcli.client.lite import LitePullConsumer, LiteSettings
    from rmqcli.client.producer import Producer
    from rmqcli.client.pull_consumer import PullConsumer
    from rmqcli.client.push import (
        ConsumeContext,
        ConsumeResult,
        MessageSelector,
        OrderlyContext,
        OrderlyResult,
        PushConsumer,
        PushSettings,
    )
    from rmqcli.client.queue_select import by_hash, by_machine_room, by_queue_id, by_random
    from rmqcli.client.request_reply import ReplyTimeout, create_reply_message
    from rmqcli.client.results import PullResult, PullStatus, SendResult, SendStatus
    from rmqcli.client.scheduled_pull import PullTask, ScheduledPull
    from rmqcli.client.send_soon import SendCallback
    from rmqcli.client.transaction import (
        CheckAnswered,
        LocalTransaction,
        TransactionCheck,
        TransactionProducer,
        TransactionResult,
        TransactionState,
    )

__all__ = [
    "UNREACHED",
    "Admin",
    "BrokerBusy",
    "BrokerRefused",
    "BrokerSummary",
    "CheckAnswered",
    "ClientError",
    "ClientInstance",
    "ConnectedProducer",
    "ConnectionFailed",
    "ConnectionLost",
    "ConsumeContext",
    "ConsumeResult",
    "ConsumerOffline",
    "CorruptReply",
    "GroupDescription",
    "GroupNotFound",
    "GroupSummary",
    "InvalidRequest",
    "LitePullConsumer",
    "LiteSettings",
    "LocalTransaction",
    "MessageSelector",
    "NoNameServer",
    "NoRoute",
    "NotFound",
    "NotPermitted",
    "NotSupported",
    "OnlineResetUnsupported",
    "OrderlyContext",
    "OrderlyResult",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PullTask",
    "PushConsumer",
    "PushSettings",
    "QueryResult",
    "QueueLag",
    "QueueReset",
    "QueueResetResult",
    "ReplyTimeout",
    "RequestTimeout",
    "ResetPlan",
    "ResetResult",
    "ResetTarget",
    "ScheduledPull",
    "SendCallback",
    "SendResult",
    "SendStatus",
    "TopicChange",
    "TopicNotFound",
    "TransactionCheck",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "UnexpectedReply",
    "by_hash",
    "by_machine_room",
    "by_queue_id",
    "by_random",
    "create_reply_message",
    "split_batch",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        {
            "rmqcli.client.admin": ("Admin",),
            "rmqcli.client.admin.values": (
                "BrokerSummary",
                "ConnectedProducer",
                "GroupDescription",
                "GroupSummary",
                "QueryResult",
                "QueueLag",
                "QueueReset",
                "QueueResetResult",
                "ResetPlan",
                "ResetResult",
                "ResetTarget",
                "TopicChange",
            ),
            "rmqcli.client.batches": ("split_batch",),
            "rmqcli.client.errors": (
                "UNREACHED",
                "BrokerBusy",
                "BrokerRefused",
                "ClientError",
                "ConnectionFailed",
                "ConnectionLost",
                "ConsumerOffline",
                "CorruptReply",
                "GroupNotFound",
                "InvalidRequest",
                "NoNameServer",
                "NoRoute",
                "NotFound",
                "NotPermitted",
                "NotSupported",
                "OnlineResetUnsupported",
                "RequestTimeout",
                "TopicNotFound",
                "UnexpectedReply",
            ),
            "rmqcli.client.instance": ("ClientInstance",),
            "rmqcli.client.producer": ("Producer",),
            "rmqcli.client.pull_consumer": ("PullConsumer",),
            "rmqcli.client.push": (
                "ConsumeContext",
                "ConsumeResult",
                "MessageSelector",
                "OrderlyContext",
                "OrderlyResult",
                "PushConsumer",
                "PushSettings",
            ),
            "rmqcli.client.lite": (
                "LitePullConsumer",
                "LiteSettings",
            ),
            "rmqcli.client.queue_select": (
                "by_hash",
                "by_machine_room",
                "by_queue_id",
                "by_random",
            ),
            "rmqcli.client.request_reply": (
                "ReplyTimeout",
                "create_reply_message",
            ),
            "rmqcli.client.scheduled_pull": (
                "PullTask",
                "ScheduledPull",
            ),
            "rmqcli.client.send_soon": ("SendCallback",),
            "rmqcli.client.transaction": (
                "CheckAnswered",
                "LocalTransaction",
                "TransactionCheck",
                "TransactionProducer",
                "TransactionResult",
                "TransactionState",
            ),
            "rmqcli.client.results": (
                "PullResult",
                "PullStatus",
                "SendResult",
                "SendStatus",
            ),
        },
    )
