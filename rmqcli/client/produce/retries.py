"""The refusals after which a send may succeed on another broker."""

from __future__ import annotations

from collections.abc import Sequence

from rmqcli.client.errors import BrokerRefused, ClientError, NotPermitted
from rmqcli.client.routing.routes import Route
from rmqcli.codec.codes import ResponseCode

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
    """Return True if the send should be repeated after the error of the last of the brokers `tried`."""
    if isinstance(error, NotPermitted):
        # All brokers refuse the same account, and a broker that is drained will refuse again.
        return error.code in RETRY_CODES - {ResponseCode.SYSTEM_ERROR} and any(
            queue.broker_name not in tried for queue in route.publish
        )
    return not isinstance(error, BrokerRefused) or error.code in RETRY_CODES
