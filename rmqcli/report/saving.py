"""The destination of a page: standard output, or a file that is replaced as a whole."""

from __future__ import annotations

from pathlib import Path

from rmqcli import files

STDOUT = Path("-")


def refuse_existing(out: Path, *, replace: bool) -> None:
    """Raise as `files.refuse_existing` does, never for standard output."""
    if out != STDOUT:
        files.refuse_existing(out, replace=replace)


def save(out: Path, page: bytes, *, replace: bool) -> None:
    """Write a file beside and rename it: nobody sees half a page, and an error leaves the old one."""
    refuse_existing(out, replace=replace)
    files.replace_file(out, page)
