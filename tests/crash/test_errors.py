"""One call to the disk is refused, with each error, at each call of a session in turn: nothing that was
acknowledged is missing then, and the broker goes on, or refuses to start, and starts again on a disk that
works.
"""

from __future__ import annotations

import errno
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqcli.broker.testing.power_cut import Journal
from tests.crash.plan import Fault
from tests.crash.programme import Faulty, run

ERRORS = (errno.EIO, errno.ENOSPC, errno.EMFILE)
SEED = 12


@pytest.mark.parametrize("in_second", [False, True], ids=["", "after a recovery"])
@pytest.mark.parametrize("sync", [False, True], ids=["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.__getitem__)
def test_errors(
    error: int,
    sync: bool,
    in_second: bool,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    show: Callable[[str], None],
) -> None:
    logging.disable(logging.CRITICAL)  # pytest would keep what a broker says to each refusal
    request.addfinalizer(lambda: logging.disable(logging.NOTSET))
    step = request.config.getoption("--errors-step")
    counts: Counter[str] = Counter()
    failures: list[str] = []
    call = 1 + ERRORS.index(error) % step
    while True:
        journal = (None, *Journal)[call // step % 4]
        fault, folder = Fault(call, error), tmp_path / str(call)
        faulty = Faulty(SEED, folder, fault, sync=sync, journal=journal, in_second=in_second)
        try:
            found = run(faulty)
        except Exception as failure:  # the other calls are tried, too
            failures.append(f"call {call}, then {journal}: {failure!r}"[:400])
        else:
            counts += found
            if not found["refused calls"]:
                break
        call += step
    show(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    assert not failures, f"{len(failures)} calls fail:\n" + "\n".join(failures)
