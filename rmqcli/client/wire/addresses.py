"""Addresses as RocketMQ writes them: "host:port", "[v6]:port", and lists joined by `;`.

Lists may also be joined by commas and spaces.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping, Sequence

from rmqcli.client.errors import InvalidRequest, valid
from rmqcli.codec import ids
from rmqcli.codec.ids import DEFAULT_NAMESRV_PORT, join_address, split_addresses

_INSTANCE = re.compile(r"\s*(?:\w+://)?(MQ_INST_\w+_\w+)\.", re.ASCII)


def split_address(address: str, default_port: int | None = None) -> tuple[str, int]:
    """Return ("host", port) of "host:port". Raises InvalidRequest for any other text."""
    return valid(ids.split_address, address, default_port)


def name_servers(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return the name servers in order, each "host:port" (9876 if no port is given), without duplicates."""
    texts = [given] if isinstance(given, str) else list(given)
    parts = [part.removeprefix("http://") for text in texts for part in split_addresses(text)]
    found = [join_address(*split_address(part, DEFAULT_NAMESRV_PORT)) for part in parts]
    if not found:
        raise InvalidRequest("the list of name servers is empty")
    return tuple(dict.fromkeys(found))


def instance_of(name_servers: Sequence[str]) -> str:
    """Return the instance in the first address, `http://MQ_INST_….host:port`, or "".

    The scheme may be missing (Java `NameServerAddressUtils.parseInstanceIdFromEndpoint`).
    """
    found = _INSTANCE.match(name_servers[0]) if name_servers else None
    return found[1] if found else ""


def local_ip() -> str:
    """Return the address of this machine as seen by others, or 127.0.0.1. A UDP connect sends no packet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        address: tuple[str, int] = probe.getsockname()
        return address[0]


# Other addresses for brokers and name servers: port forwards, containers.
#
# A rule maps "host:port" to "host:port", or every port of a host to the same port of another host ("host" to
# "host"). The rule for an address takes precedence over that for its host. Routes, messages and errors keep
# the addresses that the name server gives; only connections go elsewhere. With TLS, certificates are checked
# for the target.


class AddressMap:
    """Rules that replace addresses, keyed by address or by host.

    Raises InvalidRequest for a rule that has neither of the two forms.
    """

    def __init__(self, rules: Mapping[str, str] | None = None) -> None:
        self._addresses: dict[str, str] = {}
        self._hosts: dict[str, str] = {}
        for source, target in (rules or {}).items():
            self._add(source.strip(), target.strip())

    def _add(self, source: str, target: str) -> None:
        if _has_port(source) and _has_port(target):
            self._addresses[join_address(*split_address(source))] = join_address(*split_address(target))
        elif not (_has_port(source) or _has_port(target)):
            self._hosts[_host(source)] = _host(target)
        else:
            raise InvalidRequest(
                f"{source}={target}: expected HOST:PORT=HOST:PORT, or HOST=HOST for every port of a host"
            )

    def target(self, address: str) -> str:
        """Return the address to connect to in place of `address`, or `address` itself without a rule."""
        found = self._addresses.get(address)
        if found is not None or not self._hosts:
            return found or address
        try:
            host, port = split_address(address)
        except InvalidRequest:
            return address
        return join_address(self._hosts[host], port) if host in self._hosts else address


def _has_port(text: str) -> bool:
    return "]:" in text or (text.count(":") == 1 and not text.startswith("["))


def _host(text: str) -> str:
    """Return a host without brackets. Raises InvalidRequest if it is not a host."""
    return split_address(text, 1)[0]
