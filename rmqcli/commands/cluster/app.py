"""The group `rmq cluster`."""

from __future__ import annotations

from rmqcli.cli.command import command_group

app = command_group("cluster", "Show the brokers and producers of a cluster.")
