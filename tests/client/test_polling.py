"""How often looking for replies is tried, by what came of it."""

from __future__ import annotations

import pytest

from rmqcli.client.polling import LOOKS, MAX_PAUSE, Polling


def left_out(polling: Polling) -> int:
    """Requests until looks are due."""
    for count in range(MAX_PAUSE + 2):
        polling.begin()
        if polling.left == LOOKS:
            return count
        polling.in_vain()
        polling.end()
    raise AssertionError("never again")


def miss(polling: Polling) -> None:
    for _ in range(LOOKS):
        polling.in_vain()
    polling.end()


def test_looks_in_vain_are_left_out_twice_as_long_each_time() -> None:
    polling = Polling()
    pauses = []
    for _ in range(13):
        pauses.append(left_out(polling))
        miss(polling)
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024]


@pytest.mark.parametrize("misses", [1, 5, 20])
def test_a_reply_found_makes_the_pauses_short_again(misses: int) -> None:
    polling = Polling()
    for _ in range(misses):
        left_out(polling)
        miss(polling)
    left_out(polling)
    polling.in_vain()
    polling.end()
    assert [left_out(polling), polling.left] == [0, LOOKS]
    miss(polling)
    assert left_out(polling) == 1
