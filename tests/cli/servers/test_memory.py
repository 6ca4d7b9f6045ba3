"""The heaps of a server's process."""

from __future__ import annotations

import subprocess
import sys

import pytest

COUNT = """
import ctypes, sys, threading
from rmqcli.commands.common import serving
libc = ctypes.CDLL(None)
if not hasattr(libc, "malloc_info"):
    sys.exit("no glibc")
serving.share_one_heap()
together = threading.Barrier(4)
def work():
    together.wait()
    bytes(100_000)
    together.wait()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(None)
"""


def test_the_threads_of_a_server_share_one_heap() -> None:
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=False)
    if done.stderr.strip() == "no glibc":
        pytest.skip("malloc is not that of glibc")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("<heap nr=") == 1
