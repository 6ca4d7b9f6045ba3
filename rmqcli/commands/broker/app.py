"""The group `rmq broker`."""

from __future__ import annotations

from rmqcli.cli.bare import BareGroup
from rmqcli.cli.command import command_group

app = command_group(
    "broker", "Run a broker. Without a command, `rmq broker` is `rmq broker run`.", cls=BareGroup
)
