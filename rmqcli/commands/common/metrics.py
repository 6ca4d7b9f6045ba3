"""`--metrics PORT` of `rmq up` and `rmq broker`: a server of its own figures."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Annotated, Any

from typer import Option

MetricsOption = Annotated[
    int | None,
    Option(
        "--metrics",
        metavar="PORT",
        min=0,
        max=65535,
        help="Also answer scrapes of Prometheus on this port; 0 for any free port.",
    ),
]
REQUIRED = ("metrics", "prometheus_client")
"""The extra of the metrics, and its module."""
TIMEOUT = 3.0  # seconds for each server that is asked


async def open_own_metrics(
    stack: AsyncExitStack, port: int | None, host: str, namesrv: str, broker: str, options: Mapping[str, Any]
) -> dict[str, str]:
    """Serve the metrics of one broker until the stack ends. Return its URL as {"metrics": …}; empty without a
    port. `options`: those of its client, TLS and account.
    """
    if port is None:
        return {}
    from rmqcli.client import Admin
    from rmqcli.commands.common.serving import opened
    from rmqcli.metrics.collect import collect
    from rmqcli.metrics.server import open_metrics

    admin = await stack.enter_async_context(Admin(namesrv=namesrv, namespace="", timeout=TIMEOUT, **options))
    server = open_metrics(host, port, lambda: collect(admin, brokers=[broker]))
    bound = await opened(stack, server, "the metrics server", f"{host}:{port}", "--metrics")
    return {"metrics": f"http://{host}:{bound}/metrics"}
