"""What the server side raises. None of these ever ends a connection by itself: the server turns them into replies or logs."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = [
    "BrokerError",
    "ConfigError",
    "PeerUnreachable",
    "Refusal",
    "RemoteClosed",
    "RemoteTimeout",
    "ServiceFailed",
]


class BrokerError(Exception):
    """Base of the errors of name server and broker."""


class ConfigError(BrokerError):
    """A configuration file cannot be read, or holds a value of the wrong kind; the text names the property."""


class RemoteTimeout(BrokerError):
    """The peer did not answer our request in time; a late answer is dropped."""


class RemoteClosed(BrokerError):
    """The connection ended before the peer answered, or was closed already when we asked."""


class PeerUnreachable(BrokerError):
    """No connection to another node could be made."""


class ServiceFailed(BrokerError):
    """A background service met a programming error, which is the cause; the process ends."""


class Refusal(BrokerError):
    """Raised by a handler: the request is answered with this response code and remark."""

    def __init__(self, code: int, remark: str, ext_fields: Mapping[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.ext_fields = dict(ext_fields) if ext_fields is not None else None
