"""The groups `rmq broker`, `rmq broker config` and `rmq broker clean`, and options that commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from typer import Argument, Option

from rmqcli.cli.bare import BareGroup
from rmqcli.cli.command import command_group
from rmqcli.cli.option_groups import OptionGroup
from rmqcli.cli.options import BrokersOption

app = command_group(
    "broker",
    "Run a broker; show, change and drain brokers. Without a command, `rmq broker` is `rmq broker run`.",
    cls=BareGroup,
)
config = command_group("config", "Show, change and compare the configuration of brokers.")
clean = command_group("clean", "Remove queues and files that brokers no longer need.")
app.add_typer(config)
app.add_typer(clean)

BrokerArgument = Annotated[str, Argument(metavar="BROKER", help="Name of the broker.")]


@dataclass(frozen=True, slots=True)
class Seats(OptionGroup):
    """The brokers, with their slaves, that a command is limited to."""

    broker: BrokersOption = None
    cluster: Annotated[
        str | None, Option("--cluster", metavar="NAME", help="Limit to the brokers of this cluster.")
    ] = None

    @property
    def named(self) -> dict[str, Any]:
        """The arguments of `admin.brokers.seats`."""
        return {"brokers": self.broker or (), "cluster": self.cluster}
