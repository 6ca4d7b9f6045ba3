"""Outcomes other than success: declined confirmations, failures, and exit code 3, which is decided only here."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

from typer import Option

from rmqcli.cli.errors import Ended, exit_code_of, note_end
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.options import OptionGroup
from rmqcli.cli.settings import Settings
from rmqcli.render.output import Output, note, warn
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import ClientError, Producer, PushConsumer, TopicChange


T = TypeVar("T")
Failures: TypeAlias = "dict[str, ClientError]"
"""Errors by the name of the broker or the ID of the client."""


def partial_code(*, done: bool, code: ExitCode = ExitCode.FAILED) -> ExitCode:
    """Return 3 if anything succeeded (`done`), else `code`."""
    return ExitCode.PARTLY if done else code


def report_failures(*failures: Mapping[str, Exception | str]) -> None:
    """Report each failure by its name on standard error."""
    for table in failures:
        for name, error in table.items():
            warn(f"{name}: {error}")


def end_partly(
    *failures: Mapping[str, Exception | str], done: bool = True, code: ExitCode | None = None
) -> None:
    """Report each failure by its name and end with exit code 3; return if there is none.

    If nothing succeeded (`done` is false), the exit code is `code`, by default that of the first error.
    """
    found = [error for table in failures for error in table.values()]
    if found:
        first = found[0]
        code = code or (exit_code_of(first) if isinstance(first, Exception) else ExitCode.FAILED)
        named = [(name, str(error)) for table in failures for name, error in table.items()]
        by_name: dict[str, str] = {}
        for name, text in named:
            by_name[name] = f"{by_name[name]}; {text}" if name in by_name else text
        lines = [f"{name}: {text}" for name, text in named]
        raise Ended(partial_code(done=done, code=code), lines, by_name)


def say_done(settings: Settings, error: BaseException, lines: Sequence[str]) -> None:
    """Report what was done before an error or Ctrl-C, in the document of the error or as lines. The caller
    then raises the error again.
    """
    if settings.json:
        note_end(error, lines)
        return
    for line in lines:
        warn(line)


def confirm(
    settings: Settings, question: str, *, yes: bool, lost: Sequence[str] = (), readers: Sequence[str] = ()
) -> None:
    """Return if a change of the cluster is confirmed; else raise as `ask` does.

    The prompt names the cluster, what is `lost` and who reads it (`readers`: groups and clients). A protected
    cluster requires the name of its profile, typed or as `--confirm NAME`; `yes` is not enough.
    """
    from rmqcli.cli.endpoints import protecting

    endpoint = settings.endpoint
    guard, given = protecting(endpoint), settings.given.confirm
    if given is not None and given != (guard or endpoint.name):
        raise usage_error(f"--confirm {given}: this cluster is {guard or endpoint.label}")
    if given is not None or (yes and guard is None):
        return
    where = endpoint.label if guard is None else f"{guard} ({endpoint.namesrv}), which is protected"
    facts = {"cluster": where, "lost": "; ".join(lost), "read by": ", ".join(readers)}
    _ask(question, facts, wanted=guard, remedy="use --yes" if guard is None else f"use --confirm {guard}")


def ask(question: str, *, yes: bool) -> None:
    """Return after a yes on the terminal. Raise a usage error without a terminal, and CommandError after a
    no.
    """
    if not yes:
        _ask(question, {}, wanted=None, remedy="use --yes")


def agreed(question: str) -> bool:
    """Ask on the terminal, and return the answer."""
    from rmqcli.render.text import printable

    print(f"{printable(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return _is_yes(sys.stdin.readline())


def _is_yes(answer: str) -> bool:
    return answer.strip().lower() in ("y", "yes")


def _ask(question: str, facts: Mapping[str, str], *, wanted: str | None, remedy: str) -> None:
    from rmqcli.render.text import one_line, printable

    if sys.stdin is None or not sys.stdin.isatty():
        raise usage_error(f"{question.rstrip('?')}: no terminal to confirm on; {remedy}")
    for name, fact in facts.items():
        if fact:
            print(one_line(f"{name}: {fact}"), file=sys.stderr)
    prompt = "[y/N]" if wanted is None else f"Type {wanted} to confirm:"
    print(f"{printable(question)} {prompt} ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip()
    if answer != wanted if wanted is not None else not _is_yes(answer):
        raise CommandError("aborted: nothing was changed")


def show_change(
    settings: Settings,
    done: str,
    change: TopicChange,
    kept: Mapping[str, Sequence[str]] | None = None,
    existing: Sequence[str] | None = None,
) -> None:
    """Report the brokers that applied a change; end as `end_partly` does if some did not.

    `kept` holds topics that could not be deleted, by broker; `existing` the brokers that a creation left
    unchanged.
    """
    if settings.json:
        failures = {name: str(error) for name, error in change.failures.items()}
        extra = {
            name: table for name, table in (("keptTopics", kept), ("existing", existing)) if table is not None
        }
        Output().json({"brokers": list(change.brokers), "failures": failures} | extra)
    elif change.brokers:
        note(f"{done} {', '.join(change.brokers)}")
    still = {
        name: f"still has {' and '.join(topics)}; repeat the command when the broker responds"
        for name, topics in (kept or {}).items()
    }
    end_partly(change.failures, still, done=bool(change.brokers or existing))


async def of_existing(call: Awaitable[T]) -> T:
    """Return the result of `call`. Remove the remedy of its NotFound, which advises to create what is to be
    deleted.
    """
    from rmqcli.client import NotFound

    try:
        return await call
    except NotFound as error:
        raise error.without_remedy() from None


def traces_outcome(client: Producer | PushConsumer) -> ExitCode:
    """Return 3, and warn with the reason and the remedy, if `--trace` did not write all traces."""
    from rmqcli.client import NoRoute

    count, trouble = client.traces_dropped, client.trace_trouble
    if not count:
        return ExitCode.DONE
    if isinstance(trouble, NoRoute):
        why = f"topic {trouble.topic} not found (enable it with traceTopicEnable=true on the brokers)"
    else:
        why = "too many at once" if trouble is None else str(trouble)
    warn(f"{many(count, 'trace')} not written: {why}")
    return ExitCode.PARTLY


IfMissingOption = Annotated[
    bool, Option("--if-missing", help="Create it only on brokers that do not have it.")
]
ReplaceOption = Annotated[
    bool,
    Option("--replace", help="Overwrite an existing one; settings that are not given get their defaults."),
]


@dataclass(frozen=True, slots=True)
class Existing(OptionGroup):
    """Options of `create` for a topic or group that exists already."""

    if_missing: IfMissingOption = False
    replace: ReplaceOption = False

    def check(self) -> None:
        """Raise a usage error if both options are given."""
        if self.if_missing and self.replace:
            raise usage_error("--if-missing and --replace cannot be combined")

    def targets(
        self, what: str, update: str, masters: Collection[str], holders: Collection[str]
    ) -> list[str]:
        """Return the masters to create `what` on. Raise CommandError if some have it and no option was given."""
        held = sorted(set(masters) & set(holders))
        if self.replace or not held:
            return sorted(masters)
        if not self.if_missing:
            raise CommandError(
                f"{what} exists already on {', '.join(held)}: change settings with {update}, "
                "or use --if-missing or --replace"
            )
        return sorted(set(masters) - set(held))
