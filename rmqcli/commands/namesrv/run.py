"""`rmq namesrv run`."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from codec.addresses import join_address
from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.configuration import Configuration
from rmqcli.commands.common.listening import Listening, warn_of_open_server
from rmqcli.commands.namesrv.app import app

if TYPE_CHECKING:
    from broker.config import NamesrvConfig
    from broker.net.tls.acceptor import TlsAcceptor


@command(app, "run", example="rmq namesrv run\nrmq namesrv run --config namesrv.conf --host 0.0.0.0")
def run(settings: Settings, configuration: Configuration, listening: Listening) -> None:
    """Run a name server until Ctrl-C or SIGTERM (exit code 0).

    Reads the property names of Java's namesrv.conf; unknown properties are reported and ignored.
    """
    from broker.config import NamesrvConfig
    from rmqcli.commands.common.serving import log_to_stderr, run_until_stopped

    log_to_stderr(settings)
    found = listening.configure(configuration, NamesrvConfig)
    tls = configuration.accepting(settings, found)
    run_until_stopped(lambda stack: _start(stack, settings, found, tls))


async def _start(stack: AsyncExitStack, settings: Settings, config: NamesrvConfig, tls: TlsAcceptor) -> None:
    from broker.namesrv import open_name_server
    from rmqcli.commands.common.serving import announce, opened

    host = config.bind_address
    opening = open_name_server(config, host=host, tls=tls)
    address = join_address(host, config.listen_port)
    server = await opened(stack, opening, "the name server", address, "--port")
    warn_of_open_server(host, server.port)
    announce(settings, {"namesrv": server.address}, f"name server listening on {server.address}")
