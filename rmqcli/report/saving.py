"""The destination of a page: standard output, or a file that is replaced as a whole."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from rmqcli.files import replace_file

STDOUT = Path("-")


def refuse_existing(out: Path, *, replace: bool) -> None:
    """Raise FileExistsError for a file that must not be replaced, another OSError where no file can be."""
    if out == STDOUT:
        return
    if out.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file with --out", str(out))
    if not out.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(out.parent))
    if out.exists() and not replace:
        raise FileExistsError(errno.EEXIST, "exists; --replace overwrites it", str(out))


def save(out: Path, page: bytes, *, replace: bool) -> None:
    """Write a file beside and rename it: nobody sees half a page, and an error leaves the old one.

    The permissions are those of a new file.
    """
    refuse_existing(out, replace=replace)
    mask = os.umask(0)
    os.umask(mask)
    replace_file(out, page, mode=0o666 & ~mask)
