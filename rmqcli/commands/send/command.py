"""`rmq send`: options and the flow of a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.cli.options import (
    BrokerOption,
    KeyOption,
    PropertyOption,
    RateOption,
    TagsOption,
    TopicArgument,
    TraceOption,
)
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.outcome import traces_outcome
from rmqcli.commands.send.later import AtOption, DelayOption, Later, LevelOption
from rmqcli.commands.send.transaction import CheckOption, Ending, TransactionOption, WaitOption

if TYPE_CHECKING:
    from rmqcli.commands.send.report import SendReport
    from rmqcli.flows.outgoing import Source

app = single_command()

_DEFAULT_CONCURRENCY = 32

BodyArgument = Annotated[
    str | None, Argument(metavar="BODY", help="Message body; default: standard input, one message per line.")
]
QueueOption = Annotated[
    int | None,
    Option("--queue", "-q", metavar="ID", min=0, help="Send to the queue ID of --broker, in order."),
]
FileOption = Annotated[
    list[Path] | None,
    Option("--file", metavar="PATH", help="Read messages from a file; repeatable; - is standard input."),
]
DelimiterOption = Annotated[
    str, Option("--delimiter", metavar="TEXT", help=r"Message separator; supports \n \t \0 \xNN.")
]
WholeOption = Annotated[bool, Option("--whole", help="Send the whole input, or each file, as one message.")]
JsonlOption = Annotated[bool, Option("--jsonl", help="Read JSON lines, as written by `rmq pull --json`.")]
OnewayOption = Annotated[bool, Option("--oneway", help="Do not wait for acknowledgements.")]
BatchOption = Annotated[
    int, Option("--batch", metavar="N", min=1, help="Send up to N messages in one request.")
]
ConcurrencyOption = Annotated[
    int | None,
    Option(
        "--concurrency",
        metavar="N",
        min=1,
        max=4096,
        show_default=False,
        help="Maximum requests in flight.  [default: 32; 1 with --queue, to keep the order]",
    ),
]
PriorityOption = Annotated[
    int | None,
    Option(
        "--priority",
        metavar="N",
        min=0,
        max=2**31 - 1,
        help="Priority for consumers that pop a topic of type PRIORITY (5.4): the queue, 7 the highest of 8.",
    ),
]


@command(
    app,
    "send",
    example="""rmq send orders 'hello' -k 42 -t paid -p source=cli
rmq send orders < lines.txt
rmq pull orders --json | rmq send copy --jsonl
rmq send files --whole --file a.bin --file b.bin
rmq send orders 'remind' --delay 90s
rmq send orders 'paid' --transaction commit
rmq send orders 'paid' --transaction unknown --check commit""",
    rows=Rows.LIST,
    panels={
        "Input": "--file --delimiter --whole --jsonl",
        "Delivery": "--delay-level --priority --oneway --batch --concurrency --rate",
        "Transactions": "--transaction --check --wait",
        "Tracing": "--trace",
    },
)
def send(
    topic: TopicArgument,
    settings: Settings,
    body: BodyArgument = None,
    key: KeyOption = None,
    tag: TagsOption = None,
    prop: PropertyOption = None,
    queue: QueueOption = None,
    broker: BrokerOption = None,
    delay_level: LevelOption = None,
    delay: DelayOption = None,
    at: AtOption = None,
    priority: PriorityOption = None,
    file: FileOption = None,
    delimiter: DelimiterOption = "\\n",
    whole: WholeOption = False,
    jsonl: JsonlOption = False,
    oneway: OnewayOption = False,
    batch: BatchOption = 1,
    concurrency: ConcurrencyOption = None,
    rate: RateOption = None,
    transaction: TransactionOption = None,
    check: CheckOption = None,
    wait: WaitOption = None,
    trace: TraceOption = False,
) -> None:
    """Send messages to a topic.

    Input is sent as it arrives. A terminal shows a result for each message, or a summary of many; piped
    output: broker, queue, offset, message ID, status. If some messages fail, the others are sent, standard
    error names the failed lines, and the exit code is 3. A message whose broker did not respond counts as
    neither sent nor failed: it may be stored. Its status is UNKNOWN, and the exit code is 7.

    With --check, the command waits until every half message is decided and reports each check on standard
    error. The exit code is 7 if --wait expires first.
    """
    from rmqcli.cli.logs import client_log
    from rmqcli.flows.outgoing import Stamp, jobs_of
    from rmqcli.flows.sending import Sender, SendPlan
    from rmqcli.grammar.values import unescape

    later = Later.of(delay_level, delay, at)
    stamp = Stamp.of(topic, key or [], tag, prop or [], priority)
    if priority is not None and (batch > 1 or queue is not None):
        raise usage_error("--priority, which is the queue, cannot be combined with --queue or --batch")
    if not delimiter:
        raise usage_error("--delimiter must not be empty; use --whole to send the input as one message")
    sources = _sources(body, file or [], whole=whole, jsonl=jsonl)
    cut = None if whole else unescape("--delimiter", delimiter)
    in_flight = concurrency or (1 if queue is not None else _DEFAULT_CONCURRENCY)
    unit = None if body is not None else "message" if whole or cut != b"\n" else "line"
    ending = Ending(transaction, check, wait)
    ending.verify(
        **{"--oneway": oneway, "--batch": batch > 1, "--queue": queue is not None, "--broker": broker},
        **{"--delay-level": delay_level, "--delay": delay, "--at": at},
    )

    async def main() -> tuple[SendReport, ExitCode]:
        nonlocal stamp
        import trio

        from rmqcli.client import Producer
        from rmqcli.commands.send.report import SendReport
        from rmqcli.flows.reading import queues_to_send_to

        options = {"allow_empty": True, "trace": trace, "trace_waits": True} | settings.producer_options
        transacting = ending.target(**options)
        producer = Producer(**options) if transacting is None else transacting.producer
        async with producer:
            queues = []
            if queue is not None or broker is not None:
                there = await producer.message_queues(topic)
                queues = queues_to_send_to(there, topic, broker, queue)
            stamp = await later.stamped(stamp, producer, queues)
            start = trio.current_time()
            with _progress(settings, topic, sources, cut) as advance:
                report = SendReport(settings, topic, unit, advance)
                sender = Sender(
                    transacting or producer, SendPlan(in_flight, batch, oneway, rate, queues), report.sent
                )
                try:
                    tally = await sender.run(jobs_of(sources, stamp, cut, jsonl=jsonl))
                except BaseException as error:  # Ctrl-C, or a failure of the input
                    report.interrupted(error, sender.tally)
                    raise
            code = report.finish(tally, trio.current_time() - start, oneway=oneway)
            if transacting is not None:
                settled = await ending.settle(transacting)
                code = code or settled
        untraced = traces_outcome(producer)
        return report, code or untraced

    _hint_for_terminal(body, file)
    with client_log(verbose=settings.verbose):
        report, code = run_async(main)
    raise report.ended(code)


def _sources(body: str | None, files: Sequence[Path], *, whole: bool, jsonl: bool) -> list[Source]:
    """Return the sources of messages; raise a usage error if the options contradict each other."""
    from rmqcli.flows.outgoing import STDIN

    if body is not None and (files or whole):
        raise usage_error("BODY cannot be combined with --file or --whole")
    if jsonl and whole:
        raise usage_error("--jsonl and --whole cannot be combined")
    if jsonl and body is not None and body[:1] != "{":
        raise usage_error(
            f"--jsonl reads lines of standard input or a file, and {body!r} is a body; did you mean --file {body}?"
        )
    if body is not None:
        return [os.fsencode(body)]
    if not files and sys.stdin is None:
        raise usage_error("standard input is closed: specify BODY or --file")
    return list(files) or [STDIN]


def _progress(
    settings: Settings, topic: str, sources: Sequence[Source], cut: bytes | None
) -> AbstractContextManager[Callable[[int], None]]:
    """Return the bar, with a total for files; nothing that would break up lines on the same terminal."""
    from rmqcli.flows.outgoing import STDIN, count_pieces
    from rmqcli.render.progress import progress

    files = [source for source in sources if isinstance(source, Path)]
    typed = STDIN in files and os.isatty(0)
    if not files or typed or (settings.json and settings.tty) or not sys.stderr.isatty():
        return progress(topic, quiet=True)
    counts = [None if file == STDIN else count_pieces(file, cut) for file in files]
    return progress(topic, None if None in counts else sum(filter(None, counts)))


def _hint_for_terminal(body: str | None, file: list[Path] | None) -> None:
    if body is None and not file and os.isatty(0) and sys.stderr.isatty():
        from rmqcli.render.output import note

        note("rmq: enter one message per line; Ctrl-D to end")
