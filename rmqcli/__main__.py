"""The process: standard streams, `--version` without any import, every error mapped to one line and one exit code.

Nothing here may import trio, numpy, pyarrow, pyspark or lark, nor rich: `rmq --help` pays for what is imported.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from rmqcli import __version__
from rmqcli.cli.exit_codes import ExitCode

__all__ = ["main", "run"]

COLLECT_AFTER = 50_000
"""New objects until the collector looks at the youngest; Python's own number is 700."""


def main() -> None:
    """Entry point of the command `rmq`."""
    _fill_closed_streams()
    # A start makes ten thousands of objects that live to the end: looking through them again and again is time for nothing.
    gc.set_threshold(COLLECT_AFTER)
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while the first modules were imported
        code = ExitCode.INTERRUPTED
    code = _flush(code)
    gc.freeze()  # else the interpreter's end looks through all of them once more
    sys.exit(code)


def run(arguments: Sequence[str]) -> ExitCode:
    """Runs one command line; never raises. Output is flushed by the caller."""
    if list(arguments) in (["--version"], ["-V"]):
        return _deliver(partial(print, f"rmq {__version__}"), ExitCode.DONE)
    from rmqcli.cli import app

    return app.run(arguments)


def _fill_closed_streams() -> None:
    # With `>&-` the number 1 would go to the next file or socket that is opened, and printing would write into it.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
        if name != "stdin":
            setattr(sys, name, os.fdopen(number, "w", closefd=False))


def _flush(code: ExitCode) -> ExitCode:
    return _deliver(sys.stdout.flush, code)


def _deliver(write: Callable[[], object], code: ExitCode) -> ExitCode:
    try:
        write()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        if code == ExitCode.DONE:  # else the command has said so already
            print(f"rmq: cannot write the output: {error.strerror}", file=sys.stderr)
        _discard_output()
        return ExitCode.FAILED
    return code


def _discard_output() -> None:
    # The interpreter flushes stdout once more at exit and would complain about the same closed pipe.
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.close(descriptor)


if __name__ == "__main__":
    main()
