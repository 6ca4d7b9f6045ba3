"""`--watch[=SECONDS]`: results that are shown again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

from typer import Option

from rmqcli.cli.options import OPTIONAL_SECONDS
from rmqcli.cli.settings import Settings
from rmqcli.render.output import Output

WatchOption = Annotated[
    float | None,
    Option(
        "--watch",
        metavar=OPTIONAL_SECONDS,
        min=0.1,
        help="Show again every SECONDS (default: 2), until Ctrl-C.",
    ),
]
CLEAR = b"\x1b[H\x1b[2J"


def watched(settings: Settings, seconds: float | None, show: Callable[[], None]) -> None:
    """Call `show` once, or every `seconds`; a terminal is cleared before."""
    if seconds is None:
        show()
        return
    while True:
        if settings.terminal and not settings.json:
            Output().write(CLEAR)
        show()
        Output().flush()
        time.sleep(seconds)
