"""`rmq broker`, and the groups in it."""

from __future__ import annotations

from rmqcli.cli.command import BareGroup, command_group

app = command_group(
    "broker",
    "Run a broker; show, change and drain brokers. Without a command, `rmq broker` is `rmq broker run`.",
    cls=BareGroup,
)
config_group = command_group("config", "Show, change and compare the configuration of brokers.")
clean_group = command_group("clean", "Remove queues and files that brokers no longer need.")
ha_group = command_group("ha", "Show and repair the replication of brokers of 5.x.")
cold_group = command_group("cold", "Show and limit reads of cold data on brokers of 5.x.")
rocksdb_group = command_group("rocksdb", "Maintain the data that brokers of 5.x keep in RocksDB.")
container_group = command_group("container", "Start and stop brokers in a container of 5.x.")
for _group in (config_group, clean_group, ha_group, cold_group, rocksdb_group, container_group):
    app.add_typer(_group)

MODULES = ("run", "watch", "maintain", "config", "ha")
