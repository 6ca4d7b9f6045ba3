"""The reasons why a server cannot be reached, and remedies."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address

from rmqcli.client import ClientError, ConnectionFailed, ConnectionLost, NotSupported, RequestTimeout
from rmqcli.codec.ids import split_address

_ANNOUNCE = "set brokerIP1 of the broker to an address that clients reach"


def kind_of(address: str) -> str:
    """Return `unspecified`, `loopback`, `private` or `public`; names of hosts count as public."""
    try:
        host = split_address(address)[0]
        found = ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return "public"
    kinds = {"unspecified": found.is_unspecified, "loopback": found.is_loopback, "private": found.is_private}
    return next((kind for kind, holds in kinds.items() if holds), "public")


def advice(address: str) -> str:
    """Return the remedy for an address that did not respond."""
    mapped = f"--map {address}=HOST:PORT"
    texts = {
        "unspecified": f"0.0.0.0 is no address to connect to: {_ANNOUNCE}, or use {mapped}",
        "loopback": f"only clients on the broker's machine reach this: {_ANNOUNCE}, or use {mapped}",
        "private": (
            f"a private address: if the broker runs, in a container or behind a port forward, use {mapped}, "
            f"or {_ANNOUNCE}"
        ),
        "public": f"is the broker running, and does a firewall let its port pass? else use {mapped}",
    }
    return texts[kind_of(address)]


def is_local(address: str) -> bool:
    """Return True if an address belongs only to this machine."""
    return kind_of(address) == "loopback"


HANGS = "it takes connections but does not answer: look at its log, disk and load, and whether it is stopped"
NO_NAME_SERVER = "this is a broker, not a name server: name that with -n; its port is 9876 by default"
OTHER_PROTOCOL = "a server of something else, such as HTTP, SSH or Redis: name the address of RocketMQ"
_FOREIGN = "does not speak the remoting protocol"
_FOR_NAME_SERVERS = (
    "GET_ALL_TOPIC_LIST_FROM_NAMESERVER",
    "GET_BROKER_CLUSTER_INFO",
    "GET_ROUTEINFO_BY_TOPIC",
)
_OF_TLS = {
    "CERTIFICATE": "name the CA that signed it with --tls-ca FILE, or accept any server with --tls-insecure",
    "HOST": "use an address that the certificate names, or accept any server with --tls-insecure",
    "NOT_TLS": "if it accepts only plain connections, connect with --no-tls",
    "CLIENT_CERTIFICATE": "name a certificate that it accepts with --tls-cert FILE and --tls-key FILE",
    "TLS_WANTED": "if it accepts only TLS, connect with --tls",
}


def remedy_of(error: BaseException, name_servers: Collection[str]) -> str:
    """Return the remedy for an error of a server at one of these addresses, or of a broker; "" if unknown.

    An unreachable name server has no remedy here: the caller knows the source of its address.
    """
    text, problem = str(error), getattr(error, "problem", None)
    if not isinstance(error, ClientError):
        return ""
    if _FOREIGN in text:
        return OTHER_PROTOCOL
    if problem is not None:
        return _OF_TLS[problem.name]
    if isinstance(error, NotSupported) and any(name in text for name in _FOR_NAME_SERVERS):
        return NO_NAME_SERVER
    # Subclasses are timeouts of other parties than a server, such as the replier to a request.
    hangs = type(error) is RequestTimeout or isinstance(error, ConnectionLost)
    return HANGS if hangs else _of_address(error, name_servers)


def _of_address(error: ClientError, name_servers: Collection[str]) -> str:
    """Return the remedy for a broker's address that accepts no connections."""
    address = getattr(error, "address", "")
    at_home = is_local(address) and all(map(is_local, name_servers))
    if type(error) is ConnectionFailed and address not in name_servers and not at_home:
        return advice(address)
    return ""
