"""The process: standard streams, `--version` without further imports, and the exit code.

This module must not import trio, numpy, pyarrow, pyspark, lark or rich: `rmq --help` pays for every import.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial

from rmqcli import version_text
from rmqcli.cli.exit_codes import ExitCode

__all__ = ["main", "run"]

COMPLETE = "__complete"
"""The command with which completions request names (`rmqcli.cli.completing`); no help shows it."""
FIRST_PROCESS = 1
COLLECT_AFTER = 100_000
"""Allocations between collections of the youngest generation; Python's default is 700."""


def main() -> None:
    """Run the command `rmq`."""
    _fill_closed_streams()
    if os.getpid() == FIRST_PROCESS:
        _end_by_signals()
    # Start-up creates tens of thousands of long-lived objects, which the collector would scan repeatedly.
    gc.set_threshold(COLLECT_AFTER)
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # during the first imports
        code = ExitCode.INTERRUPTED
    code = _flush(code)
    if "_duckdb" in sys.modules:
        # Threads of a cancelled query may still run, which a normal exit would interrupt, and DuckDB's
        # binding would report the remaining objects.
        sys.stderr.flush()
        os._exit(code)
    gc.freeze()  # saves a last scan when the interpreter exits
    sys.exit(code)


def run(arguments: Sequence[str]) -> ExitCode:
    """Run one command line; never raise. The caller flushes the output."""
    if list(arguments) in (["--version"], ["-V"]):
        return _deliver(lambda: print(version_text()), ExitCode.DONE)
    if list(arguments[:1]) == [COMPLETE]:
        from rmqcli.cli.completing import print_names

        return _deliver(partial(print_names, arguments[1:]), ExitCode.DONE)
    from rmqcli.cli import app

    return app.run(arguments)


def _end_by_signals() -> None:
    """Let SIGTERM and SIGHUP end this process, unless they are ignored: the kernel does not deliver signals
    without a handler to the first process of a container, so `docker stop` would kill it after ten seconds.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _: os._exit(128 + number))


def _fill_closed_streams() -> None:
    # With `>&-`, the next opened file or socket would get descriptor 1, and printing would write into it.
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
        if code == ExitCode.DONE:  # otherwise the command has reported it
            print(f"rmq: cannot write the output: {error.strerror}", file=sys.stderr)
        _discard_output()
        return ExitCode.FAILED
    return code


def _discard_output() -> None:
    # The interpreter flushes stdout again at exit and would report the closed pipe.
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.close(descriptor)


if __name__ == "__main__":
    main()
