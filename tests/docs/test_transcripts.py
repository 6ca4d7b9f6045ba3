"""Terminal sessions in README.md and docs/ are run against a cluster of their own and must print what they show.

In a ```console block a line `$ COMMAND` is run by bash, on a terminal of 80 columns without colours; the lines below it are what
it prints: `…` stands for any text in a line, a line that is only `…` for any lines. Standard error comes behind standard output.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, steps
from tests.docs.terminal import CONTROL, run_on_terminal
from tests.support import PATIENCE

PROGRAM = re.compile(r"^```python (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def environment(page: Path, tmp_path: Path, programs: Path) -> Iterator[dict[str, str]]:
    levels = "messageDelayLevel=" + " ".join(["1s"] * 18)
    command = [str(programs / "rmq"), "up", "--json", "--port", "0", "--namesrv-port", "0"]
    command += ["--store", str(tmp_path / "store"), "--set", levels, "--set", "enablePropertyFilter=true"]
    command += ["--set", "transactionCheckInterval=3600000"]  # a page may last longer than a minute
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert server.stdout is not None
    try:
        address = json.loads(server.stdout.readline())["namesrv"]
        binaries = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        settings = {
            "RMQ_NAMESRV": address,
            "STORE": str(tmp_path / "store"),
            "HOME": str(tmp_path),
            "PATH": binaries,
        }
        yield (
            os.environ
            | settings
            | {"NO_COLOR": "1", "COLUMNS": "80", "TERM": "xterm", "XDG_STATE_HOME": str(tmp_path)}
            | {"COLD": "broker" if "kill -STOP" in page.read_text() else ""}
        )
    finally:
        end_rest(tmp_path)
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE)


def end_rest(home: Path) -> None:
    """Kills what a page has started and, as it failed before its end, not ended."""
    for process in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended, or belongs to another user
            if process.name.isdigit() and b"HOME=%b" % bytes(home) in (
                (process / "environ").read_bytes().split(b"\0")
            ):
                os.kill(int(process.name), signal.SIGKILL)


def pattern(expected: list[str]) -> re.Pattern[str]:
    lines = [
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r" *\n" for line in expected
    ]
    return re.compile("".join(lines))


@pytest.mark.parametrize("page", [page for page in PAGES if steps(page)], ids=lambda page: page.name)
def test_a_session_prints_what_the_page_shows(
    page: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    for name, text in PROGRAM.findall(page.read_text()):
        (tmp_path / name).write_text(text)
    for command, expected in steps(page):
        printed = CONTROL.sub("", run_on_terminal(command, environment, tmp_path))
        assert pattern(expected).fullmatch(printed), (
            f"$ {command}\n--- shown:\n" + "\n".join(expected) + f"\n--- printed:\n{printed}"
        )


def test_the_readme_names_every_command() -> None:
    from rmqcli.cli.app import COMMANDS

    text = (ROOT / "README.md").read_text()
    assert [name for name in COMMANDS if f"rmq {name}" not in text] == []
