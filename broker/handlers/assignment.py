"""Allocation of queues by the broker, and the mode in which a group consumes a topic: codes 400, 401, 402
(Java class `QueryAssignmentProcessor`).

A member whose client leaves allocation to brokers (`setClientRebalance(false)`) queries one of them at each
rebalance. Brokers may disagree about the members for a moment, just like clients that do the allocation
themselves.
"""

from __future__ import annotations

from functools import partial

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import BrokerError, Refusal
from rmqcli.broker.net.handling import Reply, Request
from rmqcli.broker.services.clients import count_created
from rmqcli.codec.allocation import STRATEGIES
from rmqcli.codec.bodies.heartbeat import MessageModel
from rmqcli.codec.bodies.pop import (
    MessageQueueAssignment,
    MessageRequestModeSerializeWrapper,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.message import RETRY_PREFIX
from rmqcli.codec.message_queue import MessageQueue

PULL = "PULL"


async def query_assignment(
    broker: BrokerContext, request: Request[None, QueryAssignmentRequestBody]
) -> Reply[None, QueryAssignmentResponseBody]:
    """Return the queues that a member of a group should pull from (code 400).

    The reply has no assignments for a topic without a route or a group that is offline. For an unknown
    strategy, Java replies in the same way, and its client then waits without a reason; here it is refused.
    """
    body = request.body
    if body.message_model is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "messageModel: BROADCASTING or CLUSTERING is expected")
    if body.message_model is MessageModel.CLUSTERING and body.strategy_name not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        remark = (
            f"strategy {body.strategy_name!r} is not known to brokers, only {known}: allocate in the client"
        )
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    try:
        queues = await broker.routes.queues(body.topic)
    except BrokerError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
    mine = None if queues is None else _allocated(broker, body, queues)
    assigned = (
        None if mine is None else [MessageQueueAssignment(message_queue=one, mode=PULL) for one in mine]
    )
    return Reply(body=QueryAssignmentResponseBody(message_queue_assignments=assigned))


def _allocated(
    broker: BrokerContext, body: QueryAssignmentRequestBody, queues: tuple[MessageQueue, ...]
) -> list[MessageQueue] | None:
    if body.message_model is MessageModel.BROADCASTING:
        return list(queues)
    group = broker.consumers.get(body.consumer_group)
    if group is None:
        return None
    members = sorted(group.client_ids())
    if body.client_id not in members or not queues:
        return []
    return STRATEGIES[body.strategy_name](body.client_id, queues, members)


def set_request_mode(
    broker: BrokerContext, request: Request[None, SetMessageRequestModeRequestBody]
) -> Reply[None, None]:
    """Set the mode of a group (code 401). Every group pulls, so PULL changes nothing and POP is refused. As
    in Java, the group is created."""
    body = request.body
    if body.mode != PULL:
        remark = f"the broker has no POP consumption: mode {body.mode} is not supported"
        raise Refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
    if body.topic.startswith(RETRY_PREFIX):
        raise Refusal(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if broker.topics.get(body.topic) is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{body.topic}] not exist")
    config, created = broker.groups.find(body.consumer_group)
    if config is None:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
    if created:
        count_created(broker, request.session, partial(broker.groups.remove, body.consumer_group))
        broker.groups_changed()
    return Reply()


def request_modes(
    _broker: BrokerContext, _request: Request[None, None]
) -> Reply[None, MessageRequestModeSerializeWrapper]:
    """Return an empty table of modes, because no group has another one than PULL (code 402)."""
    return Reply(body=MessageRequestModeSerializeWrapper())
