"""`rmq mirror`: a running copy of a broker as a store folder."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Argument, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.verifying import verify_folder
from rmqcli.commands.mirror.cutting import Cutter

if TYPE_CHECKING:
    from rmqcli.broker.mirror import Mirror
    from rmqcli.commands.mirror.reading_back import ReadingBack
    from rmqcli.export.output.storage import Location

app = single_command()

GIVE_UP_SECONDS = 20.0
"""Time without a connection, or with a refusal, after which --once fails."""

BrokerArgument = Annotated[
    str, Argument(metavar="BROKER", help="Name of the broker, or host:port of its master.")
]
StoreOption = Annotated[Path, Option("--store", metavar="DIR", help="Folder of the copy.")]
OnceOption = Annotated[
    bool, Option("--once", help="Stop when the copy contains all that the broker has now.")
]
IntervalOption = Annotated[
    float, Option("--interval", metavar="SECONDS", min=0.1, help="Time between two lines of output.")
]
HaOption = Annotated[
    str | None,
    Option("--ha", metavar="HOST:PORT", help="Replication port; default: the one that the broker reports."),
]
HaTlsOption = Annotated[
    bool,
    Option(
        "--ha-tls", help="Also copy the log over TLS, with the settings of --tls; only from rmq's broker."
    ),
]
ParquetOption = Annotated[
    str | None,
    Option(
        "--parquet",
        metavar="DIR",
        help="Cut Parquet files of the copied messages, as `rmq export` writes them, also at a URI such as "
        "s3://BUCKET/DIR.",
    ),
]
ParquetEveryOption = Annotated[
    float,
    Option(
        "--parquet-every",
        metavar="SECONDS",
        min=1.0,
        help="Cut at multiples of this time, by default at each full hour.",
    ),
]
VerifyOption = Annotated[
    bool,
    Option(
        "--verify",
        help="Read back what is written while copying; verify the whole copy at the end of --once.",
    ),
]
JobsOption = Annotated[
    int | None,
    Option("--jobs", "-j", metavar="N", min=1, help="Number of verifying processes; default: one per core."),
]


@command(
    app,
    "mirror",
    example="""rmq mirror broker-a --store /backup/broker-a
rmq mirror broker-a --store /backup/broker-a --once --verify
rmq mirror broker-a --store /backup/broker-a --parquet /lake/broker-a
rmq mirror 10.0.0.5:10911 --store copy --interval 60 --json""",
    panels={
        "Replication port": "--ha --ha-tls",
        "Parquet files": "--parquet --parquet-every",
        "Verification": "--verify --jobs",
    },
)
def mirror(
    broker: BrokerArgument,
    settings: Settings,
    *,
    store: StoreOption,
    once: OnceOption = False,
    interval: IntervalOption = 10.0,
    ha: HaOption = None,
    ha_tls: HaTlsOption = False,
    parquet: ParquetOption = None,
    parquet_every: ParquetEveryOption = 3600.0,
    verify: VerifyOption = False,
    jobs: JobsOption = None,
) -> None:
    """Keep a copy of a broker of 4.9 or 5.x as a store folder, until Ctrl-C or SIGTERM.

    The copy follows the broker as a slave does, and is a valid store at any time: `rmq up --store DIR` starts
    a broker with it. Every record is checked before it is stored. A repeated command continues the copy; data
    that the broker deletes is kept. Piped output, one line per interval: state, offset of the copy, end of
    the broker's log, lag in bytes, bytes per second. With --json, each line is a document; --verify prints
    none. While the broker cannot be reached, the state says why.

    With --parquet, each message is in the files of DIR exactly once, however often the command is killed and
    repeated. Each cut writes the messages since the last one, and --once cuts at the end. Nothing more is
    read from the broker for it.

    With --verify, records, queue entries and index items that this call wrote are read back from the files;
    each line has one more value, the offset up to which they were. At the end of --once, the whole copy is
    verified, as `rmq inspect verify` does. Damage ends the copy with exit code 8.
    """
    from rmqcli.commands.common.serving import log_to_stderr
    from rmqcli.export.output.storage import location

    log_to_stderr(settings)
    out = None if parquet is None else location("--parquet", parquet)
    if ha_tls and settings.client_options.get("tls") is None:
        raise usage_error("--ha-tls needs --tls, or an option that implies it (see: rmq help tls)")
    address = broker if ":" in broker else _address(settings, broker)
    target = _Target(address, store.absolute(), ha, ha_tls, out, parquet_every, verify)
    target.cutter("").check()
    run_async(lambda: _run(settings, target, once=once, interval=interval))
    if verify and once:
        verify_folder(settings, target.folder, jobs, silent=settings.json)


class _Target(NamedTuple):
    """The address of the broker, the folder, the address of the replication port if given, whether that port
    uses TLS, the folder of Parquet files with the time between two cuts, and whether written data is read
    back.
    """

    address: str
    folder: Path
    ha: str | None
    ha_tls: bool
    parquet: Location | None
    parquet_every: float
    verify: bool

    def cutter(self, broker_name: str) -> Cutter:
        return Cutter(self.folder, self.parquet, broker_name)


def _address(settings: Settings, name: str) -> str:
    masters = with_admin(settings, lambda admin: admin.brokers.masters(brokers=[name]))
    return masters[name]


async def _run(settings: Settings, target: _Target, *, once: bool, interval: float) -> None:
    import trio

    from rmqcli.broker.mirror import open_mirror
    from rmqcli.commands.common.serving import Stop, raise_descriptor_limit, share_one_heap
    from rmqcli.commands.mirror.reading_back import ReadingBack

    raise_descriptor_limit()
    share_one_heap()
    stop = Stop()
    async with trio.open_nursery() as nursery:
        await nursery.start(stop.watch, nursery.cancel_scope)
        options = settings.client_options
        credentials, given = options.get("credentials"), options.get("tls")
        tls = None if given is None else given.context()
        async with open_mirror(
            target.address,
            target.folder,
            ha_address=target.ha,
            signer=None if credentials is None else credentials.signer(),
            tls=tls,
            ha_tls=tls if target.ha_tls else None,
        ) as running:
            cutter = target.cutter(running.broker_name)
            back = ReadingBack(running.store, target.folder) if target.verify else None
            async with trio.open_nursery() as work:

                async def end_with(event: Callable[[], Awaitable[None]]) -> None:
                    await event()
                    work.cancel_scope.cancel()

                work.start_soon(end_with, stop.event.wait)
                work.start_soon(_show_at_times, settings, running, back, interval)
                if back is not None:
                    work.start_soon(back.run)
                work.start_soon(_cut_at_times, cutter, running, target.parquet_every)
                if once:
                    work.start_soon(_give_up, running)
                    work.start_soon(end_with, lambda: _caught_up(running, cutter))
            await _show(settings, running, back, 0)
        nursery.cancel_scope.cancel()


async def _caught_up(running: Mirror, cutter: Cutter) -> None:
    # The end is read once: a copy of a busy broker would never reach a moving one.
    await running.caught_up((await running.log_range()).end)
    await _cut(cutter, running)


async def _cut_at_times(cutter: Cutter, running: Mirror, every: float) -> None:
    import trio

    from rmqcli.render.output import warn

    done = -1
    while True:
        # By the wall clock, so that cuts come at full hours whenever the copy began.
        await trio.sleep(every - time.time() % every)
        end = running.store.commit_log_max_offset
        if end == done:
            continue
        try:
            await _cut(cutter, running)
        except CommandError as error:  # the next cut includes these messages
            warn(str(error))
        else:
            done = end


async def _cut(cutter: Cutter, running: Mirror) -> None:
    """Write what was copied since the last cut, and report it."""
    from rmqcli.counts import many
    from rmqcli.render.output import note

    if running.store.commit_log_min_offset < running.store.commit_log_max_offset:
        found = await cutter.cut()
        if found.rows:
            note(f"{cutter.out}: {many(found.files, 'file')}, {many(found.rows, 'row')}")


async def _give_up(running: Mirror) -> None:
    """Raise CommandError after GIVE_UP_SECONDS without a connection."""
    import trio

    since = trio.current_time()
    while True:
        await trio.sleep(1)
        if not running.slave.progress.trouble:
            since = trio.current_time()
        elif trio.current_time() - since > GIVE_UP_SECONDS:
            raise CommandError(running.slave.progress.trouble, ExitCode.FAILED)


async def _show_at_times(
    settings: Settings, running: Mirror, back: ReadingBack | None, interval: float
) -> None:
    import trio

    while True:
        before, begun = running.store.commit_log_max_offset, time.monotonic()
        await trio.sleep(interval)
        copied = running.store.commit_log_max_offset - before
        await _show(settings, running, back, copied / (time.monotonic() - begun))


async def _show(settings: Settings, running: Mirror, back: ReadingBack | None, rate: float) -> None:
    """Print a line about the copy."""
    from rmqcli.broker.errors import BrokerError
    from rmqcli.codec.errors import CodecError
    from rmqcli.render import Output
    from rmqcli.render.text import size, tsv_line

    end = running.store.commit_log_max_offset
    state = running.slave.progress.trouble or running.tables.trouble or "follows"
    try:
        there = (await running.log_range()).end
    except (BrokerError, CodecError) as error:
        there, state = None, running.slave.progress.trouble or str(error)
    behind = None if there is None else max(there - end, 0)
    values = state, end, there, behind, round(rate)
    verified = () if back is None else (back.verified,)
    output = Output()
    if settings.json:
        names = "state", "copied", "end", "behind", "bytesPerSecond", "verified"
        output.json(dict(zip(names, (*values, *verified), strict=False)))
    elif settings.terminal:
        lag = "?" if behind is None else size(behind)
        checked = "".join(f", {size(offset)} verified" for offset in verified)
        line = f"{state}, {size(end)} copied, {lag} behind, {size(round(rate))}/s{checked}"
        output.line(f"{time.strftime('%H:%M:%S')}  {line}")
    else:
        output.line(tsv_line((*values, *verified)))
    output.flush()
