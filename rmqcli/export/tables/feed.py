"""A change feed: an export to a table again and again, each run one commit if there is anything new."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn

from rmqcli.client import ClientError, InvalidRequest, NotPermitted
from rmqcli.export.from_topic.retrying import first_error
from rmqcli.export.run import ExportSummary

_HOPELESS = (InvalidRequest, NotPermitted)


def feed(
    add: Callable[[bool], ExportSummary],
    told: Callable[[ExportSummary], None],
    outage: Callable[[ClientError], None],
    *,
    every: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> NoReturn:
    """Call `add` every so many seconds, or at once if it took longer, and `told` with what it returns.

    `add` receives True when it goes on behind its own commit. After that, a cluster that does not answer ends
    nothing: `outage` is called, and the next run reads on. Raises other errors of `add`.
    """
    goes_on = False
    while True:
        began = clock()
        try:
            told(add(goes_on))
            goes_on = True
        except Exception as error:
            reason = first_error(error)
            if not goes_on or not isinstance(reason, ClientError) or isinstance(reason, _HOPELESS):
                raise
            outage(reason)
        sleep(max(0.0, began + every - clock()))
