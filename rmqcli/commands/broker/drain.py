"""`rmq broker drain` and `rmq broker undrain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.options import YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.broker.app import BrokerArgument, app
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, confirm, end_partly
from rmqcli.commands.common.properties import DryRunOption
from rmqcli.render.output import Output, note, warn

if TYPE_CHECKING:
    from rmqcli.client import Admin

WaitIdleOption = Annotated[
    bool, Option("--wait-idle", help="Wait until the broker has stored nothing for 10 s.")
]
LimitOption = Annotated[
    float | None,
    Option("--limit", metavar="SECONDS", min=0.1, help="Time limit of --wait-idle; default: none."),
]


@command(
    app,
    "drain",
    example="rmq broker drain broker-b --dry-run\nrmq broker drain broker-b --wait-idle --yes",
    rows=Rows.DOCUMENT,
)
def drain(
    broker: BrokerArgument,
    settings: Settings,
    *,
    wait_idle: WaitIdleOption = False,
    limit: LimitOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Take the write permission from a broker on all name servers, so that producers leave it.

    Warns of topics that no other broker takes messages of, and asks for confirmation; without a terminal,
    --yes is required. Consumers go on. Producers follow within 30 s. A broker whose topics change registers
    them again and gets the permission back: repeat the command then. `rmq broker undrain` restores the
    permission.

    Piped output: name server, number of topics. Name servers that do not respond are reported, and the exit
    code is 3. With --limit, exit code 7 if the broker still stores messages.
    """
    if limit is not None and not wait_idle:
        raise usage_error("--limit requires --wait-idle")
    address, topics = with_admin(settings, lambda admin: _look(admin, broker))
    if topics:
        warn(f"no other broker takes messages of {', '.join(topics)}: sends to them will fail")
    if dry_run:
        note(f"{broker} would lose its write permission; nothing was changed")
        _show(settings, broker, {}, {"onlyWritable": topics, "dryRun": True})
        return
    confirm(
        settings,
        f"take the write permission from {broker}?",
        yes=yes,
        lost=[f"sends to {', '.join(topics)}"] if topics else (),
    )
    failures: Failures = {}
    counts = with_admin(
        settings, lambda admin: admin.name_servers.wipe_write_permission(broker, failures=failures)
    )
    idle = with_admin(settings, lambda admin: _wait(admin, address, limit)) if wait_idle else None
    _show(settings, broker, counts, {"onlyWritable": topics, "idle": idle})
    end_partly(failures)
    if idle is False:
        raise CommandError(f"{broker} still stores messages after {limit:g} s", ExitCode.TIMED_OUT)


@command(
    app,
    "undrain",
    example="rmq broker undrain broker-b",
    rows=Rows.DOCUMENT,
)
def undrain(broker: BrokerArgument, settings: Settings) -> None:
    """Give a broker its write permission back on all name servers.

    Piped output: name server, number of topics. Name servers that do not respond are reported, and the exit
    code is 3.
    """
    failures: Failures = {}

    async def main(admin: Admin) -> dict[str, int]:
        await admin.brokers.seats(brokers=[broker])
        return await admin.name_servers.add_write_permission(broker, failures=failures)

    _show(settings, broker, with_admin(settings, main), {})
    end_partly(failures)


async def _look(admin: Admin, broker: str) -> tuple[str, list[str]]:
    """Return the address of the broker, and the topics that only it takes messages of."""
    from rmqcli.flows.draining import only_writable_on

    masters = await admin.brokers.masters(brokers=[broker])
    return masters[broker], await only_writable_on(admin, broker)


async def _wait(admin: Admin, address: str, limit: float | None) -> bool:
    from rmqcli.flows.draining import wait_until_idle

    told: list[str] = []

    def report(rate: float | None) -> None:
        text = "not known yet" if rate is None else f"{rate:,.1f}/s"
        if told[-1:] != [text]:
            told.append(text)
            note(f"waiting: messages stored: {text}")

    return await wait_until_idle(admin, address, report, limit)


def _show(settings: Settings, broker: str, counts: dict[str, int], more: dict[str, Any]) -> None:
    from rmqcli.render.columns import NAME_SERVER
    from rmqcli.render.table import Column, show_rows

    if settings.json:
        Output().json({"broker": broker, "nameServers": counts, **more})
        return
    columns = [NAME_SERVER, Column("TOPICS", "topics", number=True)]
    show_rows(settings, columns, list(counts.items()))
