"""The metrics that `rmq metrics` has, and their names in a text."""

from __future__ import annotations

import re

from rmqcli.metrics import families, runtime
from rmqcli.metrics.families import Family

METRIC = re.compile(r"\b(?:rmq|rocketmq)_\w+")


def known() -> dict[str, Family]:
    tables = [
        vars(families).values(),
        *(vars(runtime)[name].values() for name in ("_PLAIN", "_SPREAD_FAMILIES")),
    ]
    return {one.name: one for table in tables for one in table if isinstance(one, Family)}
