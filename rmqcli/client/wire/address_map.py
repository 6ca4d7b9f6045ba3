"""Other addresses for brokers and name servers: port forwards, containers.

A rule maps "host:port" to "host:port", or every port of a host to the same port of another host ("host" to
"host"). The rule of an address wins over that of its host. Routes, messages and errors keep the addresses
that the name server gives; only connections go elsewhere. With TLS, certificates are checked for the target.
"""

from __future__ import annotations

from collections.abc import Mapping

from codec.addresses import join_address
from rmqcli.client.errors import InvalidRequest
from rmqcli.client.wire.addresses import split_address


class AddressMap:
    """Rules by what they replace; InvalidRequest for a rule that is neither of the two forms."""

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
        """Return where to connect for `address`, which is returned itself without a rule."""
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
    """Return a host without brackets; InvalidRequest if it is none."""
    return split_address(text, 1)[0]
