"""The programme of power cuts and kills, seed by seed (`tests/crash/programme.py`): `--cuts` of them.

A seed that fails is printed with the command that replays it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.programme import ENDS, REPLAY, Programme, run

BLOCKS = 4


@pytest.mark.parametrize("block", range(BLOCKS))
def test_power_cuts(
    block: int, tmp_path: Path, request: pytest.FixtureRequest, show: Callable[[str], None]
) -> None:
    counts: Counter[str] = Counter()
    failures: list[str] = []
    for seed in range(block, request.config.getoption("--cuts") // ENDS, BLOCKS):
        try:
            counts += run(Programme(seed, tmp_path / str(seed)))
        except Exception as error:  # whatever a seed meets, the others are run, too
            failures.append(f"{REPLAY} {seed}  # {error!r}"[:300])
    show(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    assert not failures, f"{len(failures)} seeds fail:\n" + "\n".join(failures)
