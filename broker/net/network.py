"""Listeners and connections of a node, over TCP or in memory, and the address of the node."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from typing import Protocol

import trio

from rmqcli.broker.errors import ConfigError, HaPortTaken, VipPortTaken
from rmqcli.codec.errors import LocalProtocolError
from rmqcli.codec.ids import pack_host

HA_DISTANCE = 1
WILDCARDS = frozenset(("", "0.0.0.0", "::"))
VIP_DISTANCE = 2
DOCUMENTATION_ADDRESS = ("192.0.2.1", 9)
"""An address of TEST-NET-1. Connecting a UDP socket to it selects a route but sends nothing."""

_log = logging.getLogger(__name__)


class Adopter(Protocol):
    """A server of any protocol, from the point of view of a listener."""

    async def adopt(self, stream: trio.abc.Stream, peer: tuple[str, int]) -> object:
        """Serve a connection in the background. Raises RemoteClosed if the server is not running."""


class Listener(Protocol):
    """A bound address. A server accepts connections from `sockets`; a listener without sockets passes
    connections to it."""

    @property
    def address(self) -> tuple[str, int]: ...

    @property
    def sockets(self) -> Sequence[socket.socket]: ...

    def serve_with(self, server: Adopter) -> None:
        """Pass connections to `server` from now on."""

    def close(self) -> None: ...


class Network(Protocol):
    """A space of addresses."""

    def listen(self, host: str, port: int, backlog: int = ...) -> Listener:
        """Bind an address; port 0 means any free port. Raises OSError."""

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        """Connect to an address. Raises OSError."""


class TcpListener:
    """A listening TCP socket."""

    def __init__(self, host: str, port: int, backlog: int = 1024) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.create_server((host, port), family=family, backlog=backlog)
        sock.setblocking(False)
        self.sockets = (sock,)
        bound_host, bound_port = sock.getsockname()[:2]
        self.address: tuple[str, int] = (bound_host, bound_port)

    def serve_with(self, server: Adopter) -> None:
        """Do nothing: the server accepts from the socket."""

    def close(self) -> None:
        self.sockets[0].close()


class TcpNetwork:
    """The network of this machine."""

    def listen(self, host: str, port: int, backlog: int = 1024) -> TcpListener:
        return TcpListener(host, port, backlog)

    async def open_stream(self, host: str, port: int) -> trio.SocketStream:
        return await trio.open_tcp_stream(host, port)


TCP = TcpNetwork()


def open_listeners(
    network: Network, host: str, port: int, backlog: int, *, vip: bool, needs_vip: bool
) -> list[Listener]:
    """Bind the port of a server and, with `vip`, that of Java's VIP channel, VIP_DISTANCE below.

    A server on any free port (0) has no VIP channel, because no client could know its port. Raises OSError,
    and VipPortTaken if the second port cannot be bound and `needs_vip`.
    """
    listeners = [network.listen(host, port, backlog)]
    if not vip or port <= VIP_DISTANCE:
        return listeners
    try:
        listeners.append(network.listen(host, port - VIP_DISTANCE, backlog))
    except OSError as error:
        channel = f"port {port - VIP_DISTANCE} of the VIP channel (listenPort - {VIP_DISTANCE})"
        text = f"{channel}: {os.strerror(error.errno or 0)}"
        if needs_vip:
            listeners[0].close()
            remedy = "choose another listenPort, or set vipChannelEnabled=false"
            raise VipPortTaken(f"{text}; {remedy}") from error
        _log.warning("%s; clients with a VIP channel cannot send", text)
    return listeners


def open_ha_listener(
    network: Network, host: str, port: int, backlog: int, *, is_needed: bool
) -> Listener | None:
    """Bind the port for slaves: HA_DISTANCE above that of the server, or any free one if `port` is 0.

    If it cannot be bound, raise HaPortTaken if `is_needed`, otherwise return None.
    """
    wanted = port + HA_DISTANCE if port else 0
    try:
        return network.listen(host, wanted, backlog)
    except (OSError, OverflowError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else "there is no such port"
        text = f"port {wanted} of replication (listenPort + {HA_DISTANCE}): {reason}"
        if is_needed:
            raise HaPortTaken(f"{text}; choose another listenPort") from error
        _log.warning("%s; slaves cannot connect", text)
        return None


def trio_listeners(listener: Listener) -> list[trio.SocketListener]:
    """Return the sockets of a listener as trio listeners; empty if it passes connections on."""
    return [trio.SocketListener(trio.socket.from_stdlib_socket(sock)) for sock in listener.sockets]


def own_address(bound: str) -> str:
    """Return the address that clients use: the bound one or, for a wildcard, that of the default route, or
    else the loopback address.
    """
    if bound not in WILDCARDS:
        return bound
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(DOCUMENTATION_ADDRESS)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


async def packed_address(host: str, port: int) -> bytes:
    """Return the address for records and message ids; a host name is resolved. Raises ConfigError if it has
    no address."""
    try:
        return pack_host(host, port)
    except LocalProtocolError:
        pass
    try:
        found = await trio.socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"brokerIP1: no address for {host!r}: {error}") from None
    return pack_host(str(found[0][4][0]), port)
