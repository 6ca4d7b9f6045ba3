"""Locks of queues for consuming in order: codes 41, 42 (Java class `AdminBrokerProcessor`)."""

from __future__ import annotations

from broker.context import BrokerContext
from broker.handlers.common import ok
from broker.net.session import Session
from codec.bodies.base import decode_body, encode_body
from codec.bodies.offsets import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from codec.remoting.frame import RemotingCommand

__all__ = ["lock", "unlock"]


def lock(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """41: answers with the queues that the client now holds."""
    body = decode_body(LockBatchRequestBody, request.body)
    held = broker.locks.lock(body.consumer_group or "", body.client_id or "", body.mq_set, broker.now_ms())
    return ok(request, body=encode_body(LockBatchResponseBody(lock_ok_mq_set=held)))


def unlock(broker: BrokerContext, _session: Session, request: RemotingCommand) -> RemotingCommand:
    """42: gives back the client's own locks."""
    body = decode_body(UnlockBatchRequestBody, request.body)
    broker.locks.unlock(body.consumer_group or "", body.client_id or "", body.mq_set)
    return ok(request)
