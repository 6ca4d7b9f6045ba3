from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.settings import Given, Settings
from tests.cli.conftest import Run


def test_names_are_whole_whatever_the_address_says() -> None:
    from rmqcli.client import ClientInstance

    settings = Settings(Given(namesrv="http://MQ_INST_1_ab.localhost:80"))
    assert ClientInstance(settings.namesrv).namespace
    assert not ClientInstance(**settings.client_options).namespace


def test_options_for_the_client() -> None:
    assert Settings(Given(namesrv="a:1")).client_options == {"namesrv": "a:1", "namespace": ""}
    given = Given(namesrv="a:1", timeout=2.0)
    assert Settings(given).client_options == {"namesrv": "a:1", "namespace": "", "timeout": 2.0}
    assert Settings(Given(namesrv="a:1", timeout=2.0)).producer_options["send_timeout"] == 2.0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--json", "profile", "list"],
        ["profile", "--json", "list"],
        ["profile", "list", "--json"],
    ],
)
def test_global_options_stand_anywhere(cli: Run, arguments: list[str]) -> None:
    assert cli(*arguments).out == b"[]\n"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nosuch"], "No such command 'nosuch'"),
        (["tpic", "list"], "Did you mean 'topic'?"),
        (["topic", "list", "--nosuch"], "--nosuch"),
        (["pull"], "TOPIC"),
        (["pull", ""], "'TOPIC': must not be empty (see: rmq pull --help)"),
        (["group", "delete", " ", "--yes"], "'GROUP': must not be empty"),
        (["cluster", "producers", "-g", ""], "must not be empty"),
        (["inspect", "store", "S", "--topic", "t", "--topic", ""], "'-T': must not be empty"),
        (["query", "t", "--key", ""], "must not be empty"),
        (["trace", ""], "'ID': must not be empty"),
        (["pull", "t", "-c", "0"], "--count"),
        (["pull", "t", "-o", "x"], "range 'x'"),
        (["pull", "t", "-f", "%y"], "unknown verb %y"),
        (["tail", "t", "-f", "%"], "character 1"),
        (["send", "t", "x", "--delay", "7"], "--delay 7: expected a duration"),
        (["send", "t", "x", "--delay", "10s", "--delay-level", "3"], "cannot be combined"),
        (["send", "t", "x", "--priority", "1", "--queue", "3"], "--priority, which is the queue, cannot"),
        (["send", "t", "x", "-p", "_SYS_MSG_PRIORITY_=3"], "reserves this name; use --priority"),
        (["send", "t", "x", "--whole"], "BODY cannot be combined"),
        (["send", "t", "--jsonl", "--whole"], "--jsonl and --whole cannot be combined"),
        (["send", "t", "--delimiter", ""], "must not be empty"),
        (["send", "t", "--delimiter", "\\q"], "unknown escape"),
        (["send", "t", "x", "-k", "a b"], "--key"),
        (["send", "t", "x", "-p", "novalue"], "NAME=VALUE"),
        (["send", "t", "x", "-p", "a=\x01"], "separate properties"),
        (["send", "t", "x", "-p", "KEYS=a"], "reserves this name; use --key"),
        (["send", "t", "x", "-p", "TRAN_MSG=true"], "reserves this name; use --transaction"),
        (["send", "t", "x", "-p", "UNIQ_KEY=1"], "reserves this name"),
        (["request", "t", "x", "-p", "DELAY=3"], "reserves this name; use --delay or --delay-level"),
        (["query", "t"], "either --key or --id"),
        (["query", "t", "--key", "a", "--time", "5"], "--time '5'"),
        (["topic", "update", "t"], "nothing to update"),
        (["topic", "create", "t", "--perm", "z"], "--perm 'z'"),
        (["offsets", "reset"], "specify GROUP, TOPIC and --to, or --undo FILE"),
        (["offsets", "reset", "g"], "specify TOPIC and --to, or --undo FILE"),
        (["offsets", "reset", "g", "t", "--to", "x"], "target 'x'"),
        (["offsets", "reset", "g", "--undo", "f"], "--undo cannot be combined"),
        (["topic", "list", "-n", "nonsense:x"], "nonsense"),
        (["namesrv", "--port", "65536"], "--port"),
        (["up", "--set", "novalue"], "NAME=VALUE"),
        (["up", "--set", "listenPort=x"], "listenPort=x: a number is expected"),
        (["up", "--set", "flushDelayOffsetInterval=x"], "flushDelayOffsetInterval"),
        (["topic", "list", "--timeout", "0"], "--timeout"),
        ([], "Usage: rmq"),
        (["topic"], "Usage: rmq topic"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(cli: Run, arguments: list[str], part: str) -> None:
    result = cli(*arguments)
    assert result.code == ExitCode.USAGE
    assert result.out == b""
    assert result.err.startswith("rmq: ")
    assert part in result.err
    assert "Traceback" not in result.err


def test_no_server(cli: Run) -> None:
    result = cli("topic", "list", "-n", "127.0.0.1:1")
    assert result.code == ExitCode.NO_CONNECTION
    assert result.err.count("\n") == 1
    assert "127.0.0.1:1" in result.err


def test_files_that_are_not_there(cli: Run, tmp_path: Path) -> None:
    assert cli("offsets", "reset", "--undo", str(tmp_path / "no.json")).code == ExitCode.NOT_FOUND
    assert cli("broker", "--config", str(tmp_path / "no.conf")).code == ExitCode.NOT_FOUND
    (tmp_path / "bad.json").write_text("{}")
    assert cli("offsets", "reset", "--undo", str(tmp_path / "bad.json")).code == ExitCode.USAGE


def test_a_folder_in_place_of_a_file(cli: Run, tmp_path: Path) -> None:
    for command in (
        ("offsets", "reset", "--undo"),
        ("broker", "--config"),
        ("send", "T", "--file"),
        ("send", "T", "--jsonl", "--file"),
    ):
        result = cli(*command, str(tmp_path), "-n", "127.0.0.1:1")
        assert (result.code, result.err.count("\n")) == (ExitCode.USAGE, 1), command
        assert f"{tmp_path}: Is a directory" in result.err


def test_help_names_arguments_as_they_are_typed(cli: Run) -> None:
    lines = cli("send", "--help").out.decode().splitlines()
    assert lines[0] == "Usage: rmq send [OPTIONS] TOPIC [BODY]"
    begin = lines.index("Arguments:")
    assert [line.split()[0] for line in lines[begin + 1 : begin + 3]] == ["TOPIC", "BODY"]
    assert lines[begin + 1] == "  TOPIC  Name of the topic.  [required]"


def test_the_help_of_a_group_has_whole_sentences(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = cli("topic", "--help").out.decode()
    assert "..." not in text.partition("Commands:")[2]
    assert "and its consumer\n            groups." in text
    assert max(map(len, text.splitlines())) <= 80
