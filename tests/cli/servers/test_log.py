"""The log of a server on standard error."""

from __future__ import annotations

import logging

import hpack
import pytest

from rmqcli.cli.settings import Given, Settings
from rmqcli.commands.common.serving import log_to_stderr


def test_a_verbose_log_has_no_headers_of_calls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root, ours = logging.getLogger(), logging.getLogger("rmqcli")
    levels = root.level, ours.level
    monkeypatch.setattr(root, "handlers", [])
    try:
        log_to_stderr(Settings(Given(verbose=True)))
        hpack.Decoder().decode(hpack.Encoder().encode([("authorization", "a signature")]))
        logging.getLogger("rmqcli.broker").debug("a call")
    finally:
        root.setLevel(levels[0])
        ours.setLevel(levels[1])
    assert capsys.readouterr().err == "rmq: rmqcli.broker: a call\n"
