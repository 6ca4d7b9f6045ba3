"""Samples: the same messages in every engine and range, in about the right number."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export import Layout, RowFilter, export_store
from rmqcli.export.transform.transform import Transform, parse_sample
from rmqcli.grammar.values import GrammarError
from rmqcli.store.workers import Workers
from tests.cli.conftest import Run
from tests.export.support import java_rows, manifest_of, rows_of
from tests.support import JavaStore

IDS = [f"7F000001ABCD18B4AAC2{number:012X}" for number in range(5_000)]


def chosen(percent: str, ids: list[str] = IDS) -> set[str]:
    batch = pa.RecordBatch.from_pydict({"msg_id": ids})
    return set(parse_sample("--sample", percent).apply(batch)["msg_id"].to_pylist())


def test_a_share_of_ids_that_differ_in_few_bits() -> None:
    one, ten, half = chosen("1%"), chosen("10%"), chosen("50 %")
    assert one < ten < half < chosen("100%")
    assert len(chosen("100%")) == len(IDS)
    for found, share in ((one, 0.01), (ten, 0.1), (half, 0.5)):
        deviation = (len(IDS) * share * (1 - share)) ** 0.5
        assert abs(len(found) - len(IDS) * share) < 4 * deviation
    assert chosen("1%", IDS[500:1500]) == one & set(IDS[500:1500])


def test_the_choice_stays() -> None:
    """Another release has to choose the same."""
    assert sorted(map(IDS.index, chosen("0.1%"))) == [692, 769, 3033, 3858, 4645]


@pytest.mark.parametrize("text", ["1", "0%", "101%", "-1%", "%", "one", "1e1%", "0.0000%"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(GrammarError, match=r"--sample .*: expected more than 0% and at most 100%"):
        parse_sample("--sample", text)


def test_exports_of_a_store(store_clean: JavaStore, cli: Run, tmp_path: Path) -> None:
    """Nothing else is missed than what was not chosen: the check of consume queues is not made."""
    sample = parse_sample("--sample", "20%")
    expected = [row for row in java_rows(store_clean) if row["msg_id"] in chosen("20%", [row["msg_id"]])]
    assert 450 < len(expected) < 800
    command = ("export", "--store", str(store_clean.root), "--sample", "20%", "--out", str(tmp_path / "one"))
    assert cli(*command).code == 0
    assert [row["msg_id"] for row in rows_of(tmp_path / "one")] == [row["msg_id"] for row in expected]
    layout = Layout(transform=Transform(sample))
    with Workers(2) as workers:
        export_store(
            store_clean.root,
            tmp_path / "two",
            RowFilter(),
            layout=layout,
            workers=workers,
            part_bytes=200_000,
        )
    assert rows_of(tmp_path / "two") == expected
    assert cli(*command, "--resume").lines[0][2] == "0"
    assert manifest_of(tmp_path / "one").sample == "20%"
    result = cli(*command[:3], "--sample", "1%", *command[5:], "--resume")
    assert (result.code, "was exported with --sample 20%, not 1%" in result.err) == (ExitCode.USAGE, True)


def test_no_message_is_chosen(store_clean: JavaStore, cli: Run, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    result = cli("export", "--store", str(store_clean.root), "--sample", "0.000001%", "--out", out)
    assert (result.code, parquet.read_table(out).num_rows) == (0, 0)


def test_a_topic(rmq: Run, topic: str, tmp_path: Path) -> None:
    rmq("send", topic, stdin=b"\n".join(b"%d" % number for number in range(60)))
    out = str(tmp_path / "out")
    assert rmq("export", "--topic", topic, "--out", out, "--sample", "30%").code == 0
    every = [line["msgId"] for line in rmq("pull", topic, "--json").json_lines]
    assert set(parquet.read_table(out)["msg_id"].to_pylist()) == chosen("30%", every)
    assert rmq("export", "--topic", topic, "--out", out, "--sample", "30%", "--resume").lines[0][2] == "0"
