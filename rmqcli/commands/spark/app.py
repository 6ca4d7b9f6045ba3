"""The group `rmq spark`."""

from __future__ import annotations

from rmqcli.cli.command import command_group

app = command_group("spark", "Prepare Spark clusters for `rmq export --spark` and the data source.")
