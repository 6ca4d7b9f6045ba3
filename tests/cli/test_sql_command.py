"""`rmq sql` as typed: the forms of its output, its errors and their exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import parquet

from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run
from tests.support import JavaStore

COUNTS = "select tags, count(*) n, list(queue_id order by queue_id)[:2] q from SeedTags group by 1 order by 1"


@pytest.fixture
def sql(cli: Run, store_clean: JavaStore) -> Run:
    """Over the Java store."""
    return lambda *arguments: cli("sql", "--store", str(store_clean.root), *arguments)


def test_forms(sql: Run) -> None:
    assert sql(COUNTS).lines[:2] == [["Aa", "60", "0,0"], ["BB", "60", "0,0"]]
    assert sql(COUNTS, "--header").lines[0] == ["tags", "n", "q"]
    assert sql(COUNTS, "--csv").out.splitlines()[1] == b'Aa,60,"0,0"'
    assert sql(COUNTS, "--json").json_lines[0] == {"tags": "Aa", "n": 60, "q": [0, 0]}
    assert sql(COUNTS, "--columns", "n,tags").lines[0] == ["60", "Aa"]
    assert sql("select null as a where false").out == b""


VALUES = """
select '2026-11-21 12:00:00.5+01'::timestamptz t, 'infinity'::timestamp i, date '2026-11-21' d, time '10:00' c,
interval '1 month 2 days 3.5 seconds' v, 1.50 m, 2::hugeint h, 'nan'::float f, true b, null n,
'a\\xFFb'::blob y, map{'k': 1} p, {'a': [1, null]} s, [[1], []] l, 'x\ty' e, uuid '00000000-0000-0000-0000-000000000001' u
"""


def test_values(sql: Run) -> None:
    assert sql(VALUES, "--json").json_lines == [
        {
            "t": "2026-11-21T11:00:00.500Z",
            "i": "infinity",
            "d": "2026-11-21",
            "c": "10:00:00",
            "v": "P1M2DT3.5S",
            "m": 1.5,
            "h": 2,
            "f": None,
            "b": True,
            "n": None,
            "y": "a\\xffb",
            "p": {"k": 1},
            "s": {"a": [1, None]},
            "l": [[1], []],
            "e": "x\ty",
            "u": "00000000-0000-0000-0000-000000000001",
        }
    ]
    line = sql(VALUES).lines[0]
    assert line[4:] == [
        "P1M2DT3.5S",
        "1.5",
        "2",
        "nan",
        "true",
        "",
        "a\\\\xffb",
        '{"k":1}',
        '{"a":[1,null]}',
        "[[1],[]]",
        "x\\ty",
        *line[-1:],
    ]


def test_a_parquet_file(sql: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    found = sql("select *, tags from SeedTags where queue_id = 1", "--out", str(out))
    assert (found.code, found.out) == (0, b"")
    assert found.err.startswith(f"wrote {out}: 75 rows, ")
    assert parquet.read_metadata(out).num_row_groups == 1
    table = parquet.read_table(out)
    assert (table.num_rows, table.column_names[-1]) == (75, "tags_1")
    again = sql("select 1 as a", "--out", str(out))
    assert (again.code, again.err) == (ExitCode.USAGE, f"rmq: {out}: exists; --replace overwrites it\n")
    size = sql("select 1 as a", "--out", str(out), "--replace", "--json").json
    assert size == {"out": str(out), "rows": 1, "bytes": out.stat().st_size}


def test_a_query_that_fails_leaves_no_file(sql: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    found = sql("select 1 / 0 / cast(body::text as int) from SeedTags", "--out", str(out))
    assert found.code == ExitCode.USAGE
    assert list(tmp_path.glob("*out*")) == []


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (
            ("select tag from SeedTags",),
            ExitCode.USAGE,
            'line 1, column 8: Referenced column "tag" not found',
        ),
        (
            ("select * from SeedTag",),
            ExitCode.NOT_FOUND,
            "topic SeedTag not found; list the tables with: show tables; did you mean SeedTags",
        ),
        (
            ("select 1", "--out", "x.csv"),
            ExitCode.USAGE,
            "--out x.csv: expected a name that ends with .parquet",
        ),
        (
            ("select 1", "--out", "x.parquet", "--csv"),
            ExitCode.USAGE,
            "--columns, --sort, --header and --csv",
        ),
        (("select 1", "--replace"), ExitCode.USAGE, "--replace requires --out"),
        (("select 1", "--sort", "a"), ExitCode.USAGE, "--sort: rows are printed as they come"),
        (("select 1 as a", "--columns", "b"), ExitCode.USAGE, "--columns b: expected a"),
        (("select 1", "--memory", "much"), ExitCode.USAGE, "--memory much: expected a size"),
        (
            ("select 1", "--broker-name", "a", "--broker-name", "b"),
            ExitCode.USAGE,
            "2 broker names for 1 store",
        ),
        ((), ExitCode.USAGE, "specify a QUERY"),
        (("--out", "x.parquet"), ExitCode.USAGE, "--out requires a QUERY"),
        (("copy SeedTags to 'x'",), ExitCode.USAGE, "COPY is refused"),
    ],
)
def test_refusals(sql: Run, words: tuple[str, ...], code: ExitCode, text: str) -> None:
    found = sql(*words)
    assert (found.code, found.out, found.err.count("\n")) == (code, b"", 1), found.err
    assert found.err.startswith(f"rmq: {text}")


def test_errors_as_documents(sql: Run) -> None:
    error = sql("select * from SeedTag", "--json").error
    assert (error["kind"], error["didYouMean"][0]) == ("not_found", "SeedTags")


def test_damage(cli: Run, copy_java_store: Callable[[str], JavaStore]) -> None:
    store = copy_java_store("store-five")
    path = store.commit_logs[0]
    path.write_bytes(path.read_bytes()[:300] + bytes([255]) * 100 + path.read_bytes()[400:])
    found = cli("sql", "--store", str(store.root), "select count(*) from rmq.messages")
    assert (found.code, found.out) == (ExitCode.CORRUPT, b"")
    assert found.err.startswith(f"rmq: {path}: byte ")


def test_no_server_and_no_store(cli: Run, tmp_path: Path) -> None:
    found = cli("sql", "select * from orders", "-n", "127.0.0.1:1")
    assert (found.code, found.err.count("\n")) == (ExitCode.NO_CONNECTION, 1)
    missing = cli("sql", "select 1", "--store", str(tmp_path / "none"))
    assert (missing.code, missing.err) == (
        ExitCode.NOT_FOUND,
        f"rmq: {tmp_path / 'none'}: No such file or directory\n",
    )
    needless = cli("sql", "select 1", "--walk")
    assert (needless.code, needless.err) == (
        ExitCode.USAGE,
        "rmq: --broker-name, --walk and --no-verify require --store\n",
    )


def test_a_cluster(rmq: Run, topic: str) -> None:
    assert rmq("send", topic, "hello", "-k", "k1", "-t", "paid").code == 0
    found = rmq("sql", f"select topic, keys, body from {topic}", "--json")
    assert (found.code, found.json_lines) == (0, [{"topic": topic, "keys": ["k1"], "body": "hello"}])
    wrong = rmq("sql", f"select * from {topic[:-1]}")
    assert wrong.code == ExitCode.NOT_FOUND
    assert f"did you mean {topic}" in wrong.err


@pytest.mark.parametrize("package", ["duckdb", "pyarrow"])
def test_without_the_extra(cli: Run, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    found = cli("sql", "select 1")
    text = f"rmq: package {package} is not installed: pip install 'rmqcli[sql]'\n"
    assert (found.code, found.err) == (ExitCode.USAGE, text)


def test_several_stores(cli: Run, store_clean: JavaStore, store_killed: JavaStore) -> None:
    stores = ("--store", str(store_clean.root), "--store", str(store_killed.root))
    names = ("--broker-name", "a", "--broker-name", "b")
    found = cli("sql", *stores, *names, "select distinct broker_name from rmq.messages order by 1", "--json")
    assert [json.loads(line)["broker_name"] for line in found.out.splitlines()] == ["a", "b"]
