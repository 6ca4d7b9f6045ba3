"""The files checked in are those of the command tree, and shells and man can read them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rmqcli.cli import completing
from rmqcli.cli.app import COMMANDS
from rmqcli.cli.completing import KINDS
from rmqcli.cli.profile_values import Profile
from rmqcli.cli.profiles import save_profile
from rmqcli.cli.settings import Given, Settings
from rmqcli.manual import generated_files
from rmqcli.manual.__main__ import main
from rmqcli.manual.pages import Node, command_nodes

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def nodes() -> list[Node]:
    return command_nodes()


@pytest.fixture(scope="module")
def files() -> Mapping[Path, str]:
    return generated_files(ROOT)


def test_generated_files_are_up_to_date(files: Mapping[Path, str]) -> None:
    stale = [
        str(path)
        for path, text in files.items()
        if not (ROOT / path).exists() or (ROOT / path).read_text("utf-8") != text
    ]
    assert not stale, "run: python -m rmqcli.manual"
    assert {path.name for path in (ROOT / "man").iterdir()} == {
        path.name for path in files if path.parent.name == "man"
    }


def test_writing_removes_what_is_gone(
    files: Mapping[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "man").mkdir()
    (tmp_path / "completions").mkdir()
    for path in (ROOT / "completions").iterdir():
        (tmp_path / "completions" / path.name).write_text(path.read_text("utf-8").replace("topic", "gone"))
    (tmp_path / "man" / "rmq-gone.1").write_text("")
    main()
    assert all((tmp_path / path).read_text("utf-8") == text for path, text in files.items())
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == {
        str(path) for path in files
    }


def test_a_grammar_is_explained_where_it_is_used(files: Mapping[Path, str]) -> None:
    """Not where another option has a value of the same name, as the limits of `rmq check`."""
    pages = {path.stem: text for path, text in files.items() if path.parent.name == "man"}
    for title, option in (("RANGES", r"\\-o, \\-\\-offset RANGE"), ("FORMATS", r"\\-f, \\-\\-format FORMAT")):
        explaining = {name for name, text in pages.items() if f".SH {title}" in text}
        assert explaining == {name for name, text in pages.items() if re.search(option, text)}
        assert not any(name.startswith("rmq-check") for name in explaining)


def test_manuals_say_what_a_reader_can_use(files: Mapping[Path, str]) -> None:
    """Texts shared with the code do not tell how the code works."""
    for path, text in files.items():
        if path.parent.name == "man":
            assert not re.search(r"first tried|the separator;|cursor of|Returns|Raises|docstring", text), path


def test_every_command_has_help_and_an_example(nodes: list[Node]) -> None:
    assert {node.path[0] for node in nodes if node.path} == set(COMMANDS)
    for node in nodes:
        assert node.summary, node.name
        assert all(text for _, text in node.arguments), node.name
        assert all(option.text for option in node.options), node.name
        if not node.commands:
            assert node.examples, node.name
            assert all(
                line.startswith(node.name) or "| rmq" in line or "rmq" in line for line in node.examples
            ), node.name


def test_help_fits_eighty_columns() -> None:
    for entry, text in COMMANDS.items():
        assert len(f"  {entry:8} {text.help}") <= 80, entry


def test_every_command_has_the_global_options(nodes: list[Node]) -> None:
    wanted = {"--namesrv", "--profile", "--json", "--color", "--verbose", "--timeout"}
    for node in nodes:
        assert wanted <= {name for option in node.options if option.is_global for name in option.names}, (
            node.name
        )


def test_man_reads_the_pages_without_a_warning() -> None:
    """man starts six processes for a page: one is read by it, all by the program that it starts."""
    assert shutil.which("man"), "the package man-db is needed"
    pages = sorted(map(str, (ROOT / "man").glob("*.1")))
    for command in (
        ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", pages[0]],
        ["groff", "-Kutf8", "-mandoc", "-Tutf8", "-ww", "-Z", *pages],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert (done.stderr, bool(done.stdout)) == ("", True)


def complete(*words: str) -> set[str]:
    """Return the completions of the last word in bash."""
    script = (
        'source "$1"; shift; COMP_WORDS=(rmq "$@"); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); _rmq; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    command = ["bash", "-c", script, "bash", str(ROOT / "completions" / "rmq.bash"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completion() -> None:
    assert complete("") == set(COMMANDS)
    assert complete("topi") == {"topic"}
    assert complete("topic", "de") == {"describe", "delete"}
    assert complete("-n", "topic", "topic", "li") == {"list"}
    assert complete("topic", "--json", "list", "--al") == {"--all"}
    assert complete("send", "orders", "--del") == {"--delay", "--delay-level", "--delimiter"}
    assert complete("send", "orders", "--file", "pyp") == {"pyproject.toml"}
    assert complete("send", "orders", "--key", "") == set()
    assert complete("offsets", "reset", "--undo", "READ") <= {"README.md"}
    assert complete("inspect", "commitlog", "rmqcl") == {"rmqcli"}


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names in the cache, and rmq where shells look for it."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    cluster = repr(Settings().client_options)
    other = repr(Settings(Given(namesrv="other:1234")).client_options)
    completing.store(
        completing.cache_path("topics", cluster), ["orders", "order-items", "refunds", "$(exit)"]
    )
    completing.store(completing.cache_path("groups", cluster), ["billing"])
    completing.store(completing.cache_path("groups", other), ["shipping"])
    completing.store(completing.cache_path("brokers", cluster), ["broker-a"])
    save_profile("prod", Profile("a:1"))


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_values_of_options_and_arguments(shell: str) -> None:
    """Names of the cluster that the words name, and one of few words; free text where the names end."""
    none = {"bash": set[str](), "zsh": {"VALUE"}, "fish": set[str]()}[shell]

    def found(*words: str) -> set[str]:
        return complete(*words) if shell == "bash" else offered(shell, *words)

    assert found("pull", "ord") == {"orders", "order-items"}
    assert found("pull", "") == {"orders", "order-items", "refunds", "$(exit)"}
    assert found("send", "orders", "") - none == set()
    assert found("tail", "orders", "--count", "3", "ref") == {"refunds"}
    assert found("offsets", "reset", "bil") == {"billing"}
    assert found("offsets", "reset", "billing", "ref") == {"refunds"}
    assert found("consume", "orders", "-g", "") == {"billing"}
    assert found("-n", "other:1234", "group", "describe", "") == {"shipping"}
    assert found("broker", "drain", "") == {"broker-a"}
    assert found("pull", "orders", "-b", "") == {"broker-a"}
    assert found("topic", "list", "--profile", "") == {"prod"}
    assert found("topic", "list", "--color", "a") == {"always", "auto"}
    assert found("check", "lag", "--format", "") == {"nagios", "prometheus", "json"}
    assert found("help", "ran") == {"ranges"}
    assert found("cheat", "offs") == {"offsets"}


def test_what_is_offered_is_accepted(nodes: list[Node]) -> None:
    """Kinds are known, and words are those that the help names."""
    for node in nodes:
        offering = [(option.text, option.values) for option in node.options]
        offering += [(text, values) for (_, text), values in zip(node.arguments, node.values, strict=True)]
        for text, values in offering:
            assert not values.names or values.names in KINDS
            if node.path not in (("help",), ("cheat",)) and "range" not in text.lower():
                assert [word for word in values.words if word not in text] == [], node.name


IN_ZSH = r"""
compdef() { }
_describe() { [[ $1 == -o ]] && shift; local -a found=("${(@P)2}"); print -rl -- "${(@)found%%:*}" }
_files() { print FILES }
_message() { print VALUE }
source $1; shift
words=(rmq "$@") CURRENT=$(( $# + 1 )) PREFIX=$argv[-1]
_rmq
"""


def test_zsh_shows_backslashes() -> None:
    text = (ROOT / "completions" / "_rmq").read_text("utf-8")
    assert r"'--delimiter:Message separator; supports \\n \\t \\0 \\xNN." in text


def offered(shell: str, *words: str) -> set[str]:
    """Return the completions in zsh or fish; FILES or VALUE if a file or any text is expected."""
    assert shutil.which(shell), f"the package {shell} is needed"
    if shell == "zsh":
        command = ["zsh", "-f", "-c", IN_ZSH, "zsh", "completions/_rmq", *words]
    else:
        line = shlex.join(["rmq", *words[:-1], ""]) if len(words) > 1 else "rmq "
        line = line.removesuffix("''") + words[-1]
        command = ["fish", "-c", "source completions/rmq.fish; complete -C $argv[1]", line]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == ""
    names = {line.partition("\t")[0] for line in done.stdout.splitlines()}
    return {name for name in names if name.startswith(words[-1]) or name in ("FILES", "VALUE")}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_of_the_other_shells(shell: str) -> None:
    assert offered(shell, "") == set(COMMANDS)
    assert offered(shell, "topi") == {"topic"}
    assert offered(shell, "topic", "de") == {"describe", "delete"}
    assert offered(shell, "-n", "topic", "topic", "li") == {"list"}
    assert offered(shell, "topic", "--json", "list", "--al") == {"--all"}
    assert offered(shell, "send", "orders", "--del") == {"--delay", "--delay-level", "--delimiter"}
    assert (
        offered(shell, "send", "orders", "--file", "pyp")
        == {"zsh": {"FILES"}, "fish": {"pyproject.toml"}}[shell]
    )
    assert offered(shell, "send", "orders", "--key", "pyp") == {"zsh": {"VALUE"}, "fish": set()}[shell]
    assert offered(shell, "inspect", "commitlog", "rmqcl") == {"zsh": {"FILES"}, "fish": {"rmqcli/"}}[shell]
