"""The running info of consumers (307), in the form that Java's mqadmin analyses."""

from __future__ import annotations

import sys
import traceback
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rmqcli.client.instance import ClientInstance
from rmqcli.codec.bodies.heartbeat import ConsumeType, SubscriptionData
from rmqcli.codec.bodies.running import ConsumerRunningInfo, PopProcessQueueInfo, ProcessQueueInfo
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.versions import CURRENT_VERSION, version_name

if TYPE_CHECKING:
    from rmqcli.client.group.settings import LiteSettings
    from rmqcli.client.lite.pulling import AssignedQueue
    from rmqcli.client.push.pop_queue import PopQueue
    from rmqcli.client.push.process_queue import ProcessQueue
    from rmqcli.client.push.state import GroupState

MIB = 1024 * 1024
NO_OFFSET = -1

# Our option → Java's name, where they differ in more than spelling; no times, whose units differ.
_JAVA_NAMES = {
    "consumers": "consumeThreadMax",
    "batch_size": "consumeMessageBatchMaxSize",
    "pull_batch_size": "pullBatchSize",
    "max_span": "consumeConcurrentlyMaxSpan",
    "queue_messages": "pullThresholdForQueue",
    "topic_messages": "pullThresholdForTopic",
    "max_reconsume_times": "maxReconsumeTimes",
    "post_subscription": "postSubscriptionWhenPull",
    "message_model": "messageModel",
    "consume_from": "consumeFromWhere",
}


def pull_info(
    instance: ClientInstance, group: str, started_ms: int, subscriptions: Collection[SubscriptionData]
) -> ConsumerRunningInfo:
    return ConsumerRunningInfo(
        properties=_common(instance, group, ConsumeType.CONSUME_ACTIVELY, started_ms),
        subscription_set=list(subscriptions),
    )


def lite_info(
    instance: ClientInstance,
    group: str,
    started_ms: int,
    subscriptions: Collection[SubscriptionData],
    settings: LiteSettings,
    queues: Mapping[MessageQueue, AssignedQueue],
) -> ConsumerRunningInfo:
    info = pull_info(instance, group, started_ms, subscriptions)
    return replace(
        info,
        properties={
            **info.properties,
            "messageModel": str(settings.message_model),
            "consumeFromWhere": str(settings.consume_from),
            "pullBatchSize": str(settings.pull_batch_size),
            "pullThresholdForAll": str(settings.all_messages),
            "pullThresholdForQueue": str(settings.queue_messages),
            "pullThresholdSizeForQueue": str(settings.queue_bytes // MIB),
            "consumeMaxSpan": str(settings.max_span),
            "autoCommit": str(settings.auto_commit).lower(),
            "autoCommitIntervalMillis": str(round(settings.commit_interval * 1000)),
        },
        mq_table={queue: _assigned(queues[queue]) for queue in sorted(queues)},
    )


def push_info(state: GroupState, stacks: bool) -> ConsumerRunningInfo:
    """Return the state of a push consumer; `stacks` adds the stack of every thread."""
    return ConsumerRunningInfo(
        properties=_properties(state),
        subscription_set=[subscription.data for subscription in state.subscriptions.values()],
        mq_table={queue: _queue_info(state, queue, held) for queue, held in sorted(state.queues.items())},
        status_table={topic: state.statistics[topic].status() for topic in state.subscriptions},
        jstack=_stacks() if stacks else None,
        mq_pop_table={queue: _popped(held) for queue, held in sorted(state.popped.items())} or None,
    )


def _properties(state: GroupState) -> dict[str, str]:
    settings = state.settings
    return {
        **_common(
            state.instance,
            state.group,
            ConsumeType.CONSUME_PASSIVELY,
            state.started_ms,
            orderly=state.orderly,
        ),
        "PROP_THREADPOOL_CORE_SIZE": str(settings.consumers),
        "consumeThreadMin": str(settings.consumers),
        "pullInterval": str(round(settings.pull_interval * 1000)),
        "pullThresholdSizeForQueue": str(settings.queue_bytes // MIB),
        "pullThresholdSizeForTopic": str(settings.topic_bytes // MIB),
        "consumeTimeout": str(round(settings.consume_timeout / 60)),
        "suspendCurrentQueueTimeMillis": str(round(settings.suspend_time * 1000)),
        **{java: _text(getattr(settings, ours)) for ours, java in _JAVA_NAMES.items()},
    }


def _common(
    instance: ClientInstance, group: str, kind: ConsumeType, started_ms: int, *, orderly: bool = False
) -> dict[str, str]:
    """Return the properties of every consumer (Java `ConsumerRunningInfo.PROP_*`)."""
    return {
        "PROP_NAMESERVER_ADDR": ";".join(instance.name_servers.addresses),
        "PROP_CONSUME_TYPE": kind,
        "PROP_CLIENT_VERSION": version_name(CURRENT_VERSION),
        "PROP_CONSUMEORDERLY": str(orderly).lower(),
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "consumerGroup": group,
    }


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _queue_info(state: GroupState, queue: MessageQueue, held: ProcessQueue) -> ProcessQueueInfo:
    first, last = _ends(held.messages)
    committed = state.offsets.memory(queue)
    taken_first, taken_last = _ends(held.taken)
    return ProcessQueueInfo(
        commit_offset=NO_OFFSET if committed is None else committed,
        cached_msg_min_offset=first,
        cached_msg_max_offset=last,
        cached_msg_count=len(held.messages),
        cached_msg_size_in_mib=held.size // MIB,
        transaction_msg_min_offset=taken_first,
        transaction_msg_max_offset=taken_last,
        transaction_msg_count=len(held.taken),
        locked=held.locked,
        try_unlock_times=held.unlock_tries,
        last_lock_timestamp=held.last_lock_ms,
        droped=held.dropped,
        last_pull_timestamp=held.last_pull_ms,
        last_consume_timestamp=held.last_consume_ms,
    )


def _popped(held: PopQueue) -> PopProcessQueueInfo:
    return PopProcessQueueInfo(
        wait_ack_count=held.count, droped=held.dropped, last_pop_timestamp=held.last_pull_ms
    )


def _assigned(queue: AssignedQueue) -> ProcessQueueInfo:
    first, last = (queue.batches[0][0], queue.batches[-1][-1]) if queue.batches else (None, None)
    return ProcessQueueInfo(
        commit_offset=NO_OFFSET if queue.consumed is None else queue.consumed,
        cached_msg_min_offset=0 if first is None else first.queue_offset,
        cached_msg_max_offset=0 if last is None else last.queue_offset,
        cached_msg_count=queue.count,
        cached_msg_size_in_mib=queue.size // MIB,
        droped=queue.dropped,
    )


def _ends(messages: OrderedDict[int, MessageExt]) -> tuple[int, int]:
    return (next(iter(messages)), next(reversed(messages))) if messages else (0, 0)


def _stacks() -> str:
    return "\n".join(
        f"thread {ident}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )
