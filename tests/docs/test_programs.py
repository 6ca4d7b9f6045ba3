"""The programs of docs/programs print the same on trio, in threads and on asyncio."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rmqcli.broker import Cluster
from tests.support import PATIENCE

PROGRAMS = Path(__file__).parents[2] / "docs" / "programs"
STYLES = ("trio", "threads", "asyncio")
PRINTED = {
    "transactional_orders": """\
one book COMMIT_MESSAGE
too much ROLLBACK_MESSAGE
two pens COMMIT_MESSAGE
packed: ['one book', 'two pens']
""",
    "worker_with_retries": """\
('broken invoice', 0)
('broken invoice', 1)
('broken invoice', 2)
('invoice', 0)
""",
    "order_by_key": """\
anna [0, 1, 2, 3, 4]
bert [0, 1, 2, 3, 4]
cleo [0, 1, 2, 3, 4]
""",
    "broadcast": "one [10, 11, 12]\ntwo [10, 11, 12]\n",
    "batch_loader": "300 SEND_OK\n300 SEND_OK\n300 SEND_OK\n100 SEND_OK\nstored: 1000\n",
    "rpc": "1 2 3 = 6\n40 2 = 42\n",
    "reminders": "now came at once\nin a second waited\n",
    "many_sends": "sent: 1000\n",
}


@pytest.mark.parametrize("style", STYLES)
def test_each_program_is_here(style: str) -> None:
    assert sorted(path.stem for path in (PROGRAMS / style).glob("*.py")) == sorted(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
@pytest.mark.parametrize("style", STYLES)
def test_a_program(style: str, name: str, rmq_cluster: Cluster, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / style / f"{name}.py")],
        env=os.environ | {"RMQ_NAMESRV": rmq_cluster.namesrv, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.stdout, done.stderr, done.returncode) == (PRINTED[name], "", 0)
