"""A bound on the topics and groups that a connection creates by using them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.errors import Refusal
from broker.services.clients import watch_session
from codec.codes import ResponseCode

if TYPE_CHECKING:
    from broker.context import BrokerContext
    from broker.net.session import Session

MOST_CREATED = 8192


def count_created(broker: BrokerContext, session: Session, undo: Callable[[], object]) -> None:
    """Count a topic or group that a request has created. Refusal, after `undo`, when there are too many."""
    count = broker.created.get(session, 0) + 1
    if count > MOST_CREATED:
        undo()
        remark = f"a connection can create {MOST_CREATED} topics and groups by using them"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    watch_session(broker, session)
    broker.created[session] = count
