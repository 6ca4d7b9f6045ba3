"""Errors of the client library as errors of calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rmqcli.broker.proxy.answers import StatusError, code_of
from rmqcli.client import BrokerRefused, ClientError, InvalidRequest, NotPermitted, RequestTimeout
from rmqcli.codec.proxy.codes import Code


def status_error(error: ClientError) -> StatusError:
    """Return the error of a call that failed because of this one."""
    if isinstance(error, NotPermitted) and error.by_account:
        return StatusError(Code.FORBIDDEN, f"the account of the proxy may not do this: {error}")
    if isinstance(error, BrokerRefused):
        return StatusError(code_of(error.code), error.fact)
    if isinstance(error, RequestTimeout):
        return StatusError(Code.PROXY_TIMEOUT, str(error))
    code = Code.BAD_REQUEST if isinstance(error, InvalidRequest) else Code.INTERNAL_SERVER_ERROR
    return StatusError(code, str(error))


@contextmanager
def told() -> Iterator[None]:
    """Raise StatusError for each ClientError of the block."""
    try:
        yield
    except ClientError as error:
        raise status_error(error) from error
