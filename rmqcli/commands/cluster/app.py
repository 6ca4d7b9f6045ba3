"""The group `rmq cluster`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.cli.command import command_group

if TYPE_CHECKING:
    pass


app = command_group("cluster", "Show the brokers and producers of a cluster.")
