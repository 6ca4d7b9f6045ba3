"""The group `rmq bench`, and options of its commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

from rmqcli.cli.command import command_group
from rmqcli.cli.option_groups import OptionGroup

app = command_group("bench", "Measure sends, pulls and round trips at a fixed rate.")

SECONDS = 10.0
MAX_SIZE = 4 * 1024 * 1024

RateOption = Annotated[
    float, Option("--rate", metavar="N", min=0.01, max=1e6, help="Operations per second that become due.")
]
SecondsOption = Annotated[
    float | None,
    Option(
        "--seconds",
        metavar="SECONDS",
        min=0.01,
        show_default=False,
        help="Start nothing after this time; default: 10, with --count no end.",
    ),
]
CountOption = Annotated[
    int | None, Option("--count", "-c", metavar="N", min=1, help="Stop after N operations.")
]
SizeOption = Annotated[
    int, Option("--size", metavar="BYTES", min=1, max=MAX_SIZE, help="Size of each message.")
]
InFlightOption = Annotated[
    int, Option("--in-flight", metavar="N", min=1, max=10_000, help="Operations at a time.")
]
TopicOption = Annotated[
    str | None,
    Option("--topic", "-T", metavar="TOPIC", help="Use TOPIC; default: a new one, which is removed."),
]
CompareOption = Annotated[
    Path | None,
    Option("--compare", metavar="FILE", help="Compare with an earlier output of --json."),
]
ToleranceOption = Annotated[
    float, Option("--tolerance", metavar="PERCENT", min=0, help="By how much a figure may be worse.")
]


@dataclass(frozen=True, slots=True)
class BenchOptions(OptionGroup):
    """The load and what becomes of its result."""

    rate: RateOption = 1000.0
    seconds: SecondsOption = None
    count: CountOption = None
    size: SizeOption = 128
    in_flight: InFlightOption = 64
    topic: TopicOption = None
    compare: CompareOption = None
    tolerance: ToleranceOption = 10.0
