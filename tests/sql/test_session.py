"""What a query may not do, its errors, and its end by Ctrl-C, by a source of made-up rows."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rmqcli.client import NotPermitted
from rmqcli.codec.scan.arrow import schema
from rmqcli.sql.engine import Session, Worker
from rmqcli.sql.errors import InvalidQuery, ReadAgain, SqlError, UnknownTable
from rmqcli.sql.result import Result
from rmqcli.sql.stores import Bounds
from tests.sql.conftest import MEMORY, Ask, ask_of
from tests.support import PATIENCE

ROWS = 2000


class Made:
    """Topics of `count` batches, which end with an error, if there is one."""

    def __init__(
        self, names: Sequence[str] = ("orders",), count: int = 1, error: Exception | None = None
    ) -> None:
        self.names, self.count, self.error = list(names), count, error
        self.wanted: list[Bounds] = []
        self.ended = 0

    def has(self, name: str) -> bool:
        return name in self.names

    def scan(self, bounds: Bounds, check: Callable[[], None]) -> Iterator[Any]:
        self.wanted.append(bounds)
        rows = {
            "topic": sorted(bounds.topics)[:1] * ROWS,
            "queue_offset": range(ROWS),
            "body": [b"x" * 900] * ROWS,
        }
        empty = [None] * ROWS
        columns = [pa.array(rows.get(field.name, empty), field.type) for field in schema()]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema())
        try:
            for _ in range(self.count):
                check()
                yield batch
            if self.error is not None:
                raise self.error
        finally:
            self.ended += 1

    def cancel(self) -> None:
        pass


def opened(source: Made) -> Session:
    return Session(source, MEMORY)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with opened(Made(("orders", "Orders", "%RETRY%a-b", "select"))) as found:
        yield found


@pytest.fixture
def ask(session: Session) -> Ask:
    return ask_of(session)


REFUSED = """
copy orders to '{folder}/x.csv'
copy (select 1) to '{folder}/x.parquet'
attach '{folder}/x.db'
export database '{folder}/x'
import database '{folder}'
install httpfs
load httpfs
create table t (a int)
create view v as select 1
insert into orders values (1)
delete from orders
drop view orders
pragma enable_profiling
pragma memory_limit = '64GB'
set memory_limit = '64GB'
set enable_external_access = true
reset lock_configuration
set variable a = 1
call enable_logging(storage = 'file', storage_path = '{folder}/log')
use memory
vacuum
prepare p as select 1
begin
create secret (type s3)
checkpoint
detach memory
explain analyze copy (select 1) to '{folder}/x.csv'
select * from read_csv('{folder}/secret.csv')
select * from '{folder}/secret.csv'
select * from read_text('{folder}/*')
select * from read_blob('/etc/passwd')
select * from glob('{folder}/*')
select * from parquet_scan('{folder}/x.parquet')
select * from sniff_csv('{folder}/secret.csv')
select * from read_json('https://localhost:1/x')
select * from enable_logging('x')
select * from duckdb_secrets()
select getenv('HOME')
select 1; copy (select 1) to '{folder}/x.csv'
"""


@pytest.mark.parametrize("statement", [line for line in REFUSED.splitlines() if line])
def test_a_query_only_reads_topics(ask: Ask, tmp_path: Path, statement: str) -> None:
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    with pytest.raises((InvalidQuery, UnknownTable)):
        ask(statement.format(folder=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]
    assert ask("select count(*) from orders") == [(ROWS,)]


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("selec 1", 'line 1, column 1: syntax error at or near "selec"'),
        ("select 1,\n  foo\nfrom orders", 'line 2, column 3: Referenced column "foo" not found'),
        ("select 'ü', foo from orders", 'line 1, column 13: Referenced column "foo" not found'),
        ("select nothing(1)", "line 1, column 8: Scalar Function with name nothing does not exist"),
        ("select cast(body::text as int) from orders", "line 1, column 8: Could not convert string"),
        ("explain select foo from orders", 'line 1, column 16: Referenced column "foo" not found'),
        ("select 1; select 2", "2 statements: expected one"),
        ("", "0 statements: expected one"),
        ("select * from rmq.orders", "orders: of all tables only rmq.messages is in a schema"),
        (
            "select * from nowhere.orders",
            'line 1, column 15: Table with name "nowhere.orders" does not exist',
        ),
        ("copy orders to 'x'", "COPY is refused: a query only reads"),
        ('select * from orders join "Orders" using (msg_id)', "topics orders and Orders differ only in case"),
    ],
)
def test_errors_name_the_place(ask: Ask, statement: str, text: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        ask(statement)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("name", ["order", "nowhere", "ORDERS", "information", "%RETRY%a-c", "rmq.message"])
def test_unknown_topics(session: Session, ask: Ask, name: str) -> None:
    with pytest.raises(UnknownTable) as caught:
        ask(f'select * from "{name}"' if "." not in name else f"select * from orders, {name}")
    assert caught.value.missing == ("topic", name.rpartition(".")[2])
    assert caught.value.known == session._source.names


def test_names(ask: Ask) -> None:
    for name in ("orders", "Orders", "%RETRY%a-b", "select"):
        assert ask(f'select distinct topic from "{name}"') == [(name,)]
    assert ask("with nowhere as (select 1 as a) select a from nowhere") == [(1,)]
    assert ask("select 1 as a, 2 as a, 3 as a_1") == [(1, 2, 3)]


def test_one_name_for_each_column(session: Session) -> None:
    names: list[str] = []

    def show(result: Result) -> None:
        names.extend(name for batch in result.batches() for name in batch.schema.names)

    session.run("select 1 as a, 2 as a, 3 as a_1", show)
    assert names == ["a", "a_1", "a_1_1"]


def test_what_is_pushed_down() -> None:
    source = Made(("orders", "parcels"))
    with opened(source) as session:
        ask = ask_of(session)
        ask("select topic from orders where store_time > now() - interval 1 hour and queue_id = 2")
        ask("select count(*) from rmq.messages where topic = 'parcels' and queue_offset < 10")
        ask("select count(*) from orders where topic = 'parcels'")
    (hour, parcels) = source.wanted
    age = time.time() * 1_000_000 - (hour.store_timestamp.low or 0)
    assert 3_600_000_000 <= age <= 3_600_000_000 + PATIENCE * 1_000_000
    assert (hour.topics, hour.queue_id.only) == (frozenset(["orders"]), 2)
    assert (parcels.topics, parcels.queue_offset.high) == (frozenset(["parcels"]), 9)


def test_a_scan_ends_with_its_query() -> None:
    source = Made(count=1000)
    with opened(source) as session:
        assert len(ask_of(session)("select * from orders limit 1")) == 1
        assert source.ended == 1


def test_the_error_of_a_source_is_the_error_of_the_query() -> None:
    error = NotPermitted(16, "no", "a:1", "PULL_MESSAGE")
    with opened(Made(error=error)) as session, pytest.raises(NotPermitted):
        ask_of(session)("select sum(queue_offset) from orders")


def test_a_second_reading(capsys: pytest.CaptureFixture[str]) -> None:
    source = Made(error=ReadAgain("queue 0 is wrong"))
    with opened(source) as session, pytest.raises(ReadAgain):
        ask_of(session)("select count(*) from orders")
    assert capsys.readouterr().err == "rmq: queue 0 is wrong; the whole commit log is read instead\n"
    assert len(source.wanted) == 2


def test_a_second_reading_after_rows_were_shown() -> None:
    source = Made(count=20, error=ReadAgain("queue 0 is wrong"))
    with opened(source) as session, pytest.raises(SqlError) as caught:
        ask_of(session)("select * from orders")
    assert str(caught.value) == "queue 0 is wrong; the rows are not complete: use --walk"


def test_too_much_for_the_memory(tmp_path: Path) -> None:
    with Session(Made(count=20), 1 << 24) as session, pytest.raises(SqlError, match="--memory"):
        ask_of(session)("select list(body || queue_offset::text::blob) from orders")


def test_what_does_not_fit_goes_to_a_folder_of_the_session() -> None:
    settings = ", ".join(f"current_setting('{name}')" for name in ("memory_limit", "temp_directory"))
    with opened(Made()) as session:
        ((locked, limit, folder),) = ask_of(session)(
            f"select current_setting('lock_configuration'), {settings}"
        )
        assert locked
        assert (limit, Path(folder).stat().st_mode & 0o777) == ("256.0 MiB", 0o700)
    assert not Path(folder).exists()


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class Searching(Made):
    """Topics whose rows are looked for in vain, until `found`."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.found = threading.Event(), False

    def scan(self, bounds: Bounds, check: Callable[[], None]) -> Iterator[Any]:
        while not self.found:
            self.begun.set()
            check()
        yield from super().scan(bounds, check)


def interrupt_after(begun: threading.Event) -> None:
    begun.wait(PATIENCE)
    interrupt()


def test_ctrl_c_ends_a_search() -> None:
    source = Searching()
    with opened(source) as session:
        threading.Thread(target=interrupt_after, args=(source.begun,)).start()
        with pytest.raises(KeyboardInterrupt):
            ask_of(session)("select count(*) from orders")
        source.found = True
        assert ask_of(session)("select count(*) from orders") == [(ROWS,)]


def test_ctrl_c_ends_what_duckdb_does(session: Session) -> None:
    def show(result: Result) -> None:
        for _ in result.batches():
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        session.run("select a.range + b.range from range(100000000) a, range(100000000) b", show)
    threading.Timer(0.05, interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        ask_of(session)("select sum(a.range * b.range) from range(100000000) a, range(100000000) b")
    assert ask_of(session)("values (1)") == [(1,)]


def test_ctrl_c_does_not_wait_for_what_cannot_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqcli.sql.engine.PATIENCE", 0.01)
    worker, stop, cancelled = Worker(), threading.Event(), threading.Event()
    threading.Timer(0.05, interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        worker.run(lambda: stop.wait(PATIENCE), cancelled.set)
    assert cancelled.is_set()
    stop.set()
    assert worker.run(lambda: 7, cancelled.set) == 7
    worker.end()
