"""Errors of broker and name server, which the server turns into replies or log lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any


class BrokerError(Exception):
    """Base of the errors of broker and name server."""


class ConfigError(BrokerError):
    """A configuration file cannot be read, or a value is invalid. The text names the property."""


class VipPortTaken(BrokerError):
    """The port of the VIP channel cannot be bound. The text suggests a remedy."""


class HaPortTaken(BrokerError):
    """The port of replication cannot be bound. The text suggests a remedy."""


class RemoteTimeout(BrokerError):
    """The peer did not reply in time. A late reply is dropped."""


class RemoteClosed(BrokerError):
    """The connection ended before the reply, or was closed before the request."""


class PeerUnreachable(BrokerError):
    """A connection to another node could not be opened."""


class ServiceFailed(BrokerError):
    """A programming error, which is the cause of this exception, ended a background service and so the
    process."""


class Refusal(BrokerError):
    """A handler refuses a request with a response code and remark."""

    def __init__(self, code: int, remark: str, ext_fields: Mapping[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.ext_fields = dict(ext_fields) if ext_fields is not None else None


class StoreError(Exception):
    """Base of the errors that the store raises. Each text names the file and the remedy."""


class StoreLocked(StoreError):
    """Another broker (Java's or this one) holds the `lock` file of the folder."""

    @classmethod
    def of(cls, path: Path, holder: str) -> StoreLocked:
        """Return the error for a lock file or folder that `holder` holds."""
        return cls(
            f"{path} is held by {holder}: a broker already runs on this folder; stop it or choose another one"
        )


class StoreSizeMismatch(StoreError):
    """A file does not have the configured length; Java also refuses to load such a folder."""


class StoreDamaged(StoreError):
    """Files are missing or unreadable in a way that recovery must not hide."""


class StoreUnsupported(StoreError):
    """The folder has data that only a broker of 5.x serves."""


class ReplicaRefused(StoreError):
    """Bytes of another broker's commit log cannot be stored; none of them was."""


class NotReady(Exception):
    """A request needs pages or files that only the disk can provide, or more turns of the event loop.

    Raised before anything was stored: after `await error.ready()`, the request is handled again, by `then` if
    it is set. If `in_order`, later requests of the same connection wait for this one.
    """

    def __init__(
        self,
        ready: Callable[[], Awaitable[None]],
        *,
        in_order: bool = False,
        then: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__("the disk is needed first")
        self.ready = ready
        self.in_order = in_order
        self.then = then


class IllegalBatch(Exception):
    """A batch is refused as a whole; the text says why."""
