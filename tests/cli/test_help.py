"""Help: a screen of what most people need, examples first, in words; `rmq help` explains the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil
from typing import Any

import pytest
import typer

from rmqcli.cli.app import COMMANDS, command_tree, sections
from rmqcli.cli.exit_codes import EXIT_TEXTS, ExitCode
from rmqcli.cli.help import GLOBAL_LINE, LINES, in_words, panels_of
from rmqcli.cli.help_topics import TOPICS, VERBATIM, fitted
from rmqcli.cli.tls import FIELDS
from tests.cli.conftest import Run
from tests.json_schema import SCHEMA

COLUMNS = 80
_NOTATION = re.compile(r"[<>]=|\bx[<>]|\{[A-Z]")


def every(command: Any, context: Any) -> Iterator[tuple[str, Any, str]]:
    """Yield the name, command and help of each command of the tree."""
    yield context.command_path, command, command.get_help(context)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else []:
        child = command.get_command(context, name)
        yield from every(child, typer.Context(child, info_name=name, parent=context))


@pytest.fixture(scope="module")
def helps() -> dict[str, tuple[Any, str]]:
    tree = command_tree()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", str(COLUMNS))
        found = every(tree, typer.Context(tree, info_name="rmq", help_option_names=["-h", "--help"]))
        return {name: (command, text) for name, command, text in found}


def test_the_common_part_fits_a_screen(helps: dict[str, tuple[Any, str]]) -> None:
    for name, (command, text) in helps.items():
        if hasattr(command, "list_commands"):
            continue
        lines = text.splitlines()
        common = lines[: lines.index(GLOBAL_LINE) + 1]
        height = sum(max(1, ceil(len(line) / COLUMNS)) for line in common)
        # long examples take two lines
        assert len(common) <= LINES, name
        assert height <= LINES + 2, name
        assert lines[0].startswith(f"Usage: {name} "), name
        assert not re.search(r"[{}]|\[\[|\.{4}", lines[0]), lines[0]
        assert lines[4] in ("Examples:", "Example:") or lines[5] in ("Examples:", "Example:"), name


def test_no_line_of_a_help_is_wider_than_a_screen(helps: dict[str, tuple[Any, str]], cli: Run) -> None:
    pages = {name: text for name, (_, text) in helps.items()}
    topics = [name for name in TOPICS if name not in VERBATIM]
    assert len(topics) >= 6
    pages |= {name: cli("help", name).out.decode() for name in topics}
    wide = {(name, line) for name, text in pages.items() for line in text.splitlines() if len(line) > COLUMNS}
    assert wide == set()


def test_every_command_has_an_example(helps: dict[str, tuple[Any, str]]) -> None:
    leaves = {name: text for name, (command, text) in helps.items() if not hasattr(command, "list_commands")}
    assert {name for name, text in leaves.items() if not re.search(r"Examples?:\n  \S", text)} == set()


def test_texts_are_filled_and_their_columns_kept() -> None:
    text = "Words of a\nparagraph.\n\n    NAME  what it means here\n    LONG  short"
    assert fitted(text, 24) == (
        "Words of a paragraph.\n\n    NAME  what it means\n          here\n    LONG  short"
    )


def test_help_is_in_words(helps: dict[str, tuple[Any, str]]) -> None:
    for name, (_, text) in helps.items():
        typed = re.sub(
            r"'[^']*'|(?<=Example:\n).*?(?=\n\n)|(?<=Examples:\n).*?(?=\n\n)", "", text, flags=re.S
        )
        assert not _NOTATION.search(typed), name
        assert len(re.findall("^  .*--namesrv HOST", text, re.M)) == (name == "rmq"), name


def test_every_option_is_shown_once(helps: dict[str, tuple[Any, str]]) -> None:
    for name, (command, text) in helps.items():
        options = [one for one in command.params if one.param_type_name == "option"]
        own = [one for one in options if getattr(one, "rich_help_panel", None) is None and name != "rmq"]
        for option in own:
            longest = max(option.opts, key=len)
            assert (
                len(re.findall(rf"^  (?:-\w, )?{longest}(?![\w-])", text.partition("\nDetails:")[0], re.M))
                == 1
            ), (name, longest)


def test_panels_name_options_that_exist(helps: dict[str, tuple[Any, str]]) -> None:
    for path, (command, _) in helps.items():
        known = {name for one in command.params for name in one.opts}
        for title, names in panels_of(command).items():
            assert set(names.split()) <= known, (path, title)


def test_the_list_of_commands_has_sections(helps: dict[str, tuple[Any, str]]) -> None:
    _, text = helps["rmq"]
    titles = re.findall(r"^(\w[\w ]+):$", text, re.M)
    expected = ["Examples", "Messages", "Administration", "Files", "Servers", "Help", "Global options"]
    assert titles == expected
    assert [
        name for names in sections(COMMANDS).values() for name in names if f"\n  {name} " not in text
    ] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("N. [default: 1; x>=1]", "N. [default: 1; at least 1]"),
        ("N. [0<=x<=65535]", "N. [0 to 65535]"),
        ("N. [x>=0]", "N."),
        ("N. [default: 5; x>=0]", "N. [default: 5]"),
        ("N. [x>=0.001]", "N. [more than 0]"),
        ("N. [x<=9]", "N. [at most 9]"),
        ("'x>=5' [required]", "'x>=5' [required]"),
    ],
)
def test_bounds_in_words(text: str, words: str) -> None:
    assert in_words(text) == words


def test_help_explains_commands_and_topics(cli: Run) -> None:
    assert cli("help", "offsets", "reset").out == cli("offsets", "reset", "--help").out
    assert cli("help").out == cli("--help").out
    assert b"%v body" in cli("help", "formats").out
    assert b"the last N messages" in cli("help", "ranges").out
    assert len(cli("help", "exit-codes").out.splitlines()) == len(EXIT_TEXTS)
    assert b"NO_COLOR" in cli("help", "environment").out
    unknown = cli("help", "nosuch")
    assert (unknown.code, unknown.out) == (ExitCode.USAGE, b"")
    assert "No such command 'nosuch'" in unknown.err


def test_topics_are_texts_for_users(helps: dict[str, tuple[Any, str]]) -> None:
    (words,) = (one for one in helps["rmq help"][0].params if one.name == "words")
    for name, text in TOPICS.items():
        assert re.search(rf"[,:] {name}[,.]", words.help), name
        assert text().strip(), name
    tls = TOPICS["tls"]()
    for field in FIELDS:
        assert f"    --{field.replace('_', '-')}" in tls
        assert f"RMQ_{field.upper()}" in tls
    description = SCHEMA["description"].split(". ")
    assert len(description) == len(set(description))
