"""The client library: producers, consumers and administration over the remoting protocol, on trio.

`async with Producer(...) as producer:`, likewise `PullConsumer` and `Admin`; leaving the block ends every task and connection
it started. Units: timeouts are seconds (float) on trio's clock, timestamps epoch milliseconds, sizes bytes. Every failure is
a `ClientError`; a refusal is never an empty result.
"""

from __future__ import annotations

from rmqcli.client.admin import Admin
from rmqcli.client.admin.values import (
    BrokerSummary,
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
from rmqcli.client.results import PullResult, PullStatus, SendResult, SendStatus

__all__ = [
    "Admin",
    "BrokerBusy",
    "BrokerRefused",
    "BrokerSummary",
    "ClientError",
    "ClientInstance",
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
    "PushConsumer",
    "PushSettings",
    "QueryResult",
    "QueueLag",
    "QueueReset",
    "QueueResetResult",
    "RequestTimeout",
    "ResetPlan",
    "ResetResult",
    "ResetTarget",
    "SendResult",
    "SendStatus",
    "TopicChange",
    "TopicNotFound",
    "UnexpectedReply",
    "split_batch",
]
