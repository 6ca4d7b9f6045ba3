"""`rmq bench send`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.options import Masters
from rmqcli.cli.settings import Settings
from rmqcli.commands.bench.app import BenchOptions, app
from rmqcli.commands.bench.running import run_bench


@command(
    app,
    "send",
    example="""rmq bench send
rmq bench send --rate 5000 --seconds 30 --size 1024 --json > before.json
rmq bench send --seconds 30 --compare before.json --tolerance 20""",
)
def send(settings: Settings, *, options: BenchOptions, masters: Masters) -> None:
    """Measure sends: the time until the broker acknowledges a message.

    Messages go to the queues of all chosen brokers in turn, one attempt each, not compressed.

    Operations become due at --rate, whatever became of those before. Latency counts from the time at which
    an operation was due, service from its start; both leave out operations that failed, which are counted
    and named (exit code 3). Those that find no room before the end are counted as not started.

    With --compare the exit code is 1 if operations per second, failures or a percentile of the latency are
    worse by more than --tolerance. Piped output: times, done, failed, not started, minimum, median, 90th,
    99th and 99.9th percentile, maximum, in milliseconds. JSON has all buckets, in microseconds.
    """
    run_bench(settings, "send", options, masters)
