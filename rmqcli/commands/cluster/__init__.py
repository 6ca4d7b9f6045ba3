"""`rmq cluster`."""

from __future__ import annotations

from rmqcli.cli.command import command_group

app = command_group("cluster", "Show a cluster; dump, compare and apply its settings.")

MODULES = ("members", "state")
