"""Futures of sends, which become full futures of concurrent.futures only when they have to.

The condition and the lists of a Future are 12 objects for the garbage collector, whose work would cost a
third of a send. `result` of a finished send needs none of them.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from typing import Any

from rmqcli.client.results import SendResult
from rmqcli.client.sync.portal import settle

_making = threading.Lock()


class SendFuture(Future[SendResult]):
    """The future of one send."""

    _early: SendResult | Exception | None = None
    """The outcome, if it came before this became a full future."""
    _is_whole = False

    def __init__(self) -> None:
        """Do nothing: `__getattr__` creates the attributes that Future's methods use."""

    def __getattr__(self, name: str) -> Any:
        state = vars(self)
        with _making:
            if not self._is_whole:
                early = self._early
                whole: Future[SendResult] = Future()
                if early is not None:
                    _settle_whole(whole, early)
                # Under the lock, so that `settle` finds either no part of the whole future or all of it.
                state.update(vars(whole), _is_whole=True)
        if name in state:
            return state[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def settle(self, outcome: SendResult | Exception | None) -> None:
        """Set the outcome, None for a send that was cancelled. The owner may have cancelled the future."""
        if outcome is None:
            self.cancel()
        else:
            with _making:
                if not self._is_whole:
                    self._early = outcome
                    return
        if self.cancelled():
            self.set_running_or_notify_cancel()
        elif outcome is not None:
            _settle_whole(self, outcome)

    def cancelled(self) -> bool:
        return self._is_whole and super().cancelled()

    def result(self, timeout: float | None = None) -> SendResult:
        # Read without the lock: an outcome never changes, and without one Future itself waits.
        early = self._early
        return early if isinstance(early, SendResult) else super().result(timeout)


def _settle_whole(future: Future[SendResult], outcome: SendResult | Exception) -> None:
    if isinstance(outcome, Exception):
        settle(future, None, outcome)
    else:
        settle(future, outcome, None)


def _in_forked_child() -> None:
    global _making  # noqa: PLW0603
    _making = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_in_forked_child)
