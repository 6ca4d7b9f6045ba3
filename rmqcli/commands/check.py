"""`rmq check`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, TypeAlias

from typer import Argument, Option

from rmqcli.cli.command import command, command_group
from rmqcli.cli.errors import Judged
from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.cli.options import OptionGroup
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.doctor.survey import LostBroker
    from rmqcli.monitor.verdict import Limits, Measure, Measured, Verdict

    Work: TypeAlias = Callable[[Admin, Sequence[LostBroker]], Awaitable[Measured]]

UNKNOWN = ExitCode(3)
"""State UNKNOWN of Monitoring Plugins, also used for an invalid command line."""

app = command_group("check", "Check a cluster for Nagios, Icinga or Prometheus.", usage_code=UNKNOWN)

GroupsArgument = Annotated[
    list[str] | None, Argument(metavar="[GROUP]...", help="Consumer groups; default: all.")
]
BrokersOption = Annotated[
    list[str] | None, Option("--broker", "-b", metavar="NAME", help="Limit to this broker; repeatable.")
]
WarnOption = Annotated[
    str | None,
    Option("--warn", metavar="LIMITS", help="Warn outside these limits: MAX, MIN:, MIN:MAX, @MIN:MAX."),
]
CritOption = Annotated[str | None, Option("--crit", metavar="LIMITS", help="Critical outside these limits.")]
FormatOption = Annotated[str, Option("--format", "-f", metavar="NAME", help="nagios, prometheus or json.")]


@dataclass(frozen=True, slots=True)
class CheckOptions(OptionGroup):
    """Thresholds and form of a check."""

    warn: WarnOption = None
    crit: CritOption = None
    form: FormatOption = "nagios"

    def limits(self, warn: str | None, crit: str | None) -> Limits:
        """Return the given ranges, or these defaults where none is given."""
        from rmqcli.monitor.verdict import Limits, parse_threshold

        given = (self.warn, self.crit) if (self.warn, self.crit) != (None, None) else (warn, crit)
        return Limits(*(None if text is None else parse_threshold(text) for text in given))


def run_check(
    settings: Settings,
    options: CheckOptions,
    measure: Measure,
    work: Work,
    *,
    names: Collection[str] = (),
    expected: int = 0,
    warn: str | None = None,
    crit: str | None = None,
) -> None:
    """Measure, print the verdict and end with its state. Any error is reported as the state UNKNOWN with its
    text.

    `names` are the brokers that are checked if not all are, `expected` is the number of brokers that must be
    registered: if that many are, others that are no longer registered are forgotten.
    """
    from rmqcli.cli.errors import leaves, message_of, report
    from rmqcli.cli.remedies import remedy
    from rmqcli.client import NoBrokers
    from rmqcli.commands.common.lost_brokers import looked
    from rmqcli.doctor.survey import places_of
    from rmqcli.monitor.measures import with_gone
    from rmqcli.monitor.verdict import FORMATS, judge, unknown
    from rmqcli.render import Output

    form = "json" if settings.json else options.form
    try:
        if form not in FORMATS:
            raise usage_error(f"--format {form}: expected {', '.join(FORMATS)}")
        limits = options.limits(warn, crit)

        async def main(admin: Admin) -> Verdict:
            nobody, places, now_ms = None, {}, admin.instance.now_ms()
            try:
                places = places_of(await admin.brokers.cluster_info())
            except NoBrokers as error:
                nobody = error
            look = looked(settings, places, now_ms, names=names, expected=expected)
            if nobody is not None:
                details = [f"{one.label}: {one.told(now_ms)}" for one in look.gone]
                why = message_of(nobody) + remedy(nobody, settings).text
                return unknown(measure, why, measure.lost_state, [*details, *look.notes])
            found = await work(admin, look.gone)
            found = found if found.counted else with_gone(found, look.gone, now_ms)
            return judge(measure, replace(found, notes=[*found.notes, *look.notes]), limits)

        verdict: Verdict = with_admin(settings, main)
    except Exception as error:
        if settings.verbose:
            report(error, settings)
        first = next(leaves(error))
        verdict = unknown(measure, message_of(first) + remedy(first, settings).text)
    if form == "prometheus":
        _report_reasons(verdict)
    Output().line(FORMATS.get(form, FORMATS["nagios"])(verdict))
    raise Judged(int(verdict.state))


def _report_reasons(verdict: Verdict) -> None:
    """Report losses, and why there are no figures: the Prometheus format cannot contain reasons."""
    from rmqcli.render.output import warn

    for line in verdict.details or ([] if verdict.figures or not verdict.state else [verdict.text]):
        warn(line)


TopicOption = Annotated[str | None, Option("--topic", "-T", metavar="TOPIC", help="Limit to this topic.")]


@command(
    app,
    "lag",
    usage_code=UNKNOWN,
    example="""rmq check lag billing --warn 1000 --crit 10000
rmq check lag --crit 10000 --format prometheus""",
)
def lag(
    settings: Settings, *, groups: GroupsArgument = None, topic: TopicOption = None, options: CheckOptions
) -> None:
    """Check the lag of consumer groups: stored messages that they have not consumed.

    The exit code is that of a monitoring plug-in: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (a group that does
    not exist, a server that does not respond, an invalid command line).
    """
    from rmqcli.monitor.measures import LAG
    from rmqcli.monitor.measures import lag as measured

    run_check(settings, options, LAG, lambda admin, _: measured(admin, groups or (), topic))


ExpectOption = Annotated[
    int,
    Option(
        "--expect", metavar="N", min=0, help="Number of brokers, slaves included, that must be registered."
    ),
]


@command(
    app,
    "brokers",
    usage_code=UNKNOWN,
    example="rmq check brokers --expect 4\nrmq check brokers --warn 0 --crit 1",
)
def brokers(settings: Settings, *, expect: ExpectOption = 0, options: CheckOptions) -> None:
    """Check that all brokers respond; by default, one that does not is critical.

    A name server forgets a killed broker, so brokers of an earlier run count as lost for a day, unless as
    many are registered as --expect requires. Having no broker at all is critical. The exit code is that of a
    monitoring plug-in: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    """
    from rmqcli.monitor.measures import BROKERS
    from rmqcli.monitor.measures import brokers as measured

    run_check(
        settings,
        options,
        BROKERS,
        lambda admin, gone: measured(admin, expect, gone),
        expected=expect,
        crit="0",
    )


@command(
    app, "disk", usage_code=UNKNOWN, example="rmq check disk\nrmq check disk -b broker-a --warn 70 --crit 85"
)
def disk(settings: Settings, *, broker: BrokersOption = None, options: CheckOptions) -> None:
    """Check the disks of brokers, in percent used; by default 75 warns and 90 is critical.

    At 75 % Java's brokers delete messages early, at 90 % they refuse new ones. The exit code is that of a
    monitoring plug-in: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    """
    from rmqcli.monitor.measures import DISK
    from rmqcli.monitor.measures import disk as measured

    names = broker or ()
    run_check(
        settings, options, DISK, lambda admin, _: measured(admin, names), names=names, warn="75", crit="90"
    )


@command(app, "dlq", usage_code=UNKNOWN, example="rmq check dlq\nrmq check dlq billing --warn 10 --crit 1000")
def dlq(settings: Settings, *, groups: GroupsArgument = None, options: CheckOptions) -> None:
    """Check the number of dead letters of consumer groups; by default, one warns.

    The exit code is that of a monitoring plug-in: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    """
    from rmqcli.monitor.measures import DLQ
    from rmqcli.monitor.measures import dlq as measured

    run_check(settings, options, DLQ, lambda admin, _: measured(admin, groups or ()), warn="0")


@command(
    app, "stuck", usage_code=UNKNOWN, example="rmq check stuck\nrmq check stuck billing --warn 60 --crit 600"
)
def stuck(settings: Settings, *, groups: GroupsArgument = None, options: CheckOptions) -> None:
    """Check that the queues of consumer groups move while messages wait; by default 30 s warn, 120 s are critical.

    Measures the seconds since the owner of a queue last consumed, limited to the time that its next message
    has waited, so a quiet topic is not stuck. Without names, checks groups with running clients. rmq group
    check names the queues and their owners. The exit code is that of a monitoring plug-in: 0 OK, 1 WARNING, 2
    CRITICAL, 3 UNKNOWN.
    """
    from rmqcli.monitor.measures import STUCK
    from rmqcli.monitor.measures import stuck as measured

    run_check(
        settings,
        options,
        STUCK,
        lambda admin, _: measured(admin, groups or ()),
        warn="29",
        crit="119",
    )


ProbedTopicOption = Annotated[
    str | None, Option("--topic", "-T", metavar="TOPIC", help="Send to TOPIC, where consumers see it.")
]


@command(
    app, "send", usage_code=UNKNOWN, example="rmq check send --warn 100 --crit 1000\nrmq check send -T pings"
)
def send(
    settings: Settings,
    *,
    topic: ProbedTopicOption = None,
    broker: BrokersOption = None,
    options: CheckOptions,
) -> None:
    """Check that every master accepts a message, and how long that takes, in milliseconds.

    The messages go to the topic named after each broker, unless --topic names another one. A broker that
    refuses or does not respond is critical. The exit code is that of a monitoring plug-in: 0 OK, 1 WARNING, 2
    CRITICAL, 3 UNKNOWN.
    """
    from rmqcli.monitor.measures import SEND
    from rmqcli.monitor.measures import send as measured

    names = broker or ()
    run_check(settings, options, SEND, lambda admin, _: measured(admin, names, topic), names=names)
