"""Runs command lines in this process, where coverage and debuggers see them, against one embedded cluster."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main

import rmqcli.cli.app
from rmqcli.__main__ import run
from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from tests.json_schema import SCHEMA, command_of, definition, faults, strict_definition
from tests.support import PATIENCE

# A process that runs one command line builds its command once; thousands of command lines in one process need no more.
setattr(rmqcli.cli.app, "command_tree", cache(rmqcli.cli.app.command_tree))  # noqa: B010
setattr(typer.main, "get_command_from_info", cache(typer.main.get_command_from_info))  # noqa: B010


class Result(NamedTuple):
    code: ExitCode
    out: bytes
    err: str

    @property
    def lines(self) -> list[list[str]]:
        """TSV."""
        return [line.split("\t") for line in self.out.decode().splitlines()]

    @property
    def json(self) -> Any:
        """A document; of an object, the members beside the version."""
        found = json.loads(self.out)
        assert list(faults(found, SCHEMA)) == []
        if isinstance(found, dict):
            del found["version"]
        return found

    @property
    def json_line(self) -> Any:
        """The only line, as those of messages are."""
        (line,) = self.json_lines
        return line

    @property
    def error(self) -> Any:
        """The error of `--json`, the last line on standard error."""
        found = json.loads(self.err.splitlines()[-1])
        assert list(faults(found, definition("error"))) == []
        return found["error"]

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Result]
ACCOUNT, SECRET = "account-of-tests", "no-output-shows-this"
"""The account that signs the requests of `rmq`; no command may show its secret key."""
CHECKED = 5
"""Lines at both ends of a long output that are compared with the schema."""


def check_documents(words: Sequence[str], out: bytes) -> None:
    """Hold what a command printed with --json to its definition in the schema."""
    wanted = "--json" in words and not {"--columns", "--help", "-h"} & set(words)
    command = command_of(words) if wanted else None
    if command is None:
        return
    lines = out.splitlines()
    for line in [*lines[:CHECKED], *lines[CHECKED:][-CHECKED:]]:
        assert list(faults(json.loads(line), strict_definition(command), command)) == [], line[:2000]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the profiles nor the environment of whoever runs the tests."""
    monkeypatch.setenv("RMQ_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("RMQ_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("RMQ_CACHE_DIR", str(tmp_path / "cache"))
    account = ("RMQ_ACCESS_KEY", "RMQ_SECRET_KEY", "RMQ_SECRET_KEY_FILE", "RMQ_SECURITY_TOKEN")
    for name in ("RMQ_NAMESRV", "NAMESRV_ADDR", "RMQ_PROFILE", "NO_COLOR", *account):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cli(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs one command line; `stdin` is what standard input holds."""

    def invoke(*arguments: str, stdin: bytes = b"") -> Result:
        saved = os.dup(0)
        with tempfile.TemporaryFile() as source:
            source.write(stdin)
            source.seek(0)
            os.dup2(source.fileno(), 0)
            try:
                code = run(arguments)
            finally:
                os.dup2(saved, 0)
                os.close(saved)
        out, err = capfdbinary.readouterr()
        assert SECRET.encode() not in out + err, arguments
        check_documents(arguments, out)
        return Result(code, out, err.decode())

    return invoke


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One cluster for all tests; every test has topics and groups of its own."""
    with embedded_in_thread() as running:
        yield running


@pytest.fixture
def rmq(cli: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    """As `cli`, with the cluster and an account in the environment, and patience for a busy machine."""
    monkeypatch.setenv("RMQ_NAMESRV", cluster.namesrv)
    monkeypatch.setenv("RMQ_ACCESS_KEY", ACCOUNT)
    monkeypatch.setenv("RMQ_SECRET_KEY", SECRET)
    monkeypatch.setattr("rmqcli.client.push.consumer.LEAVE", PATIENCE)
    return patient(cli)


def patient(cli: Run) -> Run:
    """Give command lines that name no timeout one that is enough on a busy machine."""

    def run(*arguments: str, stdin: bytes = b"") -> Result:
        patience = () if "--timeout" in arguments else ("--timeout", "30")
        return cli(*patience, *arguments, stdin=stdin)

    return run


@pytest.fixture
def environment(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a process that uses the cluster on a terminal of 80 columns."""
    monkeypatch.setenv("RMQ_NAMESRV", cluster.namesrv)
    return {**os.environ, "TERM": "xterm", "COLUMNS": "80"}


@pytest.fixture
def topic(rmq: Run, request: pytest.FixtureRequest) -> str:
    """A topic of four queues, named like the module and the test: the cluster is one for all of them."""
    full_name = f"{request.node.module.__name__.rpartition('.')[2]}-{request.node.name}"
    name = "".join(character if character.isalnum() else "_" for character in full_name)[-120:]
    assert rmq("topic", "create", name, "--queues", "4").code == 0
    return name


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the commands that typer builds from now on, in their order."""
    names: list[str] = []
    build = typer.main.get_command_from_info

    def noted(command_info: Any, **options: Any) -> Any:
        names.append(command_info.name)
        return build(command_info, **options)

    monkeypatch.setattr(typer.main, "get_command_from_info", noted)
    return names
