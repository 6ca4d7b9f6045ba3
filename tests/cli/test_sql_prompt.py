"""The prompt of `rmq sql` on a terminal, and its statements without one."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rmqcli.sql import prompt
from rmqcli.sql.prompt import converse, split
from tests.cli.seats import seated
from tests.support import PATIENCE, JavaStore

ENDLESS = b"select range from range(100000000000);\n"


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("select 1", [], "select 1"),
        ("select 1;", ["select 1"], ""),
        ("select 1; select\n2;\n sel", ["select 1", "select\n2"], "sel"),
        ("select ';' || 'it''s;';", ["select ';' || 'it''s;'"], ""),
        ("select 'a;\n", [], "select 'a;\n"),
        ('select 1 as "a;b";', ['select 1 as "a;b"'], ""),
        ("select 1 -- no; end\n;", ["select 1 -- no; end"], ""),
        ("select /* ; */ 1; /* ;", ["select /* ; */ 1"], "/* ;"),
        ("select $$;$$, $a$ ; $$ $a$;", ["select $$;$$, $a$ ; $$ $a$"], ""),
        (";;\n", [], ""),
    ],
)
def test_statements(text: str, statements: list[str], rest: str) -> None:
    assert split(text) == (statements, rest)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what is typed: lines, and exceptions that the terminal raises."""

    def put(*inputs: str | type[BaseException]) -> None:
        waiting: Iterator[str | type[BaseException]] = iter(inputs)

        def read(question: str) -> str:
            asked.append(question)
            found = next(waiting)
            if isinstance(found, str):
                return found
            raise found

        asked: list[str] = []
        monkeypatch.setattr("builtins.input", read)

    return put


def test_lines(typed: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    found: list[str] = []
    typed(
        "select 1,",
        "2; select",
        KeyboardInterrupt,
        "show tables;",
        ".tables",
        ".help",
        "",
        "values (1)",
        EOFError,
    )
    converse(found.append)
    assert found == ["select 1,\n2", "show tables", "show tables"]
    assert "cancelled" in (said := capsys.readouterr().err)
    assert ".quit" in said


def test_ctrl_c_in_a_statement(typed: Callable[..., None]) -> None:
    found: list[str] = []

    def execute(statement: str) -> None:
        found.append(statement)
        if len(found) == 1:
            raise KeyboardInterrupt

    typed("select 1; select 2;", "select 3;", "quit")
    converse(execute)
    assert found == ["select 1", "select 3"]


def test_a_history_that_cannot_be_kept(
    typed: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(prompt, "history_path", lambda: tmp_path / "file" / "sql_history")
    typed(EOFError)
    converse(lambda statement: None)


def test_on_a_terminal(store_clean: JavaStore, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    environment = {**os.environ, "TERM": "dumb", "COLUMNS": "80", "RMQ_STATE_DIR": str(tmp_path)}
    environment["TMPDIR"] = str(folder)
    with seated(environment, "sql", "--store", str(store_clean.root)) as seat:
        seat.see(b"rmq> ")
        seat.type(b"select tags, count(*) n\n")
        seat.see(b"...> ")
        seat.type(b"from SeedTags group by 1 order by 1;\n")
        seat.see(b"TagC  60")
        seat.see(b"rmq> ")
        seat.type(b"selec 1;\n")
        seat.see(b'rmq: line 1, column 1: syntax error at or near "selec"')
        seat.see(b"rmq> ")
        seat.type(ENDLESS)
        seat.see(b"999")
        seat.process.send_signal(signal.SIGINT)
        seat.see(b"cancelled")
        seat.see(b"rmq> ")
        seat.type(b"select 6 * 7;\n")
        seat.see(b"42")
        seat.see(b"rmq> ")
        seat.type(b"\x04")
        assert seat.process.wait(PATIENCE) == 0
        while select.select([seat.terminal], [], [], 0)[0]:
            seat.seen += os.read(seat.terminal, 65536)
        assert seat.seen.strip() == b"", "nothing is said of objects that are left"
    assert list(folder.iterdir()) == []
    with seated(environment, "sql", "--store", str(store_clean.root)) as seat:
        seat.see(b"rmq> ")
        seat.type(ENDLESS)
        seat.see(b"999")
        assert len(list(folder.iterdir())) == 1
        seat.process.terminate()
        assert seat.process.wait(PATIENCE) == -signal.SIGTERM
    assert list(folder.iterdir()) == [], "no message is left on the disk"
    assert ENDLESS.decode() in (tmp_path / "sql_history").read_text()
    assert (tmp_path / "sql_history").stat().st_mode & 0o777 == 0o600
