"""Errors of broker and name server.

The server turns them into replies or log lines; none of them ends a connection.
"""

from __future__ import annotations

from collections.abc import Mapping


class BrokerError(Exception):
    """Base of the errors of broker and name server."""


class ConfigError(BrokerError):
    """A configuration file cannot be read, or a value is invalid. The text names the property."""


class RemoteTimeout(BrokerError):
    """The peer did not reply in time. A late reply is dropped."""


class RemoteClosed(BrokerError):
    """The connection ended before the reply, or was closed before the request."""


class PeerUnreachable(BrokerError):
    """A connection to another node could not be opened."""


class ServiceFailed(BrokerError):
    """A programming error, the cause, ended a background service, and with it the process."""


class Refusal(BrokerError):
    """A handler refuses a request with a response code and remark."""

    def __init__(self, code: int, remark: str, ext_fields: Mapping[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.ext_fields = dict(ext_fields) if ext_fields is not None else None
