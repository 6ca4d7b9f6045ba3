"""The alert rules for Prometheus: they ask for metrics and labels that exist, and alert when they should."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.metrics.names import METRIC, known

RULES = Path(__file__).parents[2] / "docs" / "prometheus-rules.yml"
CASES = Path(__file__).with_name("prometheus-rules-test.yml")
LABEL = re.compile(r"\$labels\.(\w+)")


def test_all_that_they_ask_for_exists() -> None:
    metrics = known()
    _, *rules = RULES.read_text().split("- alert: ")
    assert len(rules) > 5
    for rule in rules:
        names = METRIC.findall(rule)
        assert names or "up{job=" in rule, rule
        assert metrics.keys() >= set(names), rule
        for name in names[:1]:  # those of the others are not kept
            assert set(LABEL.findall(rule)) <= set(metrics[name].labels), rule


def test_they_alert(tmp_path: Path) -> None:
    # `.ci/prepare` puts it beside Python.
    promtool = shutil.which("promtool", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if promtool is None:
        pytest.skip("needs promtool, of Debian's package prometheus")
    cases = tmp_path / "cases.yml"
    cases.write_text(CASES.read_text().replace("RULES", str(RULES)))
    done = subprocess.run([promtool, "test", "rules", cases], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
