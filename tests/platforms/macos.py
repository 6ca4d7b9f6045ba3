"""A pytest plug-in that makes Linux look like macOS: `pytest -p tests.platforms.macos`.

The names that macOS lacks go, also those of its C library; F_FULLFSYNC comes. What chooses its ways at import,
such as trio, is imported before.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
from typing import Any

import hypothesis
import pytest
import trio.testing
import xdist

from tests.platforms.names import lacking

BEFORE = (hypothesis, pytest, trio, xdist)
LIBC = frozenset(("fallocate", "mallopt", "memfd_create", "renameat2", "syncfs", "syscall"))
"""Functions of glibc; syscall exists on macOS, with other numbers."""
F_FULLFSYNC = 51
full_syncs: list[int] = []
"""The descriptors that were synced by F_FULLFSYNC."""
removed: set[str] = set()


class Libc(ctypes.CDLL):
    """A library without the functions that macOS lacks."""

    def __getattr__(self, name: str) -> Any:
        if name in LIBC:
            raise AttributeError(f"dlsym: symbol not found: {name}")
        return super().__getattr__(name)


_fcntl = fcntl.fcntl


def _with_full_sync(fd: int, command: int, argument: Any = 0) -> Any:
    if command == F_FULLFSYNC:
        full_syncs.append(fd)
        os.fsync(fd)
        return 0
    return _fcntl(fd, command, argument)


for module in (os, mmap, socket, signal, resource, fcntl):
    for name in lacking(module.__name__, "darwin"):
        if hasattr(module, name):
            delattr(module, name)
            removed.add(f"{module.__name__}.{name}")
ctypes.CDLL = Libc  # type: ignore[misc]
fcntl.fcntl = _with_full_sync  # type: ignore[assignment]
fcntl.F_FULLFSYNC = F_FULLFSYNC  # type: ignore[attr-defined]
# What these modules found in os when they were imported.
tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]
shutil._copyxattr = lambda *_, **__: None  # type: ignore[attr-defined]
sys.platform = "darwin"
