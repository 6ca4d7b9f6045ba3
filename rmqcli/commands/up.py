"""`rmq up`: a name server and a broker in one process, for experiments and tests."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated

from typer import Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.serving import (
    ConfigOption,
    SetOption,
    announce,
    configure,
    listening,
    log_to_stderr,
    run_until_stopped,
)

app = single_command()

PortOption = Annotated[
    int, Option("--port", metavar="PORT", min=0, max=65535, help="Port of the broker; 0 for any free port.")
]
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
HostOption = Annotated[str, Option("--host", metavar="IP", help="Address to listen on and to advertise.")]
StoreOption = Annotated[
    Path | None, Option("--store", metavar="DIR", help="Store folder; default: a temporary folder.")
]

_DEFAULTS = {"brokerName": "broker-a", "brokerClusterName": "DefaultCluster"}


@command(
    app,
    "up",
    example="""rmq up
rmq up --store ./store --set autoCreateTopicEnable=false
rmq up --port 0 --namesrv-port 0 --json""",
)
def up(
    settings: Settings,
    port: PortOption = 10911,
    namesrv_port: NamesrvPortOption = 9876,
    host: HostOption = "127.0.0.1",
    store: StoreOption = None,
    config: ConfigOption = None,
    properties: SetOption = None,
) -> None:
    """Start a name server and a broker in one process, until Ctrl-C or SIGTERM (exit code 0).

    With --json, prints one line when both accept connections: {"namesrv": "...", "broker": "...", "store":
    "..."}.
    """
    from broker.config import BrokerConfig
    from broker.config.properties import java_name
    from broker.testing.embedded import light_file_sizes

    log_to_stderr(settings)
    with ExitStack() as stack:
        folder = store or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rmq-")))
        # Java opens a folder only with its configured file sizes, so a store that is kept has Java's sizes.
        sizes = {} if store else light_file_sizes(folder)
        defaults = _DEFAULTS | {java_name(name): str(value) for name, value in sizes.items()}
        fixed = {
            "listenPort": str(port),
            "brokerIP1": host,
            "bindAddress": host,
            "storePathRootDir": str(folder.absolute()),
        }
        broker = configure(BrokerConfig, config, properties or [], defaults, fixed)
        run_async(lambda: run_until_stopped(_both(settings, broker, host, namesrv_port)))


@asynccontextmanager
async def _both(
    settings: Settings, broker_config: object, host: str, namesrv_port: int
) -> AsyncIterator[None]:
    import msgspec

    from broker.config import BrokerConfig, NamesrvConfig
    from broker.namesrv import open_name_server
    from broker.node import open_broker

    assert isinstance(broker_config, BrokerConfig)
    # The name server persists nothing.
    names = NamesrvConfig(kv_config_path=None, config_store_path=None)
    async with AsyncExitStack() as stack:
        with listening("the name server", f"{host}:{namesrv_port}", "--namesrv-port"):
            namesrv = await stack.enter_async_context(open_name_server(names, host=host, port=namesrv_port))
        config = msgspec.structs.replace(broker_config, namesrv_addr=namesrv.address)
        with listening("the broker", f"{host}:{config.listen_port}", "--port"):
            broker = await stack.enter_async_context(open_broker(config))
        words = {"namesrv": namesrv.address, "broker": broker.address, "store": str(broker.store_path)}
        text = (
            f"name server  {namesrv.address}\nbroker       {broker.address}\nstore        {broker.store_path}"
        )
        announce(settings, words, f"{text}\nPress Ctrl-C to stop")
        yield
