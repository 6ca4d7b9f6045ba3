"""One connection per address, opened when first needed and again after it was lost.

The first request for an address connects; others wait for that attempt. All connections end with the nursery.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import trio

from rmqcli.client.errors import (
    ConnectionFailed,
    InvalidRequest,
    RequestTimeout,
    request_name,
    seconds_text,
)
from rmqcli.client.wire.addresses import AddressMap
from rmqcli.client.wire.detached import in_task
from rmqcli.client.wire.link import Link, OnRequest, Request
from rmqcli.client.wire.streams import CONNECT_TIMEOUT, OpenStream, Stream, close_forcefully, opened
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.signature import Signer

VIP_CODES = frozenset(
    {
        *(R.SEND_MESSAGE, R.SEND_MESSAGE_V2, R.SEND_BATCH_MESSAGE),
        *(R.SEND_REPLY_MESSAGE, R.SEND_REPLY_MESSAGE_V2),
        *(R.CONSUMER_SEND_MSG_BACK, R.CHECK_CLIENT_CONFIG),
        *(R.GET_CONSUMER_LIST_BY_GROUP, R.LOCK_BATCH_MQ),
        *(R.QUERY_CONSUMER_OFFSET, R.UPDATE_CONSUMER_OFFSET),
        *(R.GET_MAX_OFFSET, R.GET_MIN_OFFSET, R.SEARCH_OFFSET_BY_TIMESTAMP),
        *(R.QUERY_MESSAGE, R.VIEW_MESSAGE_BY_ID, R.GET_EARLIEST_MSG_STORETIME),
        *(R.UPDATE_AND_CREATE_TOPIC, R.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP),
    }
)
"""Requests for the VIP channel, on which Java brokers listen two ports below their own.

Pulls, heartbeats and ends of transactions are never among them (Java `MixAll.brokerVIPChannel`).
"""


def vip_address(address: str) -> str:
    """Return the address two ports below.

    An address without a port is returned unchanged and fails to connect.
    """
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}" if port.isdecimal() else address


class Pool:
    """All connections of one client instance, in the nursery that `nursery` returns.

    `on_open` is called for new ones. `vip`: requests of VIP_CODES use the VIP channel, over separate
    connections. `address_map` replaces addresses to connect to. `signer` signs every request, including those
    to name servers; a SendRequest is signed by its template. Timeouts are in seconds and include the time to
    connect.
    """

    def __init__(
        self,
        nursery: Callable[[], trio.Nursery],
        open_stream: OpenStream,
        on_request: OnRequest | None = None,
        on_open: Callable[[str], None] = lambda address: None,
        *,
        vip: bool = False,
        address_map: AddressMap | None = None,
        signer: Signer | None = None,
    ) -> None:
        self.signer = signer
        self._nursery = nursery
        self._open_stream = open_stream
        self._on_request = on_request
        self._on_open = on_open
        self._vip = vip
        self._map = address_map or AddressMap()
        self._links: dict[str, Link] = {}
        self._opening: dict[str, trio.Lock] = {}
        self.reconnects = 0

    @property
    def addresses(self) -> list[str]:
        return [address for address, link in self._links.items() if link.is_open]

    def link(self, address: str) -> Link | None:
        link = self._links.get(address)
        return link if link is not None and link.is_open else None

    @property
    def waiting(self) -> dict[str, int]:
        """Addresses with requests in flight, and how many times bytes arrived; -1 while connecting."""
        connecting = {address: -1 for address, lock in self._opening.items() if lock.locked()}
        return connecting | {
            address: link.heard for address, link in self._links.items() if link.is_open and link.in_flight
        }

    @property
    def in_flight(self) -> int:
        return sum(link.in_flight for link in self._links.values())

    def request(
        self,
        address: str,
        command: Request,
        timeout: float,
        deadline: float | None = None,
        connect_timeout: float | None = None,
    ) -> Coroutine[Any, Any, RemotingCommand]:
        """Return the reply of `address`, whatever its code. `deadline`: the end of the timeout, if known."""
        if self.signer is not None and isinstance(command, RemotingCommand):
            self.signer.sign(command)
        if self._vip and command.code in VIP_CODES:
            address = vip_address(address)
        link = self._links.get(address)
        if link is not None and link.is_open:
            # Returned, not awaited, which saves a coroutine for every request on an open link.
            return link.request(command, timeout, deadline)
        return self._connect_and_request(address, command, timeout, connect_timeout)

    async def _connect_and_request(
        self, address: str, command: Request, timeout: float, connect_timeout: float | None
    ) -> RemotingCommand:
        await in_task()
        started = trio.current_time()
        link = await self._connect(address, timeout, connect_timeout)
        self._left(address, command, timeout, started)
        # The deadline limits the request; the timeout is for the text of an error.
        return await link.request(command, timeout, started + timeout)

    async def oneway(self, address: str, command: RemotingCommand, timeout: float) -> None:
        """Return when the request has been written."""
        if self.signer is not None:
            self.signer.sign(command)
        if self._vip and command.code in VIP_CODES:
            address = vip_address(address)
        link = self._links.get(address)
        if link is None or not link.is_open:
            started = trio.current_time()
            link = await self._connect(address, timeout, None)
            timeout = self._left(address, command, timeout, started)
        await link.send_oneway(command, timeout)

    @staticmethod
    def _left(address: str, command: Request, timeout: float, started: float) -> float:
        left = timeout - (trio.current_time() - started)
        if left <= 0:
            raise RequestTimeout(address, request_name(command.code), timeout)
        return left

    async def _connect(self, address: str, timeout: float, connect_timeout: float | None) -> Link:
        limit = max(0.0, min(timeout, connect_timeout or CONNECT_TIMEOUT))
        lock = self._opening.setdefault(address, trio.Lock())
        deadline = trio.current_time() + limit
        with trio.move_on_at(deadline):
            # The task that held the lock before may have connected.
            async with lock:
                link = self._links.get(address)
                if link is not None and link.is_open:
                    return link
                self._nursery()  # raises InvalidRequest outside the `async with` block of the instance
                stream = await self._opened(address, deadline - trio.current_time())
                link = Link(address, stream, self._on_request)
                try:
                    self._nursery().start_soon(link.run, name=f"link to {address}")
                except InvalidRequest:  # the block was left meanwhile
                    await close_forcefully(stream)
                    raise
                # Others can find only a running link: one that does not run would never answer them.
                self.reconnects += address in self._links
                self._links[address] = link
                self._on_open(address)
                return link
        raise ConnectionFailed(address, f"no answer within {seconds_text(limit)}")

    async def _opened(self, address: str, timeout: float) -> Stream:
        target = self._map.target(address)
        try:
            return await opened(self._open_stream, target, timeout)
        except ConnectionFailed as error:
            if target == address:
                raise
            raise ConnectionFailed(f"{address} (mapped to {target})", error.reason) from error
