"""The futures of sends, which are made whole at the first look."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError, Future, as_completed, wait

import pytest

from rmqcli.client import NoRoute, SendResult, SendStatus
from rmqcli.client.sync import futures
from rmqcli.client.sync.futures import SendFuture
from rmqcli.codec.message_queue import MessageQueue

RESULT = SendResult(SendStatus.SEND_OK, "ID", "", MessageQueue("T", "broker-a", 0), 7)
FAILURE = NoRoute("T", "ns:9876")


def settled(outcome: SendResult | Exception | None) -> SendFuture:
    future = SendFuture()
    future.settle(outcome)
    return future


def test_a_result_costs_no_condition() -> None:
    future = settled(RESULT)
    assert future.result(0) is RESULT and "_condition" not in vars(future)
    assert future.done() and future.exception() is None and not future.cancel() and not future.running()
    assert future.result() is RESULT and "_condition" in vars(future)


def test_a_failure_is_raised() -> None:
    future = settled(FAILURE)
    with pytest.raises(NoRoute):
        future.result()
    assert future.exception() is FAILURE


def test_a_cancelled_send() -> None:
    future = settled(None)
    with pytest.raises(CancelledError):
        future.result()
    assert wait([future]).done == {future}


def test_a_send_that_was_cancelled_by_its_owner_stays_cancelled() -> None:
    future = SendFuture()
    assert not future.cancelled() and future.cancel() and future.cancelled()
    future.settle(RESULT)
    with pytest.raises(CancelledError):
        future.result()
    assert wait([future]).done == {future}


@pytest.mark.parametrize("first", [True, False])
def test_what_waits_for_sends(first: bool) -> None:
    """`first`: somebody waits before the outcome comes."""
    sends = [SendFuture() for _ in range(3)]
    sends[1].order = 8  # type: ignore[attr-defined]  # programs do that

    def settle_all() -> None:
        for future, outcome in zip(sends, (RESULT, FAILURE, None), strict=True):
            future.settle(outcome)

    called: list[object] = []
    if first:
        for future in sends:
            future.add_done_callback(called.append)
        threading.Timer(0.05, settle_all).start()
    else:
        settle_all()
    assert set(as_completed(sends, timeout=5)) == set(sends) == wait(sends, timeout=5).done
    assert called == (sends if first else [])
    assert sends[1].exception() is FAILURE and vars(sends[1])["order"] == 8


@pytest.mark.parametrize("before", [True, False])
def test_asyncio_waits_for_one(before: bool) -> None:
    async def main() -> SendResult:
        future = SendFuture()
        if before:
            future.settle(RESULT)
        else:
            threading.Timer(0.05, future.settle, [RESULT]).start()
        return await asyncio.wrap_future(future)

    assert asyncio.run(main()) is RESULT


def test_an_unknown_attribute() -> None:
    with pytest.raises(AttributeError, match="'SendFuture' object has no attribute 'results'"):
        SendFuture().results  # noqa: B018


def test_an_outcome_during_the_first_look_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    future = SendFuture()
    settling = threading.Thread(target=future.settle, args=[RESULT])

    class SlowlyMade(Future[SendResult]):
        def __init__(self) -> None:
            super().__init__()
            settling.start()
            settling.join(0.05)  # it waits until the future is whole

    monkeypatch.setattr(futures, "Future", SlowlyMade)
    future.done()
    settling.join()
    assert future.done() and future.result(0) is RESULT
