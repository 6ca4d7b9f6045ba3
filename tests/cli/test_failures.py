from __future__ import annotations

import errno
import importlib

import pytest
import typer

from rmqcli import client
from rmqcli.cli.errors import LAYER_CODES, exit_code_of, leaves, message_of, report
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.settings import Given, Settings
from rmqcli.codec.errors import BodyError, CorruptionError, SelectorError
from rmqcli.flows.errors import (
    InvalidInput,
    NotAttempted,
    OutcomeNotDelivered,
    QueueNotFound,
    QueueNotPermitted,
)
from rmqcli.grammar.values import GrammarError
from rmqcli.import_.rows import InputDamaged, InputNotFound
from rmqcli.render.output import warn
from tests.cli.conftest import Run

REFUSED = ("remark", "127.0.0.1:1", "PULL_MESSAGE")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (usage_error("x"), 2),
        (CommandError("x"), 1),
        (GrammarError("x"), 2),
        (InvalidInput("x"), 2),
        (QueueNotFound("x"), 4),
        (QueueNotPermitted("x"), 6),
        (OutcomeNotDelivered("x"), 7),
        (NotAttempted("x"), 1),
        (InputNotFound("x"), 4),
        (InputDamaged("x"), 8),
        (typer.BadParameter("x"), 2),
        (client.NoRoute("t", "127.0.0.1:1"), 4),
        (client.TopicNotFound(17, *REFUSED), 4),
        (client.NotFound(22, *REFUSED), 4),
        (client.GroupNotFound(26, *REFUSED), 4),
        (client.NotPermitted(16, *REFUSED), 6),
        (client.BrokerRefused(1, *REFUSED), 1),
        (client.BrokerBusy(2, *REFUSED), 1),
        (client.ConnectionFailed("127.0.0.1:1", "refused"), 5),
        (client.NoNameServer(("127.0.0.1:1",)), 5),
        (client.ConnectionLost("127.0.0.1:1"), 5),
        (client.RequestTimeout("127.0.0.1:1", "PULL_MESSAGE", 3), 7),
        (client.InvalidRequest("x"), 2),
        (CorruptionError("x", 5), 8),
        (BodyError("x"), 1),
        (SelectorError("x"), 2),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "x"), 4),
        (PermissionError(errno.EACCES, "Permission denied", "x"), 6),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), 5),
        (OSError(errno.ENOSPC, "No space left on device"), 1),
        (TimeoutError(), 7),
        (RuntimeError("x"), 1),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code


def test_every_name_in_the_table_is_a_class() -> None:
    for module, names in LAYER_CODES.items():
        for name in names:
            assert issubclass(getattr(importlib.import_module(module), name), Exception)


def test_errors_in_groups() -> None:
    inner = client.RequestTimeout("127.0.0.1:1", "PULL_MESSAGE", 3)
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [inner]), ValueError("x")])
    assert [type(leaf) for leaf in leaves(group)] == [client.RequestTimeout, ValueError]
    assert report(group) is ExitCode.TIMED_OUT


def test_an_interrupt_in_a_group_wins(capsys: pytest.CaptureFixture[str]) -> None:
    group = BaseExceptionGroup("outer", [ValueError("x"), BaseExceptionGroup("inner", [KeyboardInterrupt()])])
    assert report(group) is ExitCode.INTERRUPTED
    assert capsys.readouterr().err == ""


def test_what_an_interrupt_led_to_is_an_interrupt() -> None:
    error = RuntimeError("x")
    error.__context__ = ValueError("y")
    error.__context__.__context__ = KeyboardInterrupt()
    assert report(error) is ExitCode.INTERRUPTED


def test_a_closed_pipe_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(ExceptionGroup("outer", [ValueError("x"), BrokenPipeError()])) is ExitCode.DONE
    assert capsys.readouterr().err == ""


def test_one_line_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    report(CommandError("first\nsecond"))
    assert capsys.readouterr().err == "rmq: first second\n"
    report(FileNotFoundError(errno.ENOENT, "No such file or directory", "a.txt"))
    assert capsys.readouterr().err == "rmq: a.txt: No such file or directory\n"
    report(RuntimeError("bad"))
    assert capsys.readouterr().err == "rmq: internal error: RuntimeError: bad (use -v for details)\n"


@pytest.mark.parametrize(
    "error",
    [
        client.ConnectionFailed("a:1\x1b[2J\x9b", "refused"),
        CommandError("a:1\x1b[2J\x9b"),
        RuntimeError("\x1b[2J\x9b"),
    ],
)
def test_what_others_named_cannot_move_the_cursor(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    report(error)
    warn("topic \x1b[2J\x9b is odd")
    text = capsys.readouterr().err
    assert "\x1b" not in text and "\x9b" not in text
    assert text.count("\\x1b[2J\\x9b") >= 2


def test_verbose_shows_where(capsys: pytest.CaptureFixture[str]) -> None:
    report(RuntimeError("bad"), Settings(Given(verbose=True)))
    assert "RuntimeError: bad" in capsys.readouterr().err.splitlines()[-1]


def test_other_ends() -> None:
    assert report(typer.Exit(3)) is ExitCode.PARTLY
    assert report(SystemExit(0)) is ExitCode.DONE
    assert message_of(typer.Abort()) == "aborted: nothing was changed"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("top", "--interval", "0"), "'--interval': expected at least 0.1 ("),
        (("metrics", "serve", "--max-series", "x"), "'--max-series': expected a whole number ("),
        (("top", "--interval", "x"), "'--interval': expected a number ("),
        (("up", "--port", "65536"), "'--port': expected at most 65535 ("),
    ],
)
def test_a_wrong_value_is_named_in_plain_words(cli: Run, words: tuple[str, ...], reason: str) -> None:
    found = cli(*words)
    assert (found.code, reason in found.err) == (2, True), found.err
