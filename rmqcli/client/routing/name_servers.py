"""The list of name servers: one is used as long as it answers, then the next one.

Name servers do not replicate, so an error code is an answer, not a reason to try the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from codec.remoting.frame import RemotingCommand
from rmqcli.client.errors import UNREACHED, ClientError, NoNameServer, RequestTimeout
from rmqcli.client.wire.pool import Pool


class NameServers:
    """Requests to the first name server that answers."""

    def __init__(self, addresses: Sequence[str], pool: Pool) -> None:
        self.addresses = tuple(addresses)
        self._pool = pool
        self._current = 0

    @property
    def current(self) -> str:
        """The address that is tried first."""
        return self.addresses[self._current]

    async def request(self, command: RemotingCommand, timeout: float) -> RemotingCommand:
        """The reply of the first that answers within `timeout` seconds in total; else NoNameServer."""
        deadline = trio.current_time() + timeout
        causes: list[ClientError] = []
        count = len(self.addresses)
        first = self._current
        for tried in range(count):
            index = (first + tried) % count
            share = max(0.0, deadline - trio.current_time()) / (count - tried)
            try:
                return await self._pool.request(self.addresses[index], command, share)
            except UNREACHED as error:
                causes.append(error)
                if self._current == index:
                    self._current = (index + 1) % count
        if isinstance(causes[0], RequestTimeout) and count == 1:
            raise causes[0]
        raise NoNameServer(self.addresses, tuple(causes))
