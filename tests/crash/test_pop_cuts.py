"""The programme of power cuts and kills for POP, seed by seed (`tests/crash/pops.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.crash.pops import Pops
from tests.crash.programme import run
from tests.seeds import times


@pytest.mark.parametrize(("first", "few"), [(1, 1), (40, 10)])
def test_what_is_acknowledged_does_not_return_and_nothing_else_is_lost(
    first: int, few: int, show: Callable[[str], None]
) -> None:
    counts: Counter[str] = Counter()
    failures: list[str] = []
    for seed in range(first, first + times(few)):
        try:
            counts += run(Pops(seed))
        except Exception as error:  # whatever a seed meets, the others are run, too
            failures.append(f".venv/bin/python -m tests.crash.pops {seed}  # {error!r}"[:300])
    show(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    assert not failures, f"{len(failures)} seeds fail:\n" + "\n".join(failures)
