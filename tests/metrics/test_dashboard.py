"""The dashboard for Grafana asks for metrics and labels that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.metrics.names import METRIC, known

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana-dashboard.json"
LABELS = re.compile(r"\{\{(\w+)\}\}")


def targets() -> list[dict[str, Any]]:
    dashboard = json.loads(DASHBOARD.read_text())
    return [target for panel in dashboard["panels"] for target in panel["targets"]]


def test_all_that_it_asks_for_exists() -> None:
    metrics = known()
    assert len(targets()) > 10
    for target in targets():
        (name,) = METRIC.findall(target["expr"])
        assert set(LABELS.findall(target["legendFormat"])) <= set(metrics[name].labels), target
