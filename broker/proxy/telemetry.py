"""Telemetry, Heartbeat and NotifyClientTermination: the identity and settings of clients.

A client whose settings are unknown is served anyway, because some clients do not reopen their stream after a
restart of the server.
"""

from __future__ import annotations

from typing import Any

import trio

from rmqcli.broker.errors import Refusal
from rmqcli.broker.proxy.answers import StatusError, of_refusal, status
from rmqcli.broker.proxy.backend import Backend
from rmqcli.broker.proxy.calling import Caller, decoded, group_name, publish, subscribe, topic_name
from rmqcli.broker.proxy.clients import Client
from rmqcli.broker.proxy.convert import duration, full_name
from rmqcli.broker.proxy.offsets import TAG, expression_of
from rmqcli.broker.proxy.questions import answer_key
from rmqcli.codec.acl.decision import Need
from rmqcli.codec.bodies.config import CustomizedRetryPolicy, ExponentialRetryPolicy, SubscriptionGroupConfig
from rmqcli.codec.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    ProducerData,
    SubscriptionData,
)
from rmqcli.codec.errors import SelectorError
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import ClientType, Code
from rmqcli.codec.proxy.framing import CallError, GrpcStatus
from rmqcli.codec.selector import ALL, parse_tags, tag_codes

LONGEST_COMMAND = 256 * 1024
LONGEST_ANSWER = 1024 * 1024
"""A client whose thread stacks are requested may have a thousand threads."""
MOST_TOPICS = 1024
SEND_ATTEMPTS = 3
DEFAULT_RETRIES = 16
BATCH_SIZE = 32
POLL_MS = 20_000
CONSUMERS = (ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER, ClientType.PULL_CONSUMER)
RETRY_DELAYS_MS = tuple(
    1000 * seconds
    for seconds in (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
)
"""Java's `CustomizedRetryPolicy` of a group without one."""


async def telemetry(caller: Caller) -> None:
    """Exchange commands with a client until it ends the stream."""
    call = caller.call
    await call.begin()
    try:
        caller.check()
    except Refusal as refusal:
        # A caller that merely names the id and the account of a client does not get its commands.
        error = of_refusal(refusal)
        await call.send(_refused(error).SerializeToString())
        raise CallError(GrpcStatus.INVALID_ARGUMENT, str(error)) from None
    client = caller.client()
    before = client.stream
    if before is not None:  # the client has lost it, and opened another one
        client.end_stream(before)
        before.cancel()
    client.stream = call
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send_commands, call)
            try:
                await _take_all(caller, client)
            except CallError as error:  # the nursery would raise it in a group
                call.finish(error.status, str(error))
            nursery.cancel_scope.cancel()
    except trio.Cancelled:
        # As after a goodbye: a client of Node that has just been shut down does not catch the error of a status.
        call.finish()
        raise
    finally:
        client.end_stream(call)


async def _take_all(caller: Caller, client: Client) -> None:
    """Receive commands until the client ends the stream. Raises CallError for an invalid one."""
    while (data := await caller.call.receive()) is not None:
        client.last_call = trio.current_time()
        longest = LONGEST_ANSWER if client.is_asked else LONGEST_COMMAND
        if len(data) > longest:
            raise CallError(GrpcStatus.RESOURCE_EXHAUSTED, f"a command can have {longest} bytes")
        await _take(caller, client, decoded(messages.TelemetryCommand, data))


async def _take(caller: Caller, client: Client, command: Any) -> None:
    if (key := answer_key(command)) is not None:
        client.answered(key, command)
    if not command.HasField("settings"):
        return
    try:
        settings = command.settings
        _check(caller, settings)
        client.settings = settings
        await _register(caller, client)
        answer = messages.TelemetryCommand(
            status=status(), settings=await settings_for(caller.backend, settings, client)
        )
    except StatusError as error:
        answer = _refused(error)
    except Refusal as refusal:
        answer = _refused(of_refusal(refusal))
    client.tell(answer)


def _refused(error: StatusError) -> Any:
    return messages.TelemetryCommand(status=status(error.code, str(error)))


def _check(caller: Caller, settings: Any) -> None:
    """Raise StatusError or Refusal for settings that are invalid, or not permitted for the account."""
    needs: list[Need] = []
    if settings.HasField("publishing"):
        topics = [topic_name(full_name(topic)) for topic in settings.publishing.topics]
        needs += map(publish, topics)
    elif settings.HasField("subscription"):
        group = group_name(full_name(settings.subscription.group))
        topics = [topic_name(full_name(one.topic)) for one in settings.subscription.subscriptions]
        for topic in topics:
            needs += subscribe(topic, group)
    else:
        raise StatusError(
            Code.UNRECOGNIZED_CLIENT_TYPE, "the settings are neither of a producer nor of a consumer"
        )
    if len(topics) > MOST_TOPICS:
        raise StatusError(Code.BAD_REQUEST, f"a client can have {MOST_TOPICS} topics")
    caller.check(*needs)


async def _register(caller: Caller, client: Client) -> None:
    """Register a client in its groups, as a heartbeat of remoting does. Raises Refusal."""
    settings = client.settings
    if settings is None:
        return
    producers: list[ProducerData] = []
    consumers: list[ConsumerData] = []
    if settings.HasField("publishing"):
        producers = [ProducerData(group_name=full_name(topic)) for topic in settings.publishing.topics]
    else:
        consumers = [_consumer(caller.backend, settings)]
    data = HeartbeatData(client_id=client.client_id, producer_data_set=producers, consumer_data_set=consumers)
    await caller.backend.register(caller, client, data)


def _consumer(backend: Backend, settings: Any) -> ConsumerData:
    subscription = settings.subscription
    is_pull = settings.client_type == ClientType.PULL_CONSUMER
    return ConsumerData(
        group_name=full_name(subscription.group),
        consume_type=ConsumeType.CONSUME_ACTIVELY if is_pull else ConsumeType.CONSUME_POP,
        message_model=MessageModel.CLUSTERING,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        subscription_data_set=[_subscription(backend, one) for one in subscription.subscriptions],
    )


def _subscription(backend: Backend, entry: Any) -> SubscriptionData:
    topic = full_name(entry.topic)
    text, kind = expression_of(entry.expression)
    if kind != TAG or text == ALL:
        return SubscriptionData(
            topic=topic, sub_string=text, expression_type=kind, sub_version=backend.now_ms()
        )
    try:
        tags = parse_tags(text)
    except SelectorError as error:
        raise StatusError(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from None
    return SubscriptionData(
        topic=topic,
        sub_string=text,
        tags_set=list(tags),
        code_set=list(tag_codes(tags)),
        sub_version=backend.now_ms(),
    )


async def settings_for(backend: Backend, given: Any, client: Client) -> Any:
    """Return the settings of a client with those that the server decides."""
    settings = messages.Settings()
    settings.CopyFrom(given)
    settings.metric.on = False
    if settings.HasField("publishing"):
        settings.backoff_policy.CopyFrom(
            messages.RetryPolicy(max_attempts=SEND_ATTEMPTS, exponential_backoff=_exponential(10, 1000, 2))
        )
        settings.publishing.max_body_size = backend.max_message_size
        settings.publishing.validate_message_type = True
        return settings
    subscription = settings.subscription
    group = await backend.group(full_name(subscription.group))
    subscription.fifo = group is not None and bool(group.consume_message_orderly)
    subscription.receive_batch_size = BATCH_SIZE
    subscription.long_polling_timeout.CopyFrom(duration(POLL_MS))
    settings.backoff_policy.CopyFrom(_backoff(group, client))
    return settings


def _backoff(group: SubscriptionGroupConfig | None, client: Client) -> Any:
    """Return the pauses between the deliveries of a message; the Node client has none for a customized policy."""
    attempts = (DEFAULT_RETRIES if group is None else group.retry_max_times) + 1
    policy = None if group is None else group.group_retry_policy
    growing = None if policy is None else policy.exponential_retry_policy
    fixed = None if policy is None else policy.customized_retry_policy
    if client.is_node or (policy is not None and policy.type == "EXPONENTIAL"):
        one = growing or ExponentialRetryPolicy()
        backoff = _exponential(one.initial, one.max, one.multiplier)
        return messages.RetryPolicy(max_attempts=attempts, exponential_backoff=backoff)
    pauses = (fixed or CustomizedRetryPolicy()).next or RETRY_DELAYS_MS
    listed = messages.CustomizedBackoff(next=[duration(ms) for ms in pauses])
    return messages.RetryPolicy(max_attempts=attempts, customized_backoff=listed)


def _exponential(initial_ms: int, max_ms: int, multiplier: int) -> Any:
    return messages.ExponentialBackoff(
        initial=duration(initial_ms), max=duration(max_ms), multiplier=float(multiplier)
    )


async def heartbeat(caller: Caller, _request: Any) -> Any:
    """Keep a client in its groups."""
    caller.check()
    await _register(caller, caller.client())
    return messages.HeartbeatResponse()


async def notify_client_termination(caller: Caller, request: Any) -> Any:
    """Remove a client, which ends; its held receives end at once."""
    caller.check()
    client = caller.front.clients.find(caller.client_id, caller.access_key)
    if client is not None:
        if request.HasField("group"):
            await caller.backend.unregister(caller, client, full_name(request.group))
        client.leave()
    return messages.NotifyClientTerminationResponse()
