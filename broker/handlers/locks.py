"""Locks of queues for ordered consumption: codes 41, 42 (Java class `AdminBrokerProcessor`)."""

from __future__ import annotations

from broker.context import BrokerContext
from broker.net.handling import Reply, Request
from codec.bodies.offsets import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody


def lock(
    broker: BrokerContext, request: Request[None, LockBatchRequestBody]
) -> Reply[None, LockBatchResponseBody]:
    """41: locks queues for a client; the reply names those that the client now holds."""
    body = request.body
    held = broker.locks.lock(body.consumer_group or "", body.client_id or "", body.mq_set, broker.now_ms())
    return Reply(body=LockBatchResponseBody(lock_ok_mq_set=held))


def unlock(broker: BrokerContext, request: Request[None, UnlockBatchRequestBody]) -> Reply[None, None]:
    """42: releases the client's own locks."""
    body = request.body
    broker.locks.unlock(body.consumer_group or "", body.client_id or "", body.mq_set)
    return Reply()
