"""`rmq broker run`."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.endpoints import environment_name_servers
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker import app
from rmqcli.commands.common.configuration import Configuration
from rmqcli.commands.common.grpc import GrpcOptions, open_grpc
from rmqcli.commands.common.listening import BrokerListening, local_address, warn_of_open_server
from rmqcli.commands.common.metrics import REQUIRED, MetricsOption, Own, open_own_metrics
from rmqcli.extras import require
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from rmqcli.broker.config import BrokerConfig
    from rmqcli.broker.net.tls.acceptor import TlsAcceptor

StoreOption = Annotated[
    Path | None, Option("--store", metavar="DIR", help="Store folder (storePathRootDir).")
]


CheckOption = Annotated[
    bool,
    Option("--check", help="Compare queues and index with the whole commit log first (checkStoreOnStart)."),
]


@command(
    app,
    "run",
    example="""rmq broker run --config broker.conf
rmq broker run -n 10.0.0.5:9876 --store /data/rmq
rmq broker run -n 10.0.0.5:9876 --advertise 192.168.1.20:20911""",
)
def run(
    settings: Settings,
    *,
    configuration: Configuration,
    listening: BrokerListening,
    store: StoreOption = None,
    check: CheckOption = False,
    grpc: GrpcOptions,
    metrics: MetricsOption = None,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM (exit code 0).

    Reads the property names of Java's broker.conf; unknown properties are reported and ignored. The name
    server comes from -n, namesrvAddr in the file, RMQ_NAMESRV or NAMESRV_ADDR; without any of these, the
    broker does not register.
    """
    from rmqcli.broker.config import BrokerConfig
    from rmqcli.commands.common.serving import log_to_stderr, run_until_stopped

    if metrics is not None:
        require(*REQUIRED)
    of_grpc = grpc.properties()
    log_to_stderr(settings)
    environment = environment_name_servers()
    defaults = {"namesrvAddr": environment} if environment else {}
    options = {
        "storePathRootDir": None if store is None else str(store.absolute()),
        "checkStoreOnStart": "true" if check else None,
        "namesrvAddr": settings.namesrv if settings.given.namesrv or settings.given.profile else None,
    }
    fixed = {name: value for name, value in options.items() if value is not None} | of_grpc
    found = listening.configure(configuration, BrokerConfig, defaults, fixed)
    if not (found.namesrv_addr or "").strip("; ,"):
        if metrics is not None:
            raise usage_error("--metrics asks a name server: name it with -n or namesrvAddr")
        warn("no name server is configured (namesrvAddr): clients cannot find this broker")
    tls = configuration.accepting(settings, found)
    run_until_stopped(
        lambda stack: _start(
            stack, settings, listening, found, tls, _Ports(metrics, grpc.grpc), configuration
        )
    )


class _Ports(NamedTuple):
    """The ports other than that of the broker."""

    metrics: int | None
    grpc: int | None


async def _start(
    stack: AsyncExitStack,
    settings: Settings,
    listening: BrokerListening,
    config: BrokerConfig,
    tls: TlsAcceptor,
    ports: _Ports,
    configuration: Configuration,
) -> None:
    from rmqcli.broker.node import open_broker
    from rmqcli.commands.common.listening import warn_of_address
    from rmqcli.commands.common.serving import announce, opened

    address = f"{config.bind_address}:{config.listen_port}"
    node = await opened(stack, open_broker(config, tls=tls), "the broker", address, "--port")
    port = node.context.config.listen_port
    if listening.advertise is None:
        warn_of_address(node.address, bound=config.bind_address, namesrv=config.namesrv_addr)
    if not (config.acl_enable or config.authentication_enabled):
        warn_of_open_server(config.bind_address, port)
    words = {"broker": node.address, "name": config.broker_name, "store": str(node.store_path)}
    words |= await open_grpc(stack, ports.grpc, node, configuration)
    words |= await open_own_metrics(
        stack,
        settings,
        ports.metrics,
        config,
        Own(node.address, (local_address(config.bind_address), port), tls),
    )
    text = f"broker {config.broker_name} listening on {node.address}, store {node.store_path}"
    if "grpc" in words:
        text += f", gRPC {words['grpc']}"
    if "metrics" in words:
        text += f", metrics {words['metrics']}"
    announce(settings, words, text)
