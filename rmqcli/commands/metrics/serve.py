"""`rmq metrics serve`."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.metrics import REQUIRED, TIMEOUT
from rmqcli.commands.metrics.app import Selected, app
from rmqcli.extras import require

ListenOption = Annotated[
    str,
    Option(
        "--listen",
        metavar="[HOST]:PORT",
        help="Address for scrapes; `:PORT` is that port of all addresses, port 0 any free one.",
    ),
]
MAX_PORT = 65535


@command(app, "serve", example="rmq metrics serve\nrmq metrics serve -n 10.0.0.5:9876 --listen :5557")
def serve(settings: Settings, selected: Selected, listen: ListenOption = "127.0.0.1:5557") -> None:
    """Answer scrapes of Prometheus until Ctrl-C or SIGTERM (exit code 0).

    Names are those of rocketmq-exporter where it has one. Each scrape asks the cluster. A broker that does
    not answer has rmq_up 0, for a day even if the name server forgets it; a name server rmq_name_server_up 0.
    The scrape is answered anyway, after one --timeout (default: 3 s) more: let Prometheus wait longer than
    that. rmq_series_dropped counts what is above --max-series.
    """
    from rmqcli.commands.common.serving import log_to_stderr, run_until_stopped

    require(*REQUIRED)
    host, port = _address(listen)
    log_to_stderr(settings)
    run_until_stopped(lambda stack: _start(stack, settings, selected, host, port))


async def _start(stack: AsyncExitStack, settings: Settings, selected: Selected, host: str, port: int) -> None:
    from rmqcli.client import Admin
    from rmqcli.commands.common.serving import announce, opened
    from rmqcli.doctor.seen import SeenFile
    from rmqcli.metrics.server import open_metrics

    options = {"timeout": TIMEOUT, **settings.client_options}
    admin = await stack.enter_async_context(Admin(**options))
    seen = SeenFile(settings.namesrv)
    server = open_metrics(host or "0.0.0.0", port, lambda: selected.collect(admin, seen))
    bound = await opened(stack, server, "the metrics server", f"{host}:{port}", "--listen")
    url = f"http://{host or '127.0.0.1'}:{bound}/metrics"
    announce(settings, {"metrics": url}, f"metrics of {settings.namesrv} at {url}")


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and int(port) <= MAX_PORT):
        raise usage_error(f"--listen {text!r}: expected HOST:PORT or :PORT, e.g. :5557")
    return host.strip("[]"), int(port)
