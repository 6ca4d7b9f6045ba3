"""Requests to several brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rmqcli.client import ClientError, ConnectionFailed
from rmqcli.client.admin.area import Area


async def test_brokers_that_did_not_answer_are_not_asked_again() -> None:
    asked: list[str] = []

    async def ask(address: str) -> str:
        asked.append(address)
        return address

    area = Area(cast(Any, SimpleNamespace(instance=None)))
    failures: dict[str, ClientError] = {"b": ConnectionFailed("1:2", "silent")}
    assert await area.ask_all({"a": "1:1", "b": "1:2"}, ask, failures) == {"a": "1:1"}
    with pytest.raises(ConnectionFailed):
        await area.ask_all({"b": "1:2"}, ask, failures)
    assert asked == ["1:1"]
