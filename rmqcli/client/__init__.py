"""The client library: producers, consumers and administration over the remoting protocol, on trio.

Every client is an async context manager, `async with Producer(...) as producer:`; leaving the block ends all
tasks and connections that it started. Timeouts are seconds (float) on trio's clock, timestamps epoch
milliseconds, sizes bytes. Every failure is a `ClientError`; a refusal never looks like an empty result.

The examples of this reference run inside an async function on trio, with an open `producer` and `admin`, and
a topic `orders` of one queue: it has one message, which the group `billing` has not consumed yet.
"""

# ruff: noqa: I001 - sorting would split imports that contain "as"

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.codec.lazy import lazy_names

if TYPE_CHECKING:
    from rmqcli.client.admin.admin import Admin as Admin
    from rmqcli.client.admin.values import (
        BrokerLag as BrokerLag,
        BrokerSummary as BrokerSummary,
        ConnectedProducer as ConnectedProducer,
        GroupDescription as GroupDescription,
        GroupSummary as GroupSummary,
        QueryResult as QueryResult,
        QueueLag as QueueLag,
        QueueReset as QueueReset,
        QueueResetResult as QueueResetResult,
        ResetPlan as ResetPlan,
        ResetResult as ResetResult,
        ResetTarget as ResetTarget,
        TopicChange as TopicChange,
    )
    from rmqcli.client.errors import (
        UNREACHED as UNREACHED,
        BrokerBusy as BrokerBusy,
        BrokerRefused as BrokerRefused,
        ClientError as ClientError,
        ConnectionFailed as ConnectionFailed,
        ConnectionLost as ConnectionLost,
        ConsumerOffline as ConsumerOffline,
        CorruptReply as CorruptReply,
        GroupNotFound as GroupNotFound,
        InvalidRequest as InvalidRequest,
        NoBrokers as NoBrokers,
        NoNameServer as NoNameServer,
        NoRoute as NoRoute,
        NotFound as NotFound,
        NotPermitted as NotPermitted,
        NotSupported as NotSupported,
        OnlineResetUnsupported as OnlineResetUnsupported,
        RequestTimeout as RequestTimeout,
        SettingsIgnored as SettingsIgnored,
        TlsProblem as TlsProblem,
        TopicNotFound as TopicNotFound,
        UnexpectedReply as UnexpectedReply,
        UsedAfterFork as UsedAfterFork,
    )
    from rmqcli.client.instance import ClientInstance as ClientInstance
    from rmqcli.client.lite.consumer import LitePullConsumer as LitePullConsumer
    from rmqcli.client.metrics import ConsumerMetrics as ConsumerMetrics, ProducerMetrics as ProducerMetrics
    from rmqcli.client.group.settings import LiteSettings as LiteSettings
    from rmqcli.client.produce.outgoing import split_batch as split_batch
    from rmqcli.client.produce.producer import Producer as Producer
    from rmqcli.client.produce.targets import (
        by_hash as by_hash,
        by_machine_room as by_machine_room,
        by_queue_id as by_queue_id,
        by_random as by_random,
    )
    from rmqcli.client.produce.request_reply import (
        ReplyTimeout as ReplyTimeout,
        create_reply_message as create_reply_message,
    )
    from rmqcli.client.produce.send_soon import SendCallback as SendCallback
    from rmqcli.client.produce.transaction import (
        CheckAnswered as CheckAnswered,
        LocalTransaction as LocalTransaction,
        TransactionCheck as TransactionCheck,
        TransactionProducer as TransactionProducer,
        TransactionResult as TransactionResult,
        TransactionState as TransactionState,
    )
    from rmqcli.client.pop.consumer import SimpleConsumer as SimpleConsumer
    from rmqcli.client.pull.consumer import PullConsumer as PullConsumer
    from rmqcli.client.pull.scheduled import PullTask as PullTask, ScheduledPull as ScheduledPull
    from rmqcli.client.group.settings import MessageSelector as MessageSelector
    from rmqcli.client.push.consumer import PushConsumer as PushConsumer
    from rmqcli.client.push.state import (
        ConsumeContext as ConsumeContext,
        ConsumeResult as ConsumeResult,
        OrderlyContext as OrderlyContext,
        OrderlyResult as OrderlyResult,
    )
    from rmqcli.client.group.settings import PushSettings as PushSettings
    from rmqcli.client.results import (
        PullResult as PullResult,
        PullStatus as PullStatus,
        SendResult as SendResult,
        SendStatus as SendStatus,
    )
    from rmqcli.client.wire.credentials import Credentials as Credentials
    from rmqcli.client.wire.tls import Tls as Tls
    from rmqcli.codec.bodies.heartbeat import (
        ConsumeFromWhere as ConsumeFromWhere,
        MessageModel as MessageModel,
    )
    from rmqcli.codec.message import Message as Message, MessageExt as MessageExt
    from rmqcli.codec.message_queue import MessageQueue as MessageQueue
else:
    __all__, __getattr__ = lazy_names(__name__)
