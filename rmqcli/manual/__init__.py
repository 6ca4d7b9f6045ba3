"""Man pages and shell completions, generated from the command tree: `python -m rmqcli.manual` writes `man/`
and `completions/`.

The content depends only on the tree, not on the date or the machine, so that it can be checked in and
compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rmqcli.manual.completions import completions
from rmqcli.manual.pages import command_nodes, man_pages


def generated_files(root: Path) -> Mapping[Path, str]:
    """Return path (below the project's root) and content of every generated file."""
    nodes = command_nodes()
    pages = {Path("man") / name: text for name, text in man_pages(nodes).items()}
    scripts = completions(root / "completions", nodes)
    return pages | {Path("completions") / name: text for name, text in scripts.items()}
