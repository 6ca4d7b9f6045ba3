"""The addresses that a server tells its clients, and who can reach them."""

from __future__ import annotations

from broker.net.network import WILDCARDS
from codec.addresses import join_address, split_address
from rmqcli.doctor.addresses import kind_of
from rmqcli.render.output import warn


def local_address(bound: str) -> str:
    """Return an address that reaches a server of this machine that is bound to `bound`."""
    if bound not in WILDCARDS:
        return bound
    return "::1" if ":" in bound else "127.0.0.1"


def told_address(bound: str, port: int, broker: str) -> str:
    """Return "host:port" of a name server as clients see it: on the host of its broker if it listens on all."""
    host = split_address(broker)[0] if bound in WILDCARDS else bound
    return join_address(host, port)


def warn_of_address(advertised: str, *, bound: str | None = None, namesrv: str | None = None) -> None:
    """Warn if a broker that others shall reach advertises an address of this machine only.

    Others shall reach it if it was told to listen on all addresses (`bound`), or if its name server is on
    another machine.
    """
    others = [address for address in (namesrv or "").split(";") if address.strip()]
    remote = any(kind_of(address.strip()) != "loopback" for address in others)
    if kind_of(advertised) == "loopback" and (remote or bound in WILDCARDS):
        warn(
            f"clients are told {advertised}, which only clients on this machine reach: "
            "set brokerIP1 to an address that others reach"
        )
