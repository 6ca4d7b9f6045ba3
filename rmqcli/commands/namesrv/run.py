"""`rmq namesrv run`."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.configuration import Configuration
from rmqcli.commands.namesrv.app import app

if TYPE_CHECKING:
    from broker.config import NamesrvConfig

ListenOption = Annotated[
    str | None,
    Option(
        "--listen",
        metavar="[HOST:]PORT",
        help="Address to listen on; default: 0.0.0.0 and listenPort (9876). Port 0: any free port.",
    ),
]

DEFAULT_HOST = "0.0.0.0"


def split_listen(text: str | None) -> tuple[str, int | None]:
    """Return host and port of `PORT`, `:PORT`, `HOST:PORT`, `[V6]:PORT`; raise a usage error otherwise."""
    if text is None:
        return DEFAULT_HOST, None
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise usage_error(f"--listen {text!r}: expected HOST:PORT or PORT")
    return host.removeprefix("[").removesuffix("]") or DEFAULT_HOST, int(port)


@command(app, "run", example="rmq namesrv run\nrmq namesrv run --config namesrv.conf --listen 127.0.0.1:9876")
def run(settings: Settings, configuration: Configuration, listen: ListenOption = None) -> None:
    """Run a name server until Ctrl-C or SIGTERM (exit code 0).

    Reads the property names of Java's namesrv.conf; unknown properties are reported and ignored.
    """
    from broker.config import NamesrvConfig
    from rmqcli.commands.common.serving import log_to_stderr, run_until_stopped

    log_to_stderr(settings)
    host, port = split_listen(listen)
    found = configuration.of(NamesrvConfig)
    run_until_stopped(lambda stack: _start(stack, settings, found, host, port))


async def _start(
    stack: AsyncExitStack, settings: Settings, config: NamesrvConfig, host: str, port: int | None
) -> None:
    from broker.namesrv import open_name_server
    from rmqcli.commands.common.serving import announce, opened

    address = f"{host}:{config.listen_port if port is None else port}"
    opening = open_name_server(config, host=host, port=port)
    server = await opened(stack, opening, "the name server", address, "--listen")
    announce(settings, {"namesrv": server.address}, f"name server listening on {server.address}")
