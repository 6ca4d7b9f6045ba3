"""`--metrics PORT` of `rmq up` and `rmq broker`: a server of its own figures."""

from __future__ import annotations

from contextlib import AsyncExitStack
from importlib.util import find_spec
from typing import Annotated

from typer import Option

from rmqcli.cli.exit_codes import usage_error

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
TIMEOUT = 3.0  # seconds for each server that is asked


def require_package() -> None:
    """Raise a usage error if prometheus_client is not installed."""
    if find_spec("prometheus_client") is None:
        raise usage_error("package prometheus_client is not installed: pip install 'rmqcli[metrics]'")


async def open_own_metrics(
    stack: AsyncExitStack, port: int | None, host: str, namesrv: str, broker: str
) -> dict[str, str]:
    """Serve the metrics of one broker until the stack ends. Return its URL as {"metrics": …}; empty without a
    port.
    """
    if port is None:
        return {}
    from rmqcli.client import Admin
    from rmqcli.commands.common.serving import opened
    from rmqcli.metrics.collect import collect
    from rmqcli.metrics.server import open_metrics

    admin = await stack.enter_async_context(Admin(namesrv=namesrv, namespace="", timeout=TIMEOUT))
    server = open_metrics(host, port, lambda: collect(admin, brokers=[broker]))
    bound = await opened(stack, server, "the metrics server", f"{host}:{port}", "--metrics")
    return {"metrics": f"http://{host}:{bound}/metrics"}
