"""Secrets that a command takes: from a file, standard input or the terminal, never as an argument."""

from __future__ import annotations

import sys
from pathlib import Path

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error


def read_secret(path: Path | None, what: str, option: str) -> str:
    """Return the first line of the file, of standard input (`-`), or of the input at a prompt on the
    terminal.

    Raise a usage error if there is no source or the line is empty, and CommandError if the file cannot be
    read.
    """
    text = _typed(what, option) if path is None else _first_line(path, what)
    if not text:
        raise usage_error(f"the {what} is empty")
    return text


def _typed(what: str, option: str) -> str:
    from getpass import getpass

    if sys.stdin is None or not sys.stdin.isatty():
        raise usage_error(f"no terminal to ask for the {what}: use {option} FILE, or - for standard input")
    return getpass(f"{what}: ", sys.stderr)


def _first_line(path: Path, what: str) -> str:
    source: Path | int = 0 if str(path) == "-" else path
    try:
        # Standard input stays open.
        with open(source, encoding="utf-8", closefd=source != 0) as file:
            return file.readline().rstrip("\r\n")
    except UnicodeDecodeError:
        raise CommandError(f"{path}: the {what} is no UTF-8", ExitCode.USAGE) from None
