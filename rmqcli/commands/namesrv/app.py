"""The groups `rmq namesrv`, `rmq namesrv config` and `rmq namesrv kv`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from rmqcli.cli.bare import BareGroup
from rmqcli.cli.command import command_group

app = command_group(
    "namesrv",
    "Run a name server; show and change name servers. Without a command, `rmq namesrv` is `rmq namesrv run`.",
    cls=BareGroup,
)
config = command_group("config", "Show and change the configuration of name servers.")
kv = command_group("kv", "Show and change the key-value entries of name servers.")
app.add_typer(config)
app.add_typer(kv)

NamespaceArgument = Annotated[
    str, Argument(metavar="NAMESPACE", help="Namespace of the entries, e.g. ORDER_TOPIC_CONFIG.")
]
KeyArgument = Annotated[str, Argument(metavar="NAME", help="Name of the entry.")]
