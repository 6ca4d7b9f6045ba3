"""The address and port that a server listens on, and those that it advertises to clients.

All servers have the same options and defaults. Requests are not authenticated, so a server listens on
127.0.0.1 unless it is configured to serve other machines: by --host, by bindAddress, by --advertise, or by a
brokerIP1 that other machines can reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import OptionGroup
from rmqcli.codec.ids import join_address, split_address
from rmqcli.doctor.reaching import kind_of
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from rmqcli.commands.common.configuration import Config, Configuration

LOCAL = "127.0.0.1"
EVERYWHERE = "0.0.0.0"

HostOption = Annotated[
    str | None,
    Option(
        "--host",
        metavar="IP",
        help="Address to listen on (bindAddress), 0.0.0.0 for all. Default: 127.0.0.1.",
        show_default=False,
    ),
]
BrokerHostOption = Annotated[
    str | None,
    Option(
        "--host",
        metavar="IP",
        help="Address to listen on (bindAddress), 0.0.0.0 for all. Default: 127.0.0.1, or all addresses with --advertise "
        "or a brokerIP1 that other machines reach.",
        show_default=False,
    ),
]
PortOption = Annotated[
    int | None,
    Option(
        "--port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Port to listen on (listenPort); 0 for any free port.",
        show_default=False,
    ),
]
AdvertiseOption = Annotated[
    str | None,
    Option(
        "--advertise",
        metavar="HOST[:PORT]",
        help="Address that clients are told (brokerIP1), and its port if that is not the one of --port "
        "(advertisedPort).",
    ),
]


@dataclass(frozen=True, slots=True)
class Listening(OptionGroup):
    """The address and port of a server."""

    host: HostOption = None
    port: PortOption = None

    def advertised(self) -> dict[str, str]:
        """Return the properties that --advertise sets; only brokers have it."""
        return {}

    def configure(
        self,
        configuration: Configuration,
        kind: type[Config],
        defaults: Mapping[str, str] = {},
        fixed: Mapping[str, str] = {},
    ) -> Config:
        """Return the configuration of a server with the address and port of these options.

        Raise a usage error as `Configuration.of` does.
        """
        options = {"bindAddress": self.host, "listenPort": None if self.port is None else str(self.port)}
        given = {name: value for name, value in options.items() if value is not None}
        advertised = self.advertised()
        told = configuration.given().get("brokerIP1", "").strip()
        # A port forward leads to an address other than loopback, also if clients are told a loopback address.
        is_open = bool(advertised) or (told and kind_of(join_address(told, 1)) != "loopback")
        bound = EVERYWHERE if is_open else LOCAL
        return configuration.of(kind, {"bindAddress": bound, **defaults}, {**fixed, **given, **advertised})


@dataclass(frozen=True, slots=True)
class BrokerListening(Listening):
    """The address and port of a broker, and those that clients are told."""

    host: BrokerHostOption = None
    advertise: AdvertiseOption = None

    def advertised(self) -> dict[str, str]:
        """Return the properties that --advertise sets; raise a usage error for what is no address."""
        if self.advertise is None:
            return {}
        text = self.advertise.strip()
        try:
            host, port = _host_and_port(text)
        except ValueError:
            raise usage_error(f"--advertise {text!r}: expected HOST or HOST:PORT") from None
        if kind_of(join_address(host, 1)) == "unspecified":
            raise usage_error(f"--advertise {text}: expected an address that clients can connect to")
        return {"brokerIP1": host, "advertisedPort": str(port)}


def _host_and_port(text: str) -> tuple[str, int]:
    """Return the host without brackets, and the port, 0 for none. Raises ValueError."""
    bare = text.removeprefix("[").removesuffix("]")
    if ":" in text and not _is_ipv6(bare):
        return split_address(text)
    return split_address(join_address(bare, 1))[0], 0


def _is_ipv6(text: str) -> bool:
    try:
        return bool(IPv6Address(text))
    except ValueError:
        return False


def warn_of_open_server(host: str, *ports: int) -> None:
    """Warn that a server without access control serves other machines, all of whose users are trusted."""
    if is_open(host):
        numbers = " and ".join(map(str, ports))
        warn(
            f"listening on {host} without access control: who reaches port {numbers} can read, write and "
            f"administer everything; --host {LOCAL} serves this machine only, aclEnable=true requires accounts, "
            "authenticationEnabled=true users"
        )


def warn_of_open_names(host: str, port: int) -> None:
    """Warn that a name server, which never has access control, serves other machines."""
    if is_open(host):
        warn(
            f"the name server has no access control: who reaches port {port} on {host} can register brokers and "
            "change routes"
        )


def is_open(host: str) -> bool:
    """Return True for an address that other machines may reach."""
    return kind_of(join_address(host, 1)) != "loopback"


def local_address(bound: str) -> str:
    """Return an address through which this machine reaches its server that is bound to `bound`."""
    from rmqcli.broker.net.network import WILDCARDS

    if bound not in WILDCARDS:
        return bound
    return "::1" if ":" in bound else "127.0.0.1"


def told_address(bound: str, port: int, broker: str) -> str:
    """Return "host:port" of a name server as clients see it: with the host of its broker if it listens on all
    addresses.
    """
    from rmqcli.broker.net.network import WILDCARDS

    host = split_address(broker)[0] if bound in WILDCARDS else bound
    return join_address(host, port)


def warn_of_address(advertised: str, *, bound: str | None = None, namesrv: str | None = None) -> None:
    """Warn if a broker meant for other machines advertises an address that only this machine can reach.

    It is meant for other machines if it listens on all addresses (`bound`), or if its name server is on
    another machine.
    """
    from rmqcli.broker.net.network import WILDCARDS

    others = [address for address in (namesrv or "").split(";") if address.strip()]
    remote = any(kind_of(address.strip()) != "loopback" for address in others)
    if kind_of(advertised) == "loopback" and (remote or bound in WILDCARDS):
        warn(
            f"clients are told {advertised}, which only clients on this machine reach: "
            "set brokerIP1 to an address that others reach"
        )
