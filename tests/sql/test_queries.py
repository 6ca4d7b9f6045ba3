"""Queries over stores of a 4.9 and a 5.3 broker, and the same SQL over an export of the same store to Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rmqcli.export import RowFilter, StoreSource, export_store
from rmqcli.sql.engine import Session
from rmqcli.sql.result import rows_of
from rmqcli.sql.stores import Stores
from tests.sql.conftest import MEMORY, Ask, ask_of
from tests.support import JavaStore

QUERIES = """
select * from T order by commit_log_offset
select count(*) from T
select tags, count(*) from T group by 1
select queue_id, min(queue_offset), max(queue_offset), sum(store_size) from T group by queue_id
select * from T where queue_id = 1
select msg_id, body from T where queue_id in (0, 2) and queue_offset between 3 and 20
select count(*) from T where queue_offset >= 10 or queue_id = 0
select count(*) from T where not (queue_offset < 5) and tags is not null
select msg_id from T where store_timestamp >= (select median(store_timestamp) from T)
select count(*) from T where store_timestamp > M and store_timestamp <= M + interval 300 milliseconds
select date_trunc('second', store_timestamp) s, count(*) from T group by s having count(*) > 1
select keys, properties['TAGS'] from T where len(keys) > 0
select unnest(keys) k, count(*) from T group by k
select properties from T where queue_offset = 0
select octet_length(body), count(*) from T group by all
select hex(body) from T where queue_id = 0 and queue_offset < 4
select a.msg_id, b.queue_offset from T a join T b on a.queue_id = b.queue_id and b.queue_offset = a.queue_offset + 1
select msg_id, row_number() over (partition by queue_id order by queue_offset desc) n from T qualify n <= 2
with q as (select * from T where queue_offset < 7) select queue_id, avg(store_size) from q group by 1
select topic from T where queue_offset > 1000000000
select born_host, store_host, flag, sys_flag, reconsume_times from T where commit_log_offset > 1000000 limit 3
select count(distinct msg_id), count(*) filter (where body_crc > 0) from T where topic = N
select 'a' || tags from T where tags like 'Tag%' union all select tags from U where queue_offset < 2
"""
"""T and U stand for topics, N for the name of T, M for a moment in the middle."""
LINES = [line for line in QUERIES.splitlines() if line]
TOPICS = {"store_clean": ("SeedTags", "%RETRY%seed_retry_group"), "store_five": ("SeedTags", "SeedOrder")}


class Both:
    """The same store as topics and as an export."""

    def __init__(self, store: JavaStore, topics: tuple[str, str], ask: Ask, out: Path) -> None:
        self.ask, self._topics = ask, topics
        export_store(store.root, out, RowFilter(broker_name="broker-a"))
        self._duckdb = duckdb.connect(":memory:")
        self._duckdb.execute("SET TimeZone = 'UTC'")
        for name in topics:
            parts = f"read_parquet('{out}/*.parquet') where topic = '{name}'"
            self._duckdb.execute(f'create view "{name}" as select * from {parts}')
        (self.moment,) = ask(f'select median(store_timestamp)::timestamptz from "{topics[0]}"')[0]

    def exported(self, statement: str) -> list[tuple[Any, ...]]:
        table = self._duckdb.sql(statement).to_arrow_table()
        return [tuple(row) for batch in table.to_batches() for row in rows_of(batch)]

    def statement(self, line: str) -> str:
        first, second = self._topics
        words = {
            "T": f'"{first}"',
            "U": f'"{second}"',
            "N": f"'{first}'",
            "M": f"'{self.moment}'::timestamptz",
        }
        return re.sub(r"\b[TUNM]\b", lambda match: words[match[0]], line)


@pytest.fixture(scope="module", params=sorted(TOPICS))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    store: JavaStore = request.getfixturevalue(request.param)
    with Session(Stores([StoreSource(store.root, "broker-a")]), MEMORY) as session:
        yield Both(store, TOPICS[request.param], ask_of(session), tmp_path_factory.mktemp("out") / "out")


def test_the_same_as_over_an_export(both: Both) -> None:
    empty = []
    for line in LINES:
        statement = both.statement(line)
        found, expected = both.ask(statement), both.exported(statement)
        if "limit" in line:  # which rows these are is not said
            found, expected = [(len(found),)], [(len(expected),)]
        if "order by commit" not in line:
            found, expected = (sorted(rows, key=repr) for rows in (found, expected))
        assert found == expected, statement
        empty += [] if found else [line]
    assert empty == ["select topic from T where queue_offset > 1000000000"]


def test_all_topics(both: Both) -> None:
    statement = "select topic, count(*) n, sum(store_size) from {} where topic like 'Seed%' group by topic"
    assert len(LINES) >= 20
    found = both.ask(statement.format("rmq.messages"))
    assert found
    for topic, count, size in found:
        assert both.ask(f'select count(*), sum(store_size) from "{topic}"') == [(count, size)]
    names = {name for (name,) in both.ask("select distinct topic from rmq.messages")}
    assert names < {name for (name,) in both.ask("show tables")}, "none of the system"
    (one,) = both.ask("select count(*) from rmq.messages where topic = 'SeedTags'")
    assert both.ask("select count(*) from SeedTags") == [one]


Asking = Callable[..., Ask]


def test_short_names_of_times(store_clean: JavaStore, asking: Asking) -> None:
    ask = asking(store_clean)
    (count,) = ask("select count(*) from SeedTags where store_time > '2026-11-21' and born_time is not null")
    assert count == (300,)
    assert len(ask("select * from SeedTags limit 1")[0]) == 21


def test_statements_that_describe(store_clean: JavaStore, asking: Asking) -> None:
    ask = asking(store_clean)
    names = [name for (name,) in ask("show tables")]
    assert {"SeedTags", "%DLQ%seed_retry_group", "ns1%D1kozxi_send-namespace"} < set(names)
    assert "SCHEDULE_TOPIC_XXXX" not in names
    assert names == sorted(names)
    assert ask("select count(*) > 0 from SCHEDULE_TOPIC_XXXX") == [(True,)], "reachable"
    assert [row[:2] for row in ask("describe SeedTags")][2] == ("queue_id", "INTEGER")
    assert ask("select count(*) from (summarize SeedTags)") == [(21,)]
    assert ask("explain select * from SeedTags where queue_id = 1")[0][0] == "physical_plan"
    assert len(ask("pivot SeedTags on tags using count(*) group by queue_id")) == 4
    assert ask('select count(*) from "%DLQ%seed_retry_group"') == [(4,)]
    assert ask("values (1), (2)") == [(1,), (2,)]
