"""The group `rmq namesrv`."""

from __future__ import annotations

from rmqcli.cli.bare import BareGroup
from rmqcli.cli.command import command_group

app = command_group(
    "namesrv", "Run a name server. Without a command, `rmq namesrv` is `rmq namesrv run`.", cls=BareGroup
)
