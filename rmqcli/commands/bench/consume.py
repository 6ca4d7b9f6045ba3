"""`rmq bench consume`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.options import Masters
from rmqcli.cli.settings import Settings
from rmqcli.commands.bench.app import BenchOptions, app
from rmqcli.commands.bench.running import run_bench


@command(
    app,
    "consume",
    example="""rmq bench consume --rate 200
rmq bench consume -T orders -c 1000""",
)
def consume(settings: Settings, *, options: BenchOptions, masters: Masters) -> None:
    """Measure pulls: the time until a request for up to 32 messages returns them.

    The new topic gets up to 1,000 messages first. Queues are read again and again from their first message;
    no group is joined and no offset moves.

    Operations become due at --rate, whatever became of those before. Latency counts from the time at which
    an operation was due, service from its start; both leave out operations that failed, which are counted
    and named (exit code 3). Those that find no room before the end are counted as not started.

    With --compare the exit code is 1 if operations per second, failures or a percentile of the latency are
    worse by more than --tolerance. Piped output: times, done, failed, not started, minimum, median, 90th,
    99th and 99.9th percentile, maximum, in milliseconds. JSON has all buckets, in microseconds.
    """
    run_bench(settings, "consume", options, masters)
