"""Refusal of requests that have waited too long, so that their senders try another broker (Java class
`BrokerFastFailure`).

A request waits for those that were read before it, for a turn of the event loop, and for the disk. A pause of
the whole process does not count: between two readings of the clock, at most `LONGEST_LOOK` seconds are
counted. Long work that has begun, a message that waits for its flush, and one-way requests, whose senders
would never know, are never refused.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping

import trio

from rmqcli.broker.config import BrokerConfig
from rmqcli.broker.errors import Refusal
from rmqcli.codec.codes import RequestCode, ResponseCode

LOOKS = 4
"""Parts into which the wait for the disk is divided: a pause of the process then uses up only one of them."""
LONGEST_LOOK = 0.05
"""Maximum number of seconds that count between two readings of the clock."""

_REMARK = "broker busy, start flow control for a while, period in queue: {}ms, size of queue: {}"
SENDS = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)
_PULLS = RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE


def limits_of(config: BrokerConfig) -> tuple[dict[int, float], dict[int, float]]:
    """Return the seconds that a request of each code may wait: for other requests, and for the disk."""
    if not config.broker_fast_failure_enable:
        return {}, {}
    others: dict[int, float] = {
        **dict.fromkeys(SENDS, config.wait_time_mills_in_send_queue / 1000),
        **dict.fromkeys(_PULLS, config.wait_time_mills_in_pull_queue / 1000),
        RequestCode.HEART_BEAT: config.wait_time_mills_in_heartbeat_queue / 1000,
        RequestCode.END_TRANSACTION: config.wait_time_mills_in_transaction_queue / 1000,
    }
    return others, {**others, **dict.fromkeys(SENDS, config.os_page_cache_busy_time_out_mills / 1000)}


class FastFailure:
    """The limits of one broker as returned by `limits_of`, and the requests that wait for the disk.

    While one of these has waited for longer than its limit, sends that need the disk are refused immediately.
    """

    def __init__(self, limits: Mapping[int, float] = {}, disk_limits: Mapping[int, float] = {}) -> None:
        self.set_limits(limits, disk_limits)
        self._waiting = 0
        self._stuck = 0

    def set_limits(self, limits: Mapping[int, float], disk_limits: Mapping[int, float]) -> None:
        self._limits = limits
        self._disk_limits = disk_limits
        self.shortest = min(limits.values(), default=math.inf)

    def is_late(self, code: int, seconds: float) -> bool:
        """Return True if a request has waited too long for other requests."""
        return seconds > self._limits.get(code, math.inf)

    async def in_time(
        self, code: int, ready: Callable[[], Awaitable[None]], spawn: Callable[..., bool]
    ) -> None:
        """Run `ready`, in a separate task if this code has a limit. Raises Refusal if it takes too long,
        while the task continues. Exceptions of `ready` are raised."""
        limit = self._disk_limits.get(code)
        if limit is not None and self._stuck and code in SENDS:
            raise self.refusal("PCBUSY", limit, self._waiting)
        work = _Work(ready)
        if limit is None or not spawn(self._run, work):
            return await ready()
        if not await work.is_done_within(limit):
            work.is_late = True
            self._stuck += 1
            raise self.refusal("PCBUSY" if code in SENDS else "TIMEOUT", limit, self._waiting)
        if work.error is not None:
            raise work.error
        return None

    @staticmethod
    def refusal(kind: str, seconds: float, size: int) -> Refusal:
        """Return the refusal of a request that waited for `seconds`, with `size` others."""
        remark = f"[{kind}_CLEAN_QUEUE]{_REMARK.format(round(seconds * 1000), size)}"
        return Refusal(ResponseCode.SYSTEM_BUSY, remark)

    async def _run(self, work: _Work) -> None:
        self._waiting += 1
        try:
            with trio.CancelScope(shield=True):
                await work.run()
        finally:
            self._waiting -= 1
            self._stuck -= work.is_late


class _Work:
    """Work of the disk for one request, which was refused in the meantime if `is_late`; `error` is the
    exception of the work."""

    def __init__(self, ready: Callable[[], Awaitable[None]]) -> None:
        self._ready = ready
        self._done = trio.Event()
        self.error: Exception | None = None
        self.is_late = False

    async def run(self) -> None:
        try:
            await self._ready()
        except Exception as error:  # raised again by the request that waits
            self.error = error
        finally:
            self._done.set()

    async def is_done_within(self, seconds: float) -> bool:
        """Return False if the work is not done after `seconds` in which this process ran."""
        for _ in range(LOOKS):
            with trio.move_on_after(seconds / LOOKS):
                await self._done.wait()
                return True
        return self._done.is_set()
