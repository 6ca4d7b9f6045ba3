"""Makes Linux look like Windows for a program: `import tests.platforms.windows` first, then rmqcli.

Modules that Windows lacks cannot be imported, names that it lacks are gone. What chooses its ways at import is
imported before.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import platform
import select
import signal
import subprocess
import sys
import tempfile

import platformdirs
import rich.console
import trio.testing
import typer.main

from tests.platforms.names import lacking

BEFORE = (asyncio, platform, platformdirs, rich, subprocess, tempfile, trio, typer)
MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")

platformdirs.user_cache_path("rmq")
for name in MODULES:
    sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails
for module in (os, mmap, signal):
    for name in lacking(module.__name__, "win32"):
        if hasattr(module, name):
            delattr(module, name)
del select.poll
# Python 3.13 starts processes by names that are gone.
setattr(subprocess, "_USE_POSIX_SPAWN", False)  # noqa: B010
sys.platform = "win32"
