"""Knows which refusals of a send another broker may not share."""

from __future__ import annotations

from collections.abc import Sequence

from codec.codes import ResponseCode
from rmqcli.client.errors import BrokerRefused, ClientError, NotPermitted
from rmqcli.client.routing.routes import Route

RETRY_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    }
)
"""Response codes after which another broker is tried (`retryResponseCodes`)."""


def worth_another(error: ClientError, route: Route, tried: Sequence[str]) -> bool:
    """Return True if it is worth while to send again after the error of the last of the brokers `tried`."""
    if isinstance(error, NotPermitted):
        # Every broker refuses the same account, and a drained one has no second thoughts
        return error.code in RETRY_CODES - {ResponseCode.SYSTEM_ERROR} and any(
            queue.broker_name not in tried for queue in route.publish
        )
    return not isinstance(error, BrokerRefused) or error.code in RETRY_CODES
