"""Reports the results of `rmq send`.

A pipe gets a JSON or TSV line for each acknowledged message as it arrives; a terminal gets a table at the
end, or a summary of many messages. Standard error names every failed line. Sending continues when the results
can no longer be written, e.g. because the reader of the pipe has gone (`| head -1`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rmqcli.cli.errors import Ended, exit_code_of
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.remedies import remedy
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.outcome import partial_code, say_done
from rmqcli.flows.errors import NotAttempted
from rmqcli.flows.sending import Acknowledged, InDoubt, Tally
from rmqcli.render.output import Output, json_line, note, warn
from rmqcli.render.table import BROKER, QUEUE, Column, show_table
from rmqcli.render.text import duration, many, number_ranges, size

UNKNOWN = "UNKNOWN"  # instead of a SendStatus: the broker did not respond
NAMED = 5  # ids on standard error of messages that may be stored; all are on standard output
Hint = Callable[[Exception], str]
"""Returns the remedy for an error, or an empty text."""
SHOWN = 20  # results listed one by one on a terminal; more are summarized

_COLUMNS = (
    BROKER,
    QUEUE,
    Column("OFFSET", "queueOffset", number=True),
    Column("MESSAGE ID", "msgId", whole=True),
    Column("STATUS", "status"),
)
_MEMBERS = ("msgId", "brokerName", "queueId", "queueOffset", "offsetMsgId", "status", "recallHandle")


class SendReport:
    """Collects and prints results."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        unit: str | None = None,
        advance: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Start without results. `unit` is what the numbers of the input count; None: there is one message."""
        self._settings = settings
        self._topic = topic
        self._unit = unit
        self._advance = advance
        self._output = Output()
        default = _MEMBERS if settings.json else [column.key for column in _COLUMNS]
        self._names = settings.rows.names(_MEMBERS, default)
        self._heads = [] if settings.json else settings.rows.head(self._names)
        self._first: list[Acknowledged] = []
        self._unwritable: OSError | None = None
        self._reasons: Callable[[Hint], Iterator[str]] = lambda hint: iter(())

    def sent(self, item: Acknowledged) -> None:
        """Record one acknowledged message."""
        self._advance(1)
        if self._settings.terminal and not self._settings.json:
            self._first += [item] if len(self._first) <= SHOWN else []
        else:
            self._write(item)

    def _write(self, item: Acknowledged | InDoubt) -> None:
        if self._unwritable is not None:
            return
        try:
            if self._heads:
                self._output.line(self._heads.pop())
            found = {name: value for name, value in _as_json(item).items() if name in self._names}
            values = [found[name] for name in self._names]
            form = self._settings.rows
            self._output.line(json_line(found) if self._settings.json else form.line(values))
            self._output.flush()
        except OSError as error:
            self._unwritable = error

    def interrupted(self, error: BaseException, tally: Tally) -> None:
        """Report what was sent before Ctrl-C or a failure of the input, and how to send the rest.

        The caller then raises the error again.
        """
        say_done(self._settings, error, list(_interrupted(tally, self._topic, self._unit)))

    def finish(self, tally: Tally, seconds: float, *, oneway: bool) -> ExitCode:
        """Print the summary and the unknown results, and return the exit code. `ended` reports why messages
        were not sent.
        """
        if self._settings.terminal and not self._settings.json:
            self._show(tally, seconds, oneway=oneway)
        elif self._settings.verbose:
            warn(_summary(tally, seconds, oneway=oneway))
        self._write_all(tally.unknown)
        self._reasons = partial(_reasons, tally, self._topic, self._unit)
        code = _code(tally)
        if self._unwritable is None or isinstance(self._unwritable, BrokenPipeError):
            return code
        warn(f"cannot write the results: {self._unwritable.strerror}; sending continued")
        return code or ExitCode.FAILED

    def ended(self, code: ExitCode) -> Ended:
        """Return the exception that ends the command: why messages were not sent, and remedies, for which the
        cluster is queried again.
        """
        names: list[str] = []

        def hint(error: Exception) -> str:
            found = remedy(error, self._settings)
            names.extend(found.names)
            return found.text

        return Ended(code, list(self._reasons(hint)), names=tuple(dict.fromkeys(names)))

    def _write_all(self, unknown: Sequence[InDoubt]) -> None:
        if self._settings.json or not self._settings.terminal:
            for item in unknown:
                self._write(item)

    def _show(self, tally: Tally, seconds: float, *, oneway: bool) -> None:
        if self._first and len(self._first) <= SHOWN:
            show_table(self._settings, _COLUMNS, [_row(item) for item in self._first])
            if len(self._first) == 1 and (handle := self._first[0].recall_handle) is not None:
                note(f"until it is due: rmq recall {handle}")
        elif tally.sent:
            note(_summary(tally, seconds, oneway=oneway))


def _row(item: Acknowledged | InDoubt) -> list[object]:
    if isinstance(item, InDoubt):
        return [None, None, None, item.msg_id, UNKNOWN]
    return [item.queue.broker_name, item.queue.queue_id, item.queue_offset, item.msg_id, item.status]


def _as_json(item: Acknowledged | InDoubt) -> dict[str, object]:
    broker, queue_id, offset, msg_id, status = _row(item)
    return {
        "msgId": msg_id,
        "brokerName": broker,
        "queueId": queue_id,
        "queueOffset": offset,
        "offsetMsgId": None if isinstance(item, InDoubt) else item.offset_msg_id,
        "status": status,
        "recallHandle": None if isinstance(item, InDoubt) else item.recall_handle,
    }


def _summary(tally: Tally, seconds: float, *, oneway: bool) -> str:
    done = "sent without acknowledgement" if oneway else "sent"
    rate = f"{tally.sent / seconds:,.0f}/s" if seconds > 0 else ""
    return f"{many(tally.sent, 'message')} {done} ({size(tally.size)}) in {duration(seconds)}, {rate}"


def _reasons(tally: Tally, topic: str, unit: str | None, hint: Hint = lambda error: "") -> Iterator[str]:
    """Yield the reasons why messages were not sent, each with its hint."""
    for words, failures in (
        ("not sent", tally.failed),
        ("outcome unknown", [(item.number, item.error) for item in tally.unknown]),
    ):
        reasons: dict[str, tuple[Exception, list[int]]] = {}
        for number, error in failures:
            reasons.setdefault(" ".join(str(error).split()), (error, []))[1].append(number)
        for reason, (error, numbers) in reasons.items():
            yield f"{words}: {_place(unit, numbers)}{reason}{hint(error)}"
    if tally.unknown:
        said = f"{_may_be_stored(tally.unknown)}; look before you send again: "
        yield f"{said}rmq query {topic} --id {tally.unknown[0].msg_id}"
    if tally.stopped and unit is not None:
        yield f"stopped: input after {unit} {tally.last} was not sent"
    if (tally.sent and tally.failed) or (tally.unknown and unit is not None):
        yield _counts(tally)


def _may_be_stored(unknown: Sequence[InDoubt]) -> str:
    first = ", ".join(item.msg_id for item in unknown[:NAMED])
    more = f" and {many(len(unknown) - NAMED, 'other')}" if len(unknown) > NAMED else ""
    return f"{first}{more} may be stored"


def _counts(tally: Tally) -> str:
    unknown = f", {len(tally.unknown)} unknown" if tally.unknown else ""
    return f"{tally.sent} sent, {len(tally.failed)} failed{unknown}"


def _code(tally: Tally) -> ExitCode:
    if tally.unknown:
        return ExitCode.TIMED_OUT
    if not tally.failed:
        return ExitCode.DONE
    return partial_code(done=tally.sent > 0, code=_first_code(tally))


def _place(unit: str | None, numbers: Sequence[int]) -> str:
    if unit is None:
        return ""
    return f"{unit}{'' if len(numbers) == 1 else 's'} {number_ranges(numbers)}: "


def _first_code(tally: Tally) -> ExitCode:
    attempted = [error for _, error in tally.failed if not isinstance(error, NotAttempted)]
    return exit_code_of((attempted or [tally.failed[0][1]])[0])


def _interrupted(tally: Tally, topic: str, unit: str | None) -> Iterator[str]:
    """Yield lines on what was sent and how to send the rest."""
    if not tally.read:
        return
    yield from _reasons(tally, topic, unit)
    if unit is None:
        yield f"interrupted: {_counts(tally)}"
        return
    rest = tally.untried[0] if tally.untried else tally.last + 1
    how = f"; continue with: tail -n +{rest} INPUT | rmq send {topic}" if unit == "line" else ""
    yield f"interrupted: {_counts(tally)}; {unit} {rest} and all after it were not sent{how}"
