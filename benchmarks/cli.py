"""Wall time of command lines, from process start to end: alternating rounds, best of many.

All run from compiled bytecode, as an installed package does. The bytecode is in a folder of this run, so that
neither a checkout nor PYTHONDONTWRITEBYTECODE makes Python compile our modules, and only ours, at each start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks.harness import Measured, best_of, cluster

ROUNDS = 15

TWO_COMMANDS = """
import typer

app = typer.Typer()


@app.command()
def one(name: str, count: int = typer.Option(1, help="How often.")) -> None:
    "The first."


@app.command()
def two(name: str) -> None:
    "The second."


app()
"""


def with_bytecode(folder: Path) -> dict[str, str]:
    """Environment with a bytecode cache in `folder`, which the first round fills."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(folder)}


def command(*arguments: str, env: Mapping[str, str]) -> Callable[[], object]:
    """Run one process to its end. CalledProcessError when it fails."""
    return partial(
        subprocess.run,
        arguments,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=env,
    )


def script() -> list[str]:
    """Command for the installed script beside this Python, or else for the module."""
    installed = Path(sys.executable).with_name("rmq")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "rmqcli"]


def cli() -> Iterator[Measured]:
    """`rmq --version`, `rmq --help` and `rmq topic list` against what typer alone costs."""
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        app = Path(folder) / "two.py"
        app.write_text(TWO_COMMANDS)
        run = partial(command, env=with_bytecode(Path(folder) / "bytecode"))
        rmq = partial(run, *script())
        importing, version, two, help_text, topics = best_of(
            run(sys.executable, "-c", "import typer"),
            rmq("--version"),
            run(sys.executable, str(app), "--help"),
            rmq("--help"),
            rmq("topic", "list", "-n", up["namesrv"]),
            rounds=ROUNDS,
        )
    typer = "python -c 'import typer'"
    yield Measured(typer, importing * 1000, "ms")
    yield Measured("rmq --version", version * 1000, "ms", version / importing, typer, "1.3")
    yield Measured("help of a typer app of two commands", two * 1000, "ms", two / importing, typer)
    yield Measured("rmq --help", help_text * 1000, "ms", help_text / two, "the help of two commands", "1.3")
    yield Measured("rmq topic list, a running broker", topics * 1000, "ms", topics / importing, typer, "4")
