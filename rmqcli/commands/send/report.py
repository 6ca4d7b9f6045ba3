"""Reports the results of `rmq send`.

A pipe gets a JSON or TSV line for each acknowledged message as it arrives; a terminal gets a table at the
end, or a summary of many messages. Standard error names every failed line. Sending continues when the results
can no longer be written, e.g. because the reader of the pipe has gone (`| head -1`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rmqcli.cli.errors import exit_code_of
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.outcome import partial_code
from rmqcli.flows.errors import NotAttempted
from rmqcli.flows.sending import Acknowledged, Tally
from rmqcli.render.columns import BROKER, QUEUE
from rmqcli.render.output import Output, warn
from rmqcli.render.table import Column, show_table
from rmqcli.render.text import duration, many, number_ranges, size, tsv_line

SHOWN = 20  # results listed one by one on a terminal; more are summarized

_COLUMNS = (
    BROKER,
    QUEUE,
    Column("OFFSET", "queueOffset", number=True),
    Column("MESSAGE ID", "msgId"),
    Column("STATUS", "status"),
)


class SendReport:
    """Collects and prints results."""

    def __init__(self, settings: Settings, advance: Callable[[int], None] = lambda count: None) -> None:
        self._settings = settings
        self._advance = advance
        self._output = Output()
        self._first: list[Acknowledged] = []
        self._unwritable: OSError | None = None

    def sent(self, item: Acknowledged) -> None:
        """Record one acknowledged message."""
        self._advance(1)
        if self._settings.terminal and not self._settings.json:
            self._first += [item] if len(self._first) <= SHOWN else []
        elif self._unwritable is None:
            try:
                self._write(item)
            except OSError as error:
                self._unwritable = error

    def _write(self, item: Acknowledged) -> None:
        if self._settings.json:
            self._output.json(_as_json(item))
        else:
            self._output.line(tsv_line(_row(item)))
        self._output.flush()

    def finish(self, tally: Tally, seconds: float, *, oneway: bool, unit: str | None) -> ExitCode:
        """Print the summary and failures by `unit` of the input (None: one message); return the exit code."""
        if self._settings.terminal and not self._settings.json:
            self._show(tally, seconds, oneway=oneway)
        elif self._settings.verbose:
            warn(_summary(tally, seconds, oneway=oneway))
        code = _report_failures(tally, unit) if tally.failed else ExitCode.DONE
        if self._unwritable is None or isinstance(self._unwritable, BrokenPipeError):
            return code
        warn(f"cannot write the results: {self._unwritable.strerror}; sending continued")
        return code or ExitCode.FAILED

    def _show(self, tally: Tally, seconds: float, *, oneway: bool) -> None:
        if self._first and len(self._first) <= SHOWN:
            show_table(self._settings, _COLUMNS, [_row(item) for item in self._first])
        elif tally.sent:
            self._output.line(_summary(tally, seconds, oneway=oneway))


def _row(item: Acknowledged) -> list[object]:
    return [item.queue.broker_name, item.queue.queue_id, item.queue_offset, item.msg_id, item.status]


def _as_json(item: Acknowledged) -> dict[str, object]:
    return {
        "msgId": item.msg_id,
        "brokerName": item.queue.broker_name,
        "queueId": item.queue.queue_id,
        "queueOffset": item.queue_offset,
        "offsetMsgId": item.offset_msg_id,
        "status": item.status,
    }


def _summary(tally: Tally, seconds: float, *, oneway: bool) -> str:
    done = "sent without acknowledgement" if oneway else "sent"
    rate = f"{tally.sent / seconds:,.0f}/s" if seconds > 0 else ""
    return f"{many(tally.sent, 'message')} {done} ({size(tally.size)}) in {duration(seconds)}, {rate}"


def _report_failures(tally: Tally, unit: str | None) -> ExitCode:
    reasons: dict[str, list[int]] = {}
    for number, error in tally.failed:
        reasons.setdefault(" ".join(str(error).split()), []).append(number)
    for reason, numbers in reasons.items():
        warn(f"not sent: {_place(unit, numbers)}{reason}")
    if tally.stopped and unit is not None:
        warn(f"stopped: input after {unit} {tally.last} was not sent")
    if tally.sent:
        warn(f"{tally.sent} sent, {len(tally.failed)} failed")
    return partial_code(done=tally.sent > 0, code=_first_code(tally))


def _place(unit: str | None, numbers: Sequence[int]) -> str:
    if unit is None:
        return ""
    return f"{unit}{'' if len(numbers) == 1 else 's'} {number_ranges(numbers)}: "


def _first_code(tally: Tally) -> ExitCode:
    attempted = [error for _, error in tally.failed if not isinstance(error, NotAttempted)]
    return exit_code_of((attempted or [tally.failed[0][1]])[0])
