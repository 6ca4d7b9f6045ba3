"""Background services of broker and name server, and the policy under which they run.

* After an OSError, which is logged and counted, the service is restarted after `RETRY_SECONDS`: a disk or a
  network may recover.
* Any other exception is a programming error. All services of the block are cancelled, the stores are closed
  in an orderly way, and the block raises ServiceFailed: `rmq broker`, `rmq namesrv` and `rmq up` print it as
  their last line and exit with 1.
* A service that returns has finished its work.

State that must survive a restart belongs to the service's object, never to its coroutine. A connection is not
a service: an error ends only that connection (`rmqcli.broker.net.server`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from traceback import extract_tb

import trio

from rmqcli.broker.errors import ServiceFailed

RETRY_SECONDS = 1.0

Service = Callable[[], Awaitable[object]]
"""Runs until cancelled."""

_log = logging.getLogger(__name__)


class Supervisor:
    """The policy. `errors` counts the OSErrors of each service by its name."""

    def __init__(self) -> None:
        self.errors: Counter[str] = Counter()

    async def run_once(self, name: str, service: Service) -> None:
        """Run a service until it ends or fails. Tests override this to break the service `name`."""
        await service()

    async def keep_running(self, name: str, service: Service) -> None:
        """Run a service, again after each OSError. Raises ServiceFailed from the exception that ended it."""
        while True:
            try:
                return await self.run_once(name, service)
            # A block of services inside this one has described the failure already.
            except ServiceFailed:
                raise
            except Exception as error:  # the policy covers all exceptions
                if not _is_transient(error):
                    raise ServiceFailed(f"service {name} failed: {_describe(error)}") from error
                self.errors[name] += 1
                _log.warning("service %s: %s; it restarts in %g s", name, error, RETRY_SECONDS)
            await trio.sleep(RETRY_SECONDS)


class Services:
    """The services of one block. `nursery` is for tasks that are not services."""

    def __init__(self, supervisor: Supervisor, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self._supervisor = supervisor

    def start(self, name: str, service: Service) -> None:
        """Start a service under the policy; `name` appears in log lines and counters."""
        self.nursery.start_soon(self._supervisor.keep_running, name, service, name=name)


@asynccontextmanager
async def open_services(supervisor: Supervisor | None = None) -> AsyncIterator[Services]:
    """Run services alongside a block, and cancel them when it ends.

    Raises the exception of the block itself, not in a group, and ServiceFailed.
    """
    failure: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield Services(supervisor or Supervisor(), nursery)
            except Exception as error:  # raised again below, outside the nursery that would wrap it
                failure = error
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        failure = _first_failure(group)
        if failure is None:
            raise
    if failure is not None:
        raise failure


def _first_failure(group: BaseExceptionGroup[BaseException]) -> ServiceFailed | None:
    """Return a ServiceFailed in a group that contains nothing else; None if there are other exceptions."""
    failures, others = group.split(ServiceFailed)
    first: BaseException | None = None if others else failures
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first if isinstance(first, ServiceFailed) else None


def _is_transient(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        return error.split(OSError)[1] is None
    return isinstance(error, OSError)


def _describe(error: Exception) -> str:
    """Return type, text and source location of an error in one line."""
    frames = extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"
