"""Power cuts of a real ext4 file system on a loop device, under load: acknowledged messages survive.

The file system is shut down without a flush of its journal, as on a machine that loses power, and mounted again.
Mounting needs root and a kernel that has loop devices.
"""

from __future__ import annotations

import array
import fcntl
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from tests.crash.real_broker import load, running, stopped
from tests.crash.real_store import Acked, check_sound, check_store
from tests.support import PATIENCE

SHUTDOWN = 2 << 30 | 4 << 16 | ord("X") << 8 | 125
"""EXT4_IOC_SHUTDOWN, `_IOR('X', 125, __u32)`."""
NO_FLUSH = 2
IMAGE_BYTES = 512 << 20


class Ext4:
    """A file system in the file `image`, mounted at `folder`."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.image = image
        self.folder = folder

    def mount(self) -> None:
        subprocess.run(["mount", "-o", "loop", self.image, self.folder], check=True, capture_output=True)

    def unmount(self) -> None:
        subprocess.run(["umount", self.folder], check=True)

    def cut(self) -> None:
        """Ends all writing, as a power cut does."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, array.array("I", [NO_FLUSH]))
        finally:
            os.close(descriptor)


@pytest.fixture
def ext4(tmp_path: Path) -> Iterator[Ext4]:
    image, folder = tmp_path / "image", tmp_path / "mounted"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    if os.geteuid() or shutil.which("mkfs.ext4") is None:
        pytest.skip("needs root and mkfs.ext4")
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    disk = Ext4(image, folder)
    try:
        disk.mount()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no loop device can be mounted: {error.stderr.decode().strip()}")
    yield disk
    disk.unmount()


def halt(pid: int) -> None:
    """Stops all threads of a process: a machine without power answers nobody.

    While ext4 shuts down, a sync may return 0 although the extents that it wrote stay marked as unwritten.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + PATIENCE
    while any(_state(task) not in "Tt" for task in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < deadline, "a thread does not stop"
        time.sleep(0.0005)


def _state(task: Path) -> str:
    """The letter of a thread's state, T for one that has ended."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "T"


def another_boot(store: Path) -> None:
    """Makes it look as if the machine had restarted, not only lost its disk: the broker notes the boot id."""
    abort = store / "abort"
    if abort.exists() and (content := abort.read_bytes()):
        abort.write_bytes(content[:-1] + b"?")


def test_what_was_acknowledged_survives_power_cuts(
    ext4: Ext4, request: pytest.FixtureRequest, show: Callable[[str], None]
) -> None:
    rounds = max(2, request.config.getoption("--crash-rounds") // 5)
    chance = random.Random(4712)
    store, acked = ext4.folder / "store", Acked()
    settings = {"flushDiskType": "SYNC_FLUSH"}
    for number in range(rounds):
        with running(store, settings) as (process, words):

            async def end() -> None:
                await trio.sleep(chance.uniform(0.0, 0.1))
                halt(process.pid)
                ext4.cut()
                process.kill()

            trio.run(load, words["namesrv"], acked, number, chance.randint(1, 200), end)
            process.wait(PATIENCE)
        ext4.unmount()
        ext4.mount()
        if chance.random() < 0.5:
            another_boot(store)
    stopped(store, settings)
    check_store(store, acked)
    check_sound(store)
    show(f"{rounds} power cuts, {len(acked)} messages acknowledged, 0 lost")
