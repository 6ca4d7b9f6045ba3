"""`--watch[=SECONDS]`: results that are shown repeatedly."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from typing import Annotated, Any

from typer import Option

from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import CommandError
from rmqcli.cli.options import OPTIONAL_SECONDS
from rmqcli.cli.settings import Settings
from rmqcli.render.output import Output, note, warn

WatchOption = Annotated[
    float | None,
    Option(
        "--watch",
        metavar=OPTIONAL_SECONDS,
        min=0.1,
        help="Show again every SECONDS (default: 2), until Ctrl-C.",
    ),
]


def watchable(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--watch` to a command; this decorator is placed below `@command`."""
    signature = inspect.signature(function, eval_str=True)

    @functools.wraps(function)
    def repeated(*, watch: float | None = None, **values: Any) -> None:
        watched(values["settings"], watch, lambda: function(**values))

    option = inspect.Parameter("watch", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=WatchOption)
    parameters = [*signature.parameters.values(), option]
    repeated.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return repeated


CLEAR = b"\x1b[H\x1b[2J"


def watched(settings: Settings, seconds: float | None, show: Callable[[], None]) -> None:
    """Call `show` once, or every `seconds`, clearing a terminal before each call.

    A lost broker is reported and does not end the loop; after the first call, neither does an error.
    """
    if seconds is None:
        show()
        return
    shown = False
    while True:
        if settings.table and not settings.json:
            Output().write(CLEAR)
        _show_on(settings, show, shown)
        shown = True
        Output().flush()
        time.sleep(seconds)


def _show_on(settings: Settings, show: Callable[[], None], shown: bool) -> None:
    from rmqcli.client import ClientError

    try:
        show()
    except Ended as ended:
        for line in [ended.document()] if settings.json else [f"rmq: {reason}" for reason in ended.reasons]:
            note(line)
    except (ClientError, CommandError) as error:
        if not shown:
            raise
        warn(str(error))
