"""The dashboard for Grafana asks for metrics and labels that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rmqcli.metrics import families, runtime
from rmqcli.metrics.families import Family

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana-dashboard.json"
METRIC = re.compile(r"\b(?:rmq|rocketmq)_\w+")
LABELS = re.compile(r"\{\{(\w+)\}\}")


def known() -> dict[str, Family]:
    tables = [
        vars(families).values(),
        *(vars(runtime)[name].values() for name in ("_PLAIN", "_SPREAD_FAMILIES")),
    ]
    return {one.name: one for table in tables for one in table if isinstance(one, Family)}


def targets() -> list[dict[str, Any]]:
    dashboard = json.loads(DASHBOARD.read_text())
    return [target for panel in dashboard["panels"] for target in panel["targets"]]


def test_all_that_it_asks_for_exists() -> None:
    metrics = known()
    assert len(targets()) > 10
    for target in targets():
        (name,) = METRIC.findall(target["expr"])
        assert set(LABELS.findall(target["legendFormat"])) <= set(metrics[name].labels), target
