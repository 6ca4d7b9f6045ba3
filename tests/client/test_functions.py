"""Calls of functions of the application."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from rmqcli.client.functions import called, from_the_application


async def fails_later() -> None:
    fails()


def fails() -> None:
    raise ValueError("refused")


@pytest.mark.parametrize(
    ("function", "frames"), [(fails, ["fails"]), (fails_later, ["fails_later", "fails"])]
)
async def test_a_traceback_begins_in_the_application(
    function: Callable[[], object], frames: list[str]
) -> None:
    with pytest.raises(ValueError, match="refused") as caught:
        await called(function)
    error, here = caught.value, caught.value.__traceback__
    assert here is not None
    # The frame of this test stands for a task, which is the client's.
    error = from_the_application(error.with_traceback(here.tb_next))
    assert [frame.name for frame in traceback.extract_tb(error.__traceback__)] == frames


async def test_an_error_of_the_client_keeps_its_traceback() -> None:
    error = ValueError("made here")
    assert from_the_application(error).__traceback__ is None
