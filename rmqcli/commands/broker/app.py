"""The group `rmq broker`, the groups in it, and an argument that commands share."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from rmqcli.cli.bare import BareGroup
from rmqcli.cli.command import command_group

app = command_group(
    "broker",
    "Run a broker; show, change and drain brokers. Without a command, `rmq broker` is `rmq broker run`.",
    cls=BareGroup,
)
config = command_group("config", "Show, change and compare the configuration of brokers.")
clean = command_group("clean", "Remove queues and files that brokers no longer need.")
ha = command_group("ha", "Show and repair the replication of brokers of 5.x.")
cold = command_group("cold", "Show and limit reads of cold data on brokers of 5.x.")
rocksdb = command_group("rocksdb", "Look after what brokers of 5.x keep in RocksDB.")
container = command_group("container", "Start and stop brokers in a container of 5.x.")
for _group in (config, clean, ha, cold, rocksdb, container):
    app.add_typer(_group)

BrokerArgument = Annotated[str, Argument(metavar="BROKER", help="Name of the broker.")]
