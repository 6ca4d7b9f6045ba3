"""Cuts Parquet files from a growing store folder, with `rmq export --resume` in a separate process.

The files and the offset where the next cut begins are one commit of the export, so each message is in the
files exactly once, whichever process is killed, at whatever time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error

if TYPE_CHECKING:
    from rmqcli.export.output.storage import Location

BUSY_SECONDS = 0.5
"""Seconds between two attempts while another export writes to the folder, perhaps one whose parent was
killed.
"""


class Cut(NamedTuple):
    """The number of files and rows added by one cut."""

    files: int
    rows: int


class Cutter(NamedTuple):
    """Cuts files from the store folder `store` of the broker `broker_name` into `out`; if `out` is None, it
    cuts nothing.
    """

    store: Path
    out: Location | None
    broker_name: str

    def check(self) -> None:
        """Raise an error if the extra is missing, or if no export can use or continue the folder."""
        if self.out is None:
            return
        from rmqcli.export import refuse_existing
        from rmqcli.extras import require

        require("export", "numpy", "pyarrow")
        if isinstance(self.out, Path) and self.store.resolve() in [
            self.out.resolve(),
            *self.out.resolve().parents,
        ]:
            raise usage_error(f"--parquet {self.out}: lies in the store folder; name a folder beside it")
        refuse_existing(self.out, resume=True)

    async def cut(self) -> Cut:
        """Write what was stored since the last cut. Raise CommandError, with the exit code of the export, if
        it fails.
        """
        if self.out is None:
            return Cut(0, 0)
        import trio

        from rmqcli.export.output.folder import is_in_use

        while isinstance(self.out, Path) and is_in_use(self.out):  # noqa: ASYNC110  it is another process
            await trio.sleep(BUSY_SECONDS)
        words = ["--json", "export", "--store", self.store, "--broker-name", self.broker_name]
        done = await trio.run_process(
            [
                sys.executable,
                "-m",
                "rmqcli",
                *map(str, words),
                "--out",
                getattr(self.out, "uri", str(self.out)),
                "--resume",
            ],
            stdin=subprocess.DEVNULL,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            start_new_session=True,  # Ctrl-C reaches only the copy, which ends the export itself
        )
        said = done.stderr.decode(errors="replace").strip()
        if done.returncode:
            raise CommandError(f"no files were cut: {said.removeprefix('rmq: ')}", _code(done.returncode))
        facts = json.loads(done.stdout)
        return Cut(facts["files"], facts["rows"])


def _code(status: int) -> ExitCode:
    return ExitCode(status) if status in set(ExitCode) else ExitCode.FAILED
