"""What `rmq up`, `rmq broker` and `rmq namesrv` have in common: properties, the line that says it serves, a clean stop.

SIGINT and SIGTERM both stop cleanly with exit code 0, since that is how a server is stopped; a second one does not wait.
Every mapped file and every connection costs a descriptor, so a server takes as many as it is allowed to have.
"""

from __future__ import annotations

import errno
import gc
import logging
import resource
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path
from typing import Annotated, TypeVar

import trio
import typer

from broker.config import BrokerConfig, NamesrvConfig, config_from_properties
from broker.config.checks import unsupported
from broker.config.properties import read_properties
from broker.errors import ConfigError
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.logs import OneLine
from rmqcli.cli.settings import Settings
from rmqcli.render import Output
from rmqcli.render.output import warn
from rmqcli.render.text import tsv_line

__all__ = ["ConfigOption", "SetOption", "announce", "configure", "listening", "run_until_stopped"]

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="A properties file with Java's names (broker.conf)."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A property, over the file; repeatable."),
]

Config = TypeVar("Config", BrokerConfig, NamesrvConfig)

# What binding to another machine's address, and looking up a name that nobody has, say.
_NOT_HERE = (errno.EADDRNOTAVAIL, socket.EAI_NONAME, socket.EAI_NODATA, socket.EAI_AGAIN)


def configure(
    kind: type[Config],
    path: Path | None,
    settings: Sequence[str],
    defaults: Mapping[str, str],
    fixed: Mapping[str, str],
) -> Config:
    """The configuration: `defaults`, under the file, under `--set`, under `fixed` (what options of their own say).

    Warns about names that nobody knows and what is not supported; ConfigError becomes a usage error.
    """
    given = [_property(text) for text in settings]
    try:
        entries = {**defaults, **(read_properties(path) if path else {}), **dict(given), **fixed}
        config, unknown = config_from_properties(kind, entries)
    except ConfigError as error:
        missing = path is not None and not path.exists()
        raise CommandError(str(error), ExitCode.NOT_FOUND if missing else ExitCode.USAGE) from error
    for name in unknown:
        warn(f"unknown property {name} is ignored")
    if isinstance(config, BrokerConfig):
        for text in unsupported(config):
            warn(text)
    return config


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise usage_error(f"--set {text!r}: NAME=VALUE is expected")
    return name.strip(), value


@contextmanager
def listening(what: str, address: str, option: str) -> Iterator[None]:
    """Names what could not listen on `address` ("host:port"), and the option that chooses another port."""
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_HERE:
            reason = "that is no address of this machine; 127.0.0.1 is only for it, 0.0.0.0 for all"
            raise CommandError(f"{what} cannot listen on {address}: {reason}") from error
        reasons = {errno.EADDRINUSE: "the port is taken", errno.EACCES: "the port may not be used"}
        reason = reasons.get(error.errno or 0, "")
        if not reason:
            raise
        raise CommandError(
            f"{what} cannot listen on {address}: {reason}; choose another with {option} (0 is any free one)"
        ) from error


def announce(settings: Settings, words: Mapping[str, str], text: str) -> None:
    """Says on standard output, flushed, that the servers take connections."""
    output = Output()
    if settings.json:
        output.json(dict(words))
    else:
        output.line(text if settings.terminal else tsv_line(list(words.values())))
    output.flush()


def log_to_stderr(settings: Settings) -> None:
    """What the servers log, from warnings on, a line each; with -v all of it and where it happened."""
    handler = logging.StreamHandler(sys.stderr)
    kind = logging.Formatter if settings.verbose else OneLine
    handler.setFormatter(kind("rmq: %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if settings.verbose else logging.WARNING)


class Stop:
    """Set by the first signal; the second cancels."""

    def __init__(self) -> None:
        self.event = trio.Event()

    async def watch(
        self, scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Waits for signals for ever."""
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                if self.event.is_set():
                    scope.cancel()
                self.event.set()


def raise_descriptor_limit() -> None:
    """The soft limit of open files becomes the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    # macOS names a hard limit that it does not grant
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def run_until_stopped(serving: AbstractAsyncContextManager[object]) -> None:
    """Enters `serving` (which announces itself), stays until a signal, leaves it."""
    raise_descriptor_limit()
    stop = Stop()
    async with trio.open_nursery() as nursery:
        await nursery.start(stop.watch, nursery.cancel_scope)
        async with serving:
            gc.freeze()  # what is there now stays: no collection has to look at it again and hold up the requests
            await stop.event.wait()
        nursery.cancel_scope.cancel()
