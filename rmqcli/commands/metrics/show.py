"""`rmq metrics show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.metrics import REQUIRED
from rmqcli.commands.common.outcome import end_partly
from rmqcli.commands.metrics.app import Selected, app
from rmqcli.extras import require

if TYPE_CHECKING:
    from rmqcli.client import Admin, NoBrokers
    from rmqcli.metrics.families import Sample


@command(app, "show", example="rmq metrics show\nrmq metrics show > /var/lib/node_exporter/rocketmq.prom")
def show(settings: Settings, selected: Selected) -> None:
    """Print the metrics once, as a scrape returns them.

    A broker that does not answer, or is no longer registered, has rmq_up 0, and the exit code is 3. Without a
    name server or any broker the exit code is 5.
    """
    require(*REQUIRED)
    from rmqcli.client import NoBrokers
    from rmqcli.doctor.seen import SeenFile
    from rmqcli.metrics.exposition import text
    from rmqcli.metrics.families import UP
    from rmqcli.render import Output

    async def main(admin: Admin) -> tuple[Sequence[Sample], NoBrokers | None]:
        nobody = None
        try:
            await admin.brokers.seats(**selected.named)
        except NoBrokers as error:
            nobody = error
        return await selected.collect(admin, SeenFile(settings.namesrv)), nobody

    samples, nobody = with_admin(settings, main)
    if settings.json:
        Output().json(
            {
                "metrics": [
                    {
                        "name": one.family.name,
                        "labels": dict(zip(one.family.labels, one.labels, strict=True)),
                        "value": one.value,
                    }
                    for one in samples
                ]
            }
        )
    else:
        Output().write(text(samples))
    if nobody is not None:
        raise nobody
    lost = {one.labels[-1]: "does not answer" for one in samples if one.family == UP and not one.value}
    end_partly(lost)
