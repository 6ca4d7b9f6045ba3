"""`rmq metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command, command_group
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import BrokersOption, OptionGroup
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.metrics import REQUIRED, TIMEOUT
from rmqcli.commands.common.outcome import end_partly
from rmqcli.extras import require

if TYPE_CHECKING:
    from rmqcli.client import Admin, NoBrokers
    from rmqcli.doctor.survey import SeenFile
    from rmqcli.metrics.families import Sample

app = command_group("metrics", "Serve cluster metrics to Prometheus.")

SeriesOption = Annotated[
    int, Option("--max-series", metavar="N", min=1, help="Omit series above a limit of N.")
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
        """Return the samples. `file` lists the brokers seen by earlier scrapes and by other commands."""
        from rmqcli.metrics.collect import collect

        seen = file.read()
        samples = await collect(admin, **self.named, max_series=self.max_series, seen=seen)
        file.write(seen)
        return samples


ListenOption = Annotated[
    str,
    Option(
        "--listen",
        metavar="[HOST]:PORT",
        help="Address for scrapes; `:PORT` listens on all addresses, port 0 is any free port.",
    ),
]
MAX_PORT = 65535


@command(app, "serve", example="rmq metrics serve\nrmq metrics serve -n 10.0.0.5:9876 --listen :5557")
def serve(settings: Settings, selected: Selected, listen: ListenOption = "127.0.0.1:5557") -> None:
    """Serve cluster metrics to Prometheus until Ctrl-C or SIGTERM (exit code 0).

    Metrics have the names of rocketmq-exporter where it has the same metric. Each scrape queries the cluster.
    A broker that does not respond has rmq_up 0, for a day even if the name server forgets it; such a name
    server has rmq_name_server_up 0. The scrape is answered anyway, up to one --timeout (default: 3 s) later:
    the timeout of Prometheus must be longer. rmq_series_dropped counts the series above --max-series.
    """
    from rmqcli.commands.common.serving import log_to_stderr, run_until_stopped

    require(*REQUIRED)
    host, port = _address(listen)
    log_to_stderr(settings)
    run_until_stopped(lambda stack: _start(stack, settings, selected, host, port))


async def _start(stack: AsyncExitStack, settings: Settings, selected: Selected, host: str, port: int) -> None:
    from rmqcli.client import Admin
    from rmqcli.commands.common.serving import announce, opened
    from rmqcli.doctor.survey import SeenFile
    from rmqcli.metrics.server import open_metrics

    options = {"timeout": TIMEOUT, **settings.client_options}
    admin = await stack.enter_async_context(Admin(**options))
    seen = SeenFile(settings.namesrv)
    server = open_metrics(host or "0.0.0.0", port, lambda: selected.collect(admin, seen))
    bound = await opened(stack, server, "the metrics server", f"{host}:{port}", "--listen")
    url = f"http://{host or '127.0.0.1'}:{bound}/metrics"
    announce(settings, {"metrics": url}, f"metrics of {settings.namesrv} at {url}")


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and int(port) <= MAX_PORT):
        raise usage_error(f"--listen {text!r}: expected HOST:PORT or :PORT, e.g. :5557")
    return host.strip("[]"), int(port)


@command(app, "show", example="rmq metrics show\nrmq metrics show > /var/lib/node_exporter/rocketmq.prom")
def show(settings: Settings, selected: Selected) -> None:
    """Print the metrics once, as a scrape returns them.

    A broker that does not respond, or is no longer registered, has rmq_up 0, and the exit code is 3. Without
    a name server or any broker the exit code is 5.
    """
    require(*REQUIRED)
    from rmqcli.client import NoBrokers
    from rmqcli.doctor.survey import SeenFile
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
