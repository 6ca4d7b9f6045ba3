"""The group `rmq check`: options, and how a check ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, TypeAlias

from typer import Argument, Option

from rmqcli.cli.command import command_group
from rmqcli.cli.errors import Judged
from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.cli.option_groups import OptionGroup
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.doctor.seen import LostBroker
    from rmqcli.monitor.verdict import Limits, Measure, Measured, Verdict

    Work: TypeAlias = Callable[[Admin, Sequence[LostBroker]], Awaitable[Measured]]

UNKNOWN = ExitCode(3)
"""State UNKNOWN of Monitoring Plugins, also for a command line that is wrong."""

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
        from rmqcli.monitor.threshold import parse_threshold
        from rmqcli.monitor.verdict import Limits

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
    """Measure, print the verdict and end with its state; every error is a state UNKNOWN with its text.

    `names` are the brokers that are checked if not all are, `expected` is the number of those that must be
    there: if they are, brokers that are no longer registered are forgotten.
    """
    from rmqcli.cli.errors import leaves, message_of, report
    from rmqcli.cli.remedies import remedy
    from rmqcli.client import NoBrokers
    from rmqcli.commands.common.seen import looked
    from rmqcli.doctor.seen import places_of
    from rmqcli.monitor.formats import FORMATS
    from rmqcli.monitor.measures import with_gone
    from rmqcli.monitor.verdict import judge, unknown
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
    """Report losses, and why there are no figures: the form of Prometheus has no room for reasons."""
    from rmqcli.render.output import warn

    for line in verdict.details or ([] if verdict.figures or not verdict.state else [verdict.text]):
        warn(line)
