"""`rmq bench e2e`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.options import Masters
from rmqcli.cli.settings import Settings
from rmqcli.commands.bench.app import BenchOptions, app
from rmqcli.commands.bench.running import run_bench


@command(
    app,
    "e2e",
    example="""rmq bench e2e --rate 500
rmq bench e2e --seconds 60 --size 4096 -b broker-a""",
)
def e2e(settings: Settings, *, options: BenchOptions, masters: Masters) -> None:
    """Measure round trips: the time from when a message was due to be sent until it has arrived.

    Every queue is read by a long poll, without a group. A message that does not arrive within the time limit
    of a request (--timeout) after it was stored has failed.

    Operations become due at --rate, whatever became of those before. Latency counts from the time at which
    an operation was due, service from its start; both leave out operations that failed, which are counted
    and named (exit code 3). Those that find no room before the end are counted as not started.

    With --compare the exit code is 1 if operations per second, failures or a percentile of the latency are
    worse by more than --tolerance. Piped output: times, done, failed, not started, minimum, median, 90th,
    99th and 99.9th percentile, maximum, in milliseconds. JSON has all buckets, in microseconds.
    """
    run_bench(settings, "e2e", options, masters)
