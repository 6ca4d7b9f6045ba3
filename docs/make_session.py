"""Draws docs/session.svg, the picture in README.md, from a session with a real cluster: `python -m docs.make_session`.

The session runs on a terminal with colours; rich turns the text into SVG, set in the reader's own monospace font.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.docs.terminal import run_on_terminal
from tests.support import PATIENCE

PICTURE = Path(__file__).with_name("session.svg")
COLUMNS = 84
COMMANDS = (
    "rmq topic create orders --queues 2",
    """rmq send orders '{"id": 42}' -k order-42 -t paid -p shop=berlin""",
    "seq 1 1000 | rmq send orders --batch 100",
    r"rmq consume orders -g billing --from start -t paid --idle 3 -f '%k %h{shop} %v\n'",
    "rmq group describe billing -T orders",
    "rmq query orders --key order-42",
    "rmq offsets reset billing orders --to start --dry-run",
    "rmq inspect commitlog store -c 2",
)


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Run `rmq up` with its store under `folder`; yield the address of the name server."""
    command = [sys.executable, "-m", "rmqcli", "up", "--json", "--port", "0", "--namesrv-port", "0"]
    server = subprocess.Popen([*command, "--store", str(folder / "store")], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield json.loads(server.stdout.readline())["namesrv"]
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(PATIENCE)


def session() -> str:
    """Run the commands and return the terminal's text, with control sequences."""
    with tempfile.TemporaryDirectory() as name, cluster(Path(name)) as namesrv:
        settings = {
            "RMQ_NAMESRV": namesrv,
            "HOME": name,
            "XDG_STATE_HOME": name,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TERM": "xterm-256color",
            "COLUMNS": str(COLUMNS),
        }
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | settings
        return "".join(
            f"\x1b[1;32m$\x1b[0m {command}\n" + run_on_terminal(command, environment, Path(name), COLUMNS)
            for command in COMMANDS
        )


def draw(text: str) -> str:
    """Draws the text of a terminal as SVG."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text.rstrip("\n")), soft_wrap=True)
    return console.export_svg(title="rmq", theme=MONOKAI, code_format=FORMAT, unique_id="session")


FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""

if __name__ == "__main__":
    PICTURE.write_text(draw(session()))
