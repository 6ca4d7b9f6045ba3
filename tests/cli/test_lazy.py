"""Imports by command: help must not wait for modules that it does not need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rmqcli import version_text
from rmqcli.cli.app import COMMANDS, run
from rmqcli.manual.pages import command_nodes
from tests.seeds import times

HEAVY = {
    "trio",
    "numpy",
    "pyarrow",
    "pyspark",
    "lark",
    "rich",
    "pandas",
    "cramjam",
    "backports.zstd",
    "construct",
    "hdrh",
    "pygal",
    "fastavro",
    "google.protobuf",
    "hpack",
    "cryptography",
    "rmqcli.client",
}
PROGRAM = """
import sys
from typing import Any
from rmqcli.__main__ import run
code = run(sys.argv[1:])
sys.stdout.flush()
print("\\n".join(sys.modules), file=sys.stderr)
sys.exit(code)
"""
HELPS = """
import io, json, os, sys
from contextlib import redirect_stdout
from rmqcli.__main__ import run
for name in sys.argv[1:]:
    if os.fork():
        assert os.wait()[1] == 0
        continue
    with redirect_stdout(io.StringIO()) as out:
        run([name, "--help"])
    print(json.dumps([name, out.getvalue(), [*sys.modules]]), file=sys.stderr)
    sys.stderr.flush()
    os._exit(0)
"""
"""Each help is that of a copy of a process that has imported nothing but the entry point."""


def run_fresh(*arguments: str) -> tuple[str, set[str]]:
    """Output, and the modules that were imported, of a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout, set(done.stderr.split())


@pytest.mark.parametrize(
    "words",
    [
        "topic list",
        "topic top",
        "topic entries T",
        "pull T",
        "query T --key k",
        "offsets show G",
        "doctor",
        "broker status",
        "broker config show",
        "broker ping",
        "namesrv kv list N",
    ],
)
def test_a_command_that_runs_imports_no_drawing_and_no_columns(words: str) -> None:
    command = [sys.executable, "-c", PROGRAM, *words.split(), "-n", "127.0.0.1:1"]
    modules = set(subprocess.run(command, capture_output=True, text=True, check=False).stderr.splitlines())
    assert "rmqcli.client" in modules
    assert not modules & {
        "numpy",
        "pyarrow",
        "pyspark",
        "lark",
        "rich",
        "pandas",
        "pydantic",
        "cramjam",
        "rmqcli.broker",
    }


def test_a_request_takes_nothing_of_consumers_and_accounts() -> None:
    command = [sys.executable, "-c", PROGRAM, "topic", "list", "-n", "127.0.0.1:1"]
    modules = set(subprocess.run(command, capture_output=True, text=True, check=False).stderr.splitlines())
    assert "rmqcli.client.wire.link" in modules
    assert not modules & {
        "encodings.idna",
        "yaml",
        "rmqcli.codec.operations.clients",
        "rmqcli.client.wire.tls",
        "rmqcli.client.wire.credentials",
    }


def test_a_pull_takes_nothing_of_members_and_store_files() -> None:
    command = [sys.executable, "-c", PROGRAM, "pull", "T", "-n", "127.0.0.1:1"]
    modules = set(subprocess.run(command, capture_output=True, text=True, check=False).stderr.splitlines())
    assert "rmqcli.client.pull.consumer" in modules
    assert not [one for one in modules if one.startswith(("rmqcli.store", "rmqcli.client.push"))]


def test_version_imports_nothing() -> None:
    out, modules = run_fresh("--version")
    assert out == version_text() + "\n"
    assert not modules & (HEAVY | {"typer", "rmqcli.codec.core.hashing", "msgspec", "rmqcli.cli.app"})


def test_help_reads_only_the_table() -> None:
    out, modules = run_fresh("--help")
    assert all(entry.help.split()[0] in out for entry in COMMANDS.values())
    assert not modules & (HEAVY | {"msgspec", "rmqcli.codec"})
    assert not [name for name in modules if name.startswith("rmqcli.commands")]


def test_help_of_a_command_imports_only_that_command() -> None:
    some = [*COMMANDS][:: max(1, 4 // times(1))]
    done = subprocess.run([sys.executable, "-c", HELPS, *some], capture_output=True, text=True, check=True)
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert [name for name, _, _ in told] == some
    for name, out, modules in told:
        assert out.startswith(f"Usage: rmq {name} "), name
        assert "trio" not in modules or name == "up", name
        assert not {"numpy", "pyarrow", "pyspark", "lark", "rich"} & set(modules), name


def test_the_version_option_among_others() -> None:
    assert run_fresh("--json", "--version")[0] == version_text() + "\n"


def test_only_the_command_that_is_called_is_built(built: list[str]) -> None:
    for words in (["topic", "--json", "list", "more"], ["topic", "bogus"]):
        run(words)
    count = len(built)
    assert built[0] == "list"
    topics = [
        name.split() for name in (node.name for node in command_nodes()) if name.startswith("rmq topic ")
    ]
    groups = {words[2] for words in topics if len(words) > 3}
    assert sorted(built[1:count]) == sorted(
        words[-1] for words in topics if words[2] not in groups or len(words) > 3
    )


def test_of_a_verb_of_the_first_module_no_other_is_imported() -> None:
    command = [sys.executable, "-c", PROGRAM, "topic", "list", "-n", "127.0.0.1:1"]
    modules = set(subprocess.run(command, capture_output=True, text=True, check=False).stderr.splitlines())
    parts = {one for one in modules if one.startswith("rmqcli.commands.topic.")}
    assert parts == {"rmqcli.commands.topic.app", "rmqcli.commands.topic.show"}


def test_an_unknown_option_names_verbs_of_other_modules_too() -> None:
    code = "from rmqcli.__main__ import run; run(['topic', 'list', '--attribute', 'x'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "create and update have it" in done.stderr


def test_help_keeps_its_order_after_one_verb_was_imported() -> None:
    code = "from rmqcli.__main__ import run; run(['topic', 'delete']); run(['topic', '--help'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    shown = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ") and line[2] != " "]
    nodes = {node.path: node for node in command_nodes()}
    assert shown == [name for name, _ in nodes["topic",].commands]
    assert "topic describe" not in done.stderr and "missing argument" in done.stderr.lower()


@pytest.mark.parametrize(
    "words",
    [
        "topic list",
        "broker status",
        "profile list",
        "doctor",
        "send",
        "offsets reset",
        "inspect verify",
        "export",
    ],
)
def test_the_help_of_a_command_reads_no_messages(words: str) -> None:
    _, modules = run_fresh(*words.split(), "--help")
    assert not modules & {"msgspec", "trio", "numpy", "pyarrow", "lark"}
