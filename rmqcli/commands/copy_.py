"""`rmq copy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import (
    ColumnsWhereOption,
    IdleOption,
    RateOption,
    TagOption,
    TopicArgument,
    check_filter,
)
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms, run_until_terminated
from rmqcli.cli.settings import Settings
from rmqcli.cli.target_options import ToCluster
from rmqcli.commands.common.admin import warn_of_clocks
from rmqcli.commands.common.messages import note_to_person
from rmqcli.commands.common.outcome import end_partly, say_done
from rmqcli.render.output import note, warn
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import ClientError, PullConsumer
    from rmqcli.codec.message_queue import MessageQueue
    from rmqcli.copying.copier import Copier, Plan
    from rmqcli.copying.progress import Job, Progress, Source
    from rmqcli.grammar.offset_range import OffsetRange
    from rmqcli.render.table import Column

app = single_command()

ToTopicArgument = Annotated[
    str | None,
    Argument(metavar="[TO]", help="Topic to copy to; by default of the same name.", show_default=False),
]
RangeOption = Annotated[
    str | None,
    Option("--offset", "-o", metavar="RANGE", help="Range: start, end, N, A:B, @T or @T1:T2."),
]
QueuesOption = Annotated[
    str,
    Option(
        "--queues",
        metavar="HOW",
        help="Queue selection: keep (queue to queue) or hash (of the message group or first key).",
    ),
]
FollowOption = Annotated[
    bool, Option("--follow", help="Continue with new messages and new queues until Ctrl-C.")
]
DryRunOption = Annotated[
    bool, Option("--dry-run", help="Read all messages and show what would be copied; send nothing.")
]
ResumeOption = Annotated[bool, Option("--resume", help="Continue where the previous copy ended.")]
ProgressOption = Annotated[
    Path | None,
    Option(
        "--progress", metavar="FILE", help="File that records what is copied.  [default: in RMQ_STATE_DIR]"
    ),
]


@command(
    app,
    "copy",
    example="""rmq copy orders orders-copy
rmq copy orders --to-profile dr --resume --follow
rmq copy orders --to-namesrv ns2:9876 -o @-1d --where 'amount > 100' --dry-run
rmq copy orders orders-by-key --queues hash --rate 500""",
    rows=Rows.DOCUMENT,
    panels={"Pace and end": "--rate --follow --idle", "Progress": "--resume --progress --dry-run"},
)
def copy(
    topic: TopicArgument,
    settings: Settings,
    to: ToTopicArgument = None,
    *,
    cluster: ToCluster,
    offset: RangeOption = None,
    tag: TagOption = "*",
    where: ColumnsWhereOption = None,
    queues: QueuesOption = "keep",
    rate: RateOption = None,
    follow: FollowOption = False,
    idle: IdleOption = None,
    resume: ResumeOption = False,
    progress_file: ProgressOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Copy messages to another topic, or to another cluster.

    Body, keys, tags, properties, flag and message ID are kept, and the order of each queue. The original
    times become the properties ORIGINAL_BORN_TIMESTAMP and ORIGINAL_STORE_TIMESTAMP, and COPIED_FROM names
    the original. Copies up to the end that each queue had at the start. Progress is recorded only after the
    target has confirmed: after a kill, --resume finds the messages that were sent but not recorded, and does
    not send them again; messages that the target nevertheless stored twice are counted. Prints what was
    copied of each queue, over all runs. Queues that could not be copied to their end are reported, and the
    exit code is 3.
    """
    from rmqcli.copying.copier import Plan
    from rmqcli.copying.progress import Job, Progress, default_path
    from rmqcli.grammar.offset_range import parse_range

    target, wanted = cluster.settings(settings), parse_range(offset or "start", now_ms())
    _check(topic, to, cluster, queues, tag, where)
    _check_range(offset, wanted, follow=follow, idle=idle)
    job = Job(
        settings.namesrv,
        topic,
        target.namesrv,
        to or topic,
        queues,
        offset or "start",
        tag,
        where,
    )
    path = None if dry_run and not resume else progress_file or default_path(job)
    done = Progress(path, job, resume=resume)
    if resume and path is not None and not path.exists():
        note(f"nothing to resume: {path} does not exist; copying the whole range")
    plan = Plan(wanted, rate=rate, follow=follow, idle=idle, dry_run=dry_run)
    warn_of_clocks(settings, offset)
    run = _Run(settings, target, plan, done)
    with nullcontext() if dry_run else done:
        run.copy()
    run.report()


def _check(topic: str, to: str | None, cluster: ToCluster, queues: str, tag: str, where: str | None) -> None:
    from rmqcli.codec.message import check_topic
    from rmqcli.copying.routes import HASH, KEEP

    check_filter(tag, where)
    try:
        check_topic(to or topic)
    except ValueError as error:
        raise usage_error(f"{to or topic}: {error}") from None
    if queues not in (KEEP, HASH):
        raise usage_error(f"--queues {queues}: expected keep or hash")
    if not cluster.is_given and to in (None, topic):
        raise usage_error(
            f"topic {topic} would be copied to itself: name another topic, or a cluster with --to-namesrv "
            "or --to-profile"
        )


def _check_range(offset: str | None, wanted: OffsetRange, *, follow: bool, idle: float | None) -> None:
    if wanted.last is not None:
        raise usage_error(
            f"--offset {offset}: a copy begins at offsets or times: start, end, N, A:B, @T, @T1:T2"
        )
    if follow and (wanted.end is not None or wanted.end_time is not None):
        raise usage_error(f"--offset {offset}: --follow has no end; name only the start")
    if not follow and wanted.only_new:
        raise usage_error(f"--offset {offset}: nothing to copy; use --follow")
    if not follow and idle is not None:
        raise usage_error("--idle ends a copy that follows its topic; add --follow")


class _Run:
    """One run: the copy and its report."""

    def __init__(self, settings: Settings, target: Settings, plan: Plan, done: Progress) -> None:
        self._settings = settings
        self._target = target
        self._plan = plan
        self._done = done
        self._copier: Copier | None = None
        self._missing: Mapping[str, ClientError] = {}

    @property
    def _job(self) -> Job:
        return self._done.job

    def copy(self) -> None:
        """Copy until the end, or until Ctrl-C: then report, and raise."""
        try:
            run_until_terminated(self._main)
        except BaseException as error:
            if self._copier is not None:
                self._show(self._copier)
                if not self._plan.dry_run:
                    say_done(self._settings, error, [f"{self._totals()}; continue with --resume"])
            raise

    async def _main(self) -> None:
        from rmqcli.client import Producer, PullConsumer
        from rmqcli.render.progress import progress

        options = self._target.producer_options
        async with (
            PullConsumer(**self._settings.client_options) as source,
            Producer("rmq-copy", allow_empty=True, **options) as sink,
            PullConsumer(instance=sink.instance) as tail,
        ):
            queues, ends, copier = await self._planned(source, sink, tail)
            await tail.message_queues(self._job.to_topic)  # a producer would create the topic
            left = [
                end - self._done.state.sources[queue].next for queue, end in ends.items() if end is not None
            ]
            with progress(f"copy to {self._job.to_topic}", sum(left) if left else None) as copier.advance:
                await copier.prepare(queues)
                self._copier = copier
                if copier.found:
                    note(f"{many(copier.found, 'message')} of an interrupted run found, not sent again")
                await copier.run(ends)

    async def _planned(
        self, source: PullConsumer, sink: Any, tail: PullConsumer
    ) -> tuple[list[MessageQueue], dict[MessageQueue, int | None], Copier]:
        from dataclasses import replace

        from rmqcli.copying.copier import Copier
        from rmqcli.copying.progress import Source
        from rmqcli.flows.reading import choose_queues, reachable_spans
        from rmqcli.flows.sql_reading import filtered

        job, sources = self._job, self._done.state.sources
        queues = await choose_queues(source, job.topic)
        reader, expression, lost = await filtered(source, queues, job.tag, job.where)
        spans, failures = await reachable_spans(reader, queues, self._plan.wanted, lost)
        self._missing = {queue.broker_name: error for queue, error in failures.items()}
        ends: dict[MessageQueue, int | None] = {}
        for queue, begin, end in spans:
            known = sources.setdefault(queue, Source(queue.broker_name, queue.queue_id, begin, begin))
            # The last offset of a range of times is not exact.
            least = known.next if self._plan.wanted.end_time is not None else end
            ends[queue] = None if self._plan.follow else max(end, least)
        note_to_person(
            self._settings,
            f"copying {job.topic} to {job.to_topic} at {job.to_namesrv}: {many(len(ends), 'queue')}"
            + (f"; progress in {self._done.path}" if self._done.path else ""),
        )
        plan = replace(self._plan, expression=expression)
        return queues, ends, Copier(reader, sink, tail, self._done, plan)

    def report(self) -> None:
        """Print what was copied, and end with an exit code other than 0 if not all was."""
        copier = self._copier
        assert copier is not None
        self._show(copier)
        failures: dict[str, Exception | str] = dict(self._missing)
        failures |= {
            f"{queue.broker_name}:{queue.queue_id}": error for queue, error in copier.stopped.items()
        }
        if copier.statuses:
            kinds = ", ".join(f"{count:,} {name}" for name, count in sorted(copier.statuses.items()))
            warn(f"stored by the target, but not flushed or replicated in time: {kinds}")
        if copier.missing:
            failures["missing"] = f"{many(copier.missing, 'message')} deleted before they could be copied"
        done = bool(
            copier.sent or copier.found or any(one.copied for one in self._done.state.sources.values())
        )
        end_partly(failures, done=done)

    def _total(self, name: str) -> int:
        return sum(getattr(one, name) for one in self._done.state.sources.values())

    def _totals(self) -> str:
        more = [
            f", {self._total(name):,} {name}"
            for name in ("filtered", "missing", "twice")
            if self._total(name)
        ]
        return f"{many(self._total('copied'), 'message')} copied{''.join(more)}"

    def _show(self, copier: Copier) -> None:
        from msgspec import to_builtins

        from rmqcli.render import Output
        from rmqcli.render.table import objects, show_rows

        columns, job = _columns(), self._job
        sources = [one for _, one in sorted(self._done.state.sources.items())]
        if self._settings.json:
            targets = [{"targets": [to_builtins(one) for one in source.targets]} for source in sources]
            rows = objects(columns[:8], (_row(source)[:8] for source in sources))
            Output().json(
                {
                    "topic": job.topic,
                    "toTopic": job.to_topic,
                    "toNamesrv": job.to_namesrv,
                    "dryRun": self._plan.dry_run,
                    **{name: self._total(name) for name in ("copied", "filtered", "missing", "twice")},
                    "sent": copier.sent,
                    "found": copier.found,
                    "progress": None if self._done.path is None else str(self._done.path),
                    "queues": [row | more for row, more in zip(rows, targets, strict=True)],
                }
            )
            return
        hidden = [name for name in ("filtered", "missing", "twice") if not self._total(name)]
        hidden += ("first", "last") if self._plan.dry_run else ()
        show_rows(self._settings, columns, [_row(source) for source in sources], hidden=hidden)
        would = "would be " if self._plan.dry_run else ""
        note(f"{job.topic} to {job.to_topic}: {self._totals().replace('copied', f'{would}copied', 1)}")


def _columns() -> Sequence[Column]:
    from rmqcli.render.table import BROKER, QUEUE, Column

    numbers = ("begin", "next", "copied", "filtered", "missing", "twice")
    return (
        *(BROKER, QUEUE),
        *(Column(name.upper(), name, number=True) for name in numbers),
        *(
            Column("TARGET", "target"),
            Column("FIRST", "first", number=True),
            Column("LAST", "last", number=True),
        ),
    )


def _row(source: Source) -> list[Any]:
    """Return the values of the columns."""
    head = [source.broker_name, source.queue_id, source.begin, source.next]
    counts = [source.copied, source.filtered, source.missing, source.twice]
    # The offsets in the target are those of the only queue there.
    if len(source.targets) != 1:
        places = many(len(source.targets), "queue") if source.targets else None
        return [*head, *counts, places, None, None]
    (landing,) = source.targets
    return [*head, *counts, f"{landing.broker_name}:{landing.queue_id}", landing.first, landing.last]
