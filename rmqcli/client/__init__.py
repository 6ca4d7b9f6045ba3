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
    from rmqcli.client.produce.batches import split_batch
    from rmqcli.client.produce.producer import Producer
    from rmqcli.client.produce.queue_selectors import by_hash, by_machine_room, by_queue_id, by_random
    from rmqcli.client.produce.request_reply import ReplyTimeout, create_reply_message
    from rmqcli.client.produce.send_soon import SendCallback
    from rmqcli.client.produce.transaction import (
        CheckAnswered,
        LocalTransaction,
        TransactionCheck,
        TransactionProducer,
        TransactionResult,
        TransactionState,
    )
    from rmqcli.client.pull.consumer import PullConsumer
    from rmqcli.client.pull.scheduled import PullTask, ScheduledPull
    from rmqcli.client.push import (
        ConsumeContext,
        ConsumeResult,
        MessageSelector,
        OrderlyContext,
        OrderlyResult,
        PushConsumer,
        PushSettings,
    )
    from rmqcli.client.results import PullResult, PullStatus, SendResult, SendStatus

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
            "rmqcli.client.produce.batches": ("split_batch",),
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
            "rmqcli.client.produce.producer": ("Producer",),
            "rmqcli.client.pull.consumer": ("PullConsumer",),
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
            "rmqcli.client.produce.queue_selectors": (
                "by_hash",
                "by_machine_room",
                "by_queue_id",
                "by_random",
            ),
            "rmqcli.client.produce.request_reply": (
                "ReplyTimeout",
                "create_reply_message",
            ),
            "rmqcli.client.pull.scheduled": (
                "PullTask",
                "ScheduledPull",
            ),
            "rmqcli.client.produce.send_soon": ("SendCallback",),
            "rmqcli.client.produce.transaction": (
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
