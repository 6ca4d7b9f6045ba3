"""`--metrics PORT` of `rmq up` and `rmq broker`: a server of the broker's own metrics."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Option

from rmqcli.cli.account import account
from rmqcli.cli.settings import Settings
from rmqcli.codec.ids import join_address

if TYPE_CHECKING:
    from rmqcli.broker.config import BrokerConfig
    from rmqcli.broker.net.tls.acceptor import TlsAcceptor
    from rmqcli.client.wire.streams import Stream

MetricsOption = Annotated[
    int | None,
    Option(
        "--metrics",
        metavar="PORT",
        min=0,
        max=65535,
        help="Also serve metrics to Prometheus on this port; 0 for any free port.",
    ),
]
REQUIRED = ("metrics", "prometheus_client")
"""The extra that metrics require, and its module."""
TIMEOUT = 3.0  # seconds for each server that is asked


class Own(NamedTuple):
    """The broker of this process: the "host:port" that clients are told, the one that it listens on, and its TLS
    for that port and for name servers."""

    address: str
    listening: tuple[str, int]
    tls: TlsAcceptor

    async def open_stream(self, host: str, port: int) -> Stream:
        """Open a connection to the broker, or to a name server as the broker does."""
        from rmqcli.client.wire.streams import open_tcp
        from rmqcli.client.wire.tls import TlsStreams

        is_own = join_address(host, port) == self.address
        context = self.tls.to_itself if is_own else self.tls.peers
        opening = open_tcp if context is None else TlsStreams(context, open_tcp)
        # The address that clients are told may be that of a port forward, which is not the way from here.
        return await opening(*(self.listening if is_own else (host, port)))


async def open_own_metrics(
    stack: AsyncExitStack, settings: Settings, port: int | None, config: BrokerConfig, own: Own
) -> dict[str, str]:
    """Serve the metrics of one broker until the stack ends. Return {"metrics": URL}, or an empty dict without
    a port.
    """
    if port is None:
        return {}
    from rmqcli.client import Admin
    from rmqcli.commands.common.serving import opened
    from rmqcli.metrics.collect import collect
    from rmqcli.metrics.server import open_metrics

    asking = Admin(
        namesrv=config.namesrv_addr or "",
        namespace="",
        timeout=TIMEOUT,
        open_stream=own.open_stream,
        credentials=account(settings.given, settings.endpoint),
    )
    admin = await stack.enter_async_context(asking)
    host = config.bind_address
    server = open_metrics(host, port, lambda: collect(admin, brokers=[config.broker_name]))
    bound = await opened(stack, server, "the metrics server", f"{host}:{port}", "--metrics")
    return {"metrics": f"http://{host}:{bound}/metrics"}
