"""Man pages and shell completions, generated from the command tree: `python -m rmqcli.manual` writes `man/`
and `completions/`.

The content depends only on the tree, not on the date or the machine, so that it can be checked in and
compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rmqcli.manual.bash import bash_completion
from rmqcli.manual.fish import fish_completion
from rmqcli.manual.pages import man_pages
from rmqcli.manual.tree import command_nodes
from rmqcli.manual.zsh import zsh_completion


def generated_files() -> Mapping[Path, str]:
    """Return path (below the project's root) and content of every generated file."""
    nodes = command_nodes()
    files = {Path("man") / name: text for name, text in man_pages(nodes).items()}
    files[Path("completions/rmq.bash")] = bash_completion(nodes)
    files[Path("completions/_rmq")] = zsh_completion(nodes)
    files[Path("completions/rmq.fish")] = fish_completion(nodes)
    return files
