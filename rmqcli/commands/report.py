"""`rmq report`: a page about a cluster or a store folder, for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.cli.options import Seats
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import end_partly
from rmqcli.extras import require

if TYPE_CHECKING:
    from rmqcli.report.page import Page

app = single_command()

OutOption = Annotated[
    Path, Option("--out", metavar="FILE", help="HTML file to write; - for standard output.")
]
StoreOption = Annotated[
    Path | None, Option("--store", metavar="DIR", help="Report on a store folder instead of a cluster.")
]
ReplaceOption = Annotated[bool, Option("--replace", help="Overwrite the file if it exists.")]
VerifyOption = Annotated[
    bool, Option("--verify/--no-verify", help="With --store: check the folder as `rmq inspect verify` does.")
]
JobsOption = Annotated[
    int | None, Option("--jobs", "-j", metavar="N", min=1, help="With --store: number of checking processes.")
]
RowsOption = Annotated[int, Option("--count", "-c", metavar="N", min=1, help="Maximum rows of each table.")]


@command(
    app,
    "report",
    example="""rmq report --out cluster.html
rmq report --store /data/store --out store.html
rmq report --out - | ssh web 'cat > /srv/www/rocketmq.html'""",
    panels={"Cluster": "--broker --cluster", "Store folder": "--verify --jobs"},
)
def report(
    settings: Settings,
    *,
    out: OutOption,
    seats: Seats,
    store: StoreOption = None,
    replace: ReplaceOption = False,
    verify: VerifyOption = True,
    jobs: JobsOption = None,
    count: RowsOption = 100,
) -> None:
    """Write one HTML page about a cluster or a store folder.

    The page embeds its styles and plots, has no scripts and loads nothing from the network, so it can be sent
    to others. It begins with what needs attention. For a cluster, it shows brokers, messages by hour, topics,
    lag, dead letters, and subscriptions and configurations that differ; it names servers that do not respond,
    and the exit code is 3. For a store folder, it shows topics with rates, sizes and keys, queues, lag and
    findings; the exit code is 8 if the folder is damaged. Needs the extra report.
    """
    from rmqcli.report.page import refuse_existing

    require("report", "pygal")
    if store is not None and any(seats.named.values()):
        raise usage_error("--store has one broker: it cannot be combined with --broker and --cluster")
    if store is None and (jobs is not None or not verify):
        raise usage_error("--jobs and --no-verify require --store")
    if settings.json and str(out) == "-":
        raise usage_error("--json tells what was written: it cannot be combined with --out -")
    refuse_existing(out, replace=replace)
    if store is None:
        _of_cluster(settings, out, replace, count, seats)
    else:
        _of_store(settings, out, replace, store, count, verify, jobs)


def _of_cluster(settings: Settings, out: Path, replace: bool, count: int, seats: Seats) -> None:
    from rmqcli.report.cluster.reading import read_cluster
    from rmqcli.report.cluster.sections import cluster_page

    found = with_admin(settings, lambda admin: read_cluster(admin, **seats.named))
    _write(settings, out, replace, cluster_page(found, settings.namesrv, now_ms(), count))
    end_partly(found.failures)


def _of_store(
    settings: Settings, out: Path, replace: bool, store: Path, count: int, verify: bool, jobs: int | None
) -> None:
    from rmqcli.render.progress import progress
    from rmqcli.report.store.sections import store_page
    from rmqcli.report.store.topics import read_store

    found = read_store(
        store, lambda part, size: progress(f"report {part}", size, sizes=True), verify=verify, jobs=jobs
    )
    _write(settings, out, replace, store_page(found, now_ms(), count))
    if found.shape.skipped or (found.verified is not None and not found.verified.sound):
        raise Ended(ExitCode.CORRUPT, summary=f"{store} is damaged")


def _write(settings: Settings, out: Path, replace: bool, page: Page) -> None:
    from rmqcli.render.output import Output, note
    from rmqcli.render.text import many, size
    from rmqcli.report.html import html_of
    from rmqcli.report.page import STDOUT, save

    text = html_of(page).encode()
    if out == STDOUT:
        Output().write(text)
        return
    save(out, text, replace=replace)
    if settings.json:
        found = [one._asdict() for one in page.findings]
        Output().json({"out": str(out), "bytes": len(text), "attention": found})
    else:
        urgent = f"{many(len(page.findings), 'thing')} to look at" if page.findings else "nothing to look at"
        note(f"wrote {out} ({size(len(text))}): {urgent}")
