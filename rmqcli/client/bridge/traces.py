"""Traces of the clients for threads and for asyncio."""

from __future__ import annotations

from typing import Any

from rmqcli.client.errors import ClientError


class Traceable:
    """Mixin of clients that may write traces, through the trio client `_trio`."""

    _trio: Any

    @property
    def traces_dropped(self) -> int:
        """The number of trace records that were not written: too many at once, or no broker accepted them."""
        dropped: int = self._trio.traces_dropped
        return dropped

    @property
    def trace_trouble(self) -> ClientError | None:
        """The error of the last trace record that could not be sent, if any."""
        trouble: ClientError | None = self._trio.trace_trouble
        return trouble
