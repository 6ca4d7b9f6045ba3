"""The group `rmq metrics`, and options of its commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command_group
from rmqcli.cli.option_groups import OptionGroup
from rmqcli.cli.options import BrokersOption

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.doctor.seen import SeenFile
    from rmqcli.metrics.families import Sample

app = command_group("metrics", "Show the figures of a cluster to Prometheus.")

SeriesOption = Annotated[
    int, Option("--max-series", metavar="N", min=1, help="Leave out what is above N series.")
]


@dataclass(frozen=True, slots=True)
class Selected(OptionGroup):
    """The metrics that are read."""

    broker: BrokersOption = None
    max_series: SeriesOption = 20_000

    @property
    def named(self) -> dict[str, Any]:
        """The arguments of methods of `Admin`."""
        return {"brokers": self.broker or ()}

    async def collect(self, admin: Admin, file: SeenFile) -> Sequence[Sample]:
        """Return the samples. `file` has the brokers of earlier scrapes, and of other commands."""
        from rmqcli.metrics.collect import collect

        seen = file.read()
        samples = await collect(admin, **self.named, max_series=self.max_series, seen=seen)
        file.write(seen)
        return samples
