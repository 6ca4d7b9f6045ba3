"""`rmq up`: a name server and a broker in one process, for experiments and tests."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Annotated, NamedTuple

from typer import Option

from rmqcli.broker.config import BrokerConfig, NamesrvConfig
from rmqcli.broker.net.tls.acceptor import TlsAcceptor
from rmqcli.broker.system import MovableClock, NowMs, system_now_ms
from rmqcli.cli.command import command, single_command
from rmqcli.cli.settings import Settings
from rmqcli.codec.ids import DEFAULT_NAMESRV_PORT, join_address
from rmqcli.commands.common.configuration import Configuration
from rmqcli.commands.common.grpc import GrpcOptions, open_grpc
from rmqcli.commands.common.listening import (
    BrokerListening,
    local_address,
    told_address,
    warn_of_address,
    warn_of_open_names,
    warn_of_open_server,
)
from rmqcli.commands.common.metrics import REQUIRED, MetricsOption, Own, open_own_metrics
from rmqcli.commands.common.serving import announce, log_to_stderr, opened, run_until_stopped
from rmqcli.extras import require

app = single_command()

NamesrvPortOption = Annotated[
    int,
    Option(
        "--namesrv-port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Port of the name server; 0 for any free port.",
    ),
]
StoreOption = Annotated[
    Path | None, Option("--store", metavar="DIR", help="Store folder; default: a temporary folder.")
]
UntilEofOption = Annotated[
    bool,
    Option(
        "--until-eof", help="Also stop when standard input ends, as it does when the parent process ends."
    ),
]

_TITLES = {"namesrv": "name server", "grpc": "gRPC"}

# Senders have no other broker to use when this one is slow.
_DEFAULTS = {
    "brokerName": "broker-a",
    "brokerClusterName": "DefaultCluster",
    "brokerFastFailureEnable": "false",
}


@command(
    app,
    "up",
    example="""rmq up
rmq up --store ./store --set autoCreateTopicEnable=false
rmq up --port 0 --namesrv-port 0 --json
rmq up --advertise 192.168.1.20
rmq up --grpc
rmq up --until-eof --port 0 --namesrv-port 0 --json""",
)
def up(
    settings: Settings,
    *,
    listening: BrokerListening,
    namesrv_port: NamesrvPortOption = DEFAULT_NAMESRV_PORT,
    store: StoreOption = None,
    grpc: GrpcOptions,
    metrics: MetricsOption = None,
    until_eof: UntilEofOption = False,
    configuration: Configuration,
) -> None:
    """Start a name server and a broker in one process, until Ctrl-C or SIGTERM (exit code 0).

    Clients on other machines, or outside a container, need an address that they can reach: --advertise HOST
    tells them HOST and listens on all addresses, --advertise HOST:PORT also tells them the port of a port
    forward. --host IP listens on one address. With --json, prints one line when both accept connections:
    {"namesrv": "...", "broker": "...", "store": "..."}. Without --store, `rmq broker advance` moves the clock
    of the broker.
    """
    from rmqcli.broker.config.servers import java_name
    from rmqcli.broker.disk.temporary import remove_abandoned, temporary_folder
    from rmqcli.broker.testing.embedded import light_file_sizes

    if metrics is not None:
        require(*REQUIRED)
    of_grpc = grpc.properties()
    log_to_stderr(settings)
    with ExitStack() as stack:
        if store is None:
            remove_abandoned()
        folder = store or stack.enter_context(temporary_folder()) / "store"
        # Java opens a folder only with its configured file sizes, so a store that is kept has Java's sizes.
        sizes = {} if store else light_file_sizes(folder)
        defaults = _DEFAULTS | {java_name(name): str(value) for name, value in sizes.items()}
        fixed = {"storePathRootDir": str(folder.absolute()), **of_grpc}
        broker = listening.configure(configuration, BrokerConfig, defaults, fixed)
        of_namesrv, of_broker = (configuration.accepting(settings, broker, is_alone=True) for _ in range(2))
        ports = _Ports(namesrv_port, metrics, grpc.grpc)
        run_until_stopped(
            lambda servers: _start(
                servers,
                settings,
                listening,
                broker,
                ports,
                _Tls(of_namesrv, of_broker),
                configuration,
                # Tests may move the clock, but not that of messages that are kept.
                MovableClock() if store is None else system_now_ms,
            ),
            until_eof=until_eof,
        )


class _Ports(NamedTuple):
    """The ports other than that of the broker."""

    namesrv: int
    metrics: int | None
    grpc: int | None


class _Tls(NamedTuple):
    """The acceptors of TLS connections."""

    namesrv: TlsAcceptor
    broker: TlsAcceptor


async def _start(
    stack: AsyncExitStack,
    settings: Settings,
    listening: BrokerListening,
    config: BrokerConfig,
    ports: _Ports,
    tls: _Tls,
    configuration: Configuration,
    now_ms: NowMs,
) -> None:
    import msgspec

    from rmqcli.broker.namesrv import open_name_server
    from rmqcli.broker.node import open_broker

    host = config.bind_address
    names = NamesrvConfig(kv_config_path=None, config_store_path=None)  # persists nothing
    opening = open_name_server(names, host=host, port=ports.namesrv, tls=tls.namesrv)
    namesrv = await opened(stack, opening, "the name server", f"{host}:{ports.namesrv}", "--namesrv-port")
    local = local_address(host)
    config = msgspec.structs.replace(config, namesrv_addr=join_address(local, namesrv.port))
    address = f"{host}:{config.listen_port}"
    broker = await opened(
        stack,
        open_broker(config, now_ms=now_ms, needs_vip=False, tls=tls.broker),
        "the broker",
        address,
        "--port",
    )
    port = broker.context.config.listen_port
    if listening.advertise is None:
        warn_of_address(broker.address, bound=host)
    if config.acl_enable or config.authentication_enabled:
        warn_of_open_names(host, namesrv.port)
    else:
        warn_of_open_server(host, namesrv.port, port)
    names_told = told_address(host, namesrv.port, broker.address)
    words = {"namesrv": names_told, "broker": broker.address, "store": str(broker.store_path)}
    words |= await open_grpc(stack, ports.grpc, broker, configuration)
    namesrv.state.grpc_port = broker.context.grpc_port
    own = Own(broker.address, (local, port), tls.broker)
    words |= await open_own_metrics(stack, settings, ports.metrics, config, own)
    lines = [f"{_TITLES.get(name, name):<13}{word}" for name, word in words.items()]
    announce(settings, words, "\n".join([*lines, "Press Ctrl-C to stop"]))
