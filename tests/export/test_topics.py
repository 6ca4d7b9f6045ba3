"""Several topics in one export: names and patterns, of a cluster and of a store folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyarrow.dataset import dataset

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Result, Run

NAMES = ("PartsA", "PartsB", "PartsOther", "%RETRY%Parts")


SENT: Counter[tuple[str, str]] = Counter()
"""Messages by cluster and topic: tests share a cluster."""


@pytest.fixture
def parts(rmq: Run, cluster: Cluster) -> None:
    for number, name in enumerate(NAMES, 1):
        rmq("topic", "create", name, "--queues", "2")
        assert rmq("send", name, stdin=b"x\n" * number).code == 0
        SENT[cluster.namesrv, name] += number


def counts(out: Path) -> dict[str, int]:
    names: list[str] = dataset(out, partitioning="hive").to_table(columns=["topic"])["topic"].to_pylist()
    return {name: names.count(name) for name in names}


def exported(rmq: Run, cluster: Cluster, of: str, *words: str) -> Result:
    source = ("--store", str(cluster.store_path)) if of == "store" else ()
    return rmq("export", *source, *words, "--json")


@pytest.mark.parametrize("of", ["cluster", "store"])
@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (("PartsA", "PartsB"), ("PartsA", "PartsB")),
        (("PartsB", "PartsB"), ("PartsB",)),
        (("Parts[AB]",), ("PartsA", "PartsB")),
        (("Parts*", "PartsA"), ("PartsA", "PartsB", "PartsOther")),
        (("Parts?", "%RETRY%P*"), ("PartsA", "PartsB", "%RETRY%Parts")),
    ],
)
def test_names_and_patterns(
    rmq: Run,
    cluster: Cluster,
    parts: None,
    tmp_path: Path,
    of: str,
    chosen: tuple[str, ...],
    names: tuple[str, ...],
) -> None:
    words = [word for name in chosen for word in ("--topic", name)]
    done = exported(rmq, cluster, of, *words, "--out", str(tmp_path / "out"), "--partition-by", "topic")
    assert done.code == 0, done.err
    found = counts(tmp_path / "out")
    assert found == {name: SENT[cluster.namesrv, name] for name in names}
    assert done.json["rows"] == sum(found.values())


@pytest.mark.parametrize("of", ["cluster", "store"])
def test_a_topic_that_comes_later_is_in_the_pattern(
    rmq: Run, cluster: Cluster, tmp_path: Path, of: str
) -> None:
    words = ("--topic", f"Later{of}*", "--out", str(tmp_path / "out"), "--resume")
    for number, name in enumerate((f"Later{of}1", f"Later{of}2"), 1):
        rmq("topic", "create", name, "--queues", "1")
        assert rmq("send", name, stdin=b"x\n" * number).code == 0
        assert exported(rmq, cluster, of, *words).json["rows"] == number
    assert counts(tmp_path / "out") == {f"Later{of}1": 1, f"Later{of}2": 2}
    other = exported(rmq, cluster, of, "--topic", f"Later{of}1", *words[2:])
    assert other.code == ExitCode.USAGE
    assert f"was exported with --topic Later{of}*, not Later{of}1" in other.err


@pytest.mark.parametrize("of", ["cluster", "store"])
def test_the_last_messages_are_those_of_all(rmq: Run, cluster: Cluster, tmp_path: Path, of: str) -> None:
    names = [f"Last{of}{number}" for number in (1, 2)]
    for name in (*names, names[0]):
        rmq("topic", "create", name, "--queues", "1")
        assert rmq("send", name, stdin=b"x\n" * 3).code == 0
    words = [word for name in names for word in ("--topic", name)]
    assert exported(rmq, cluster, of, *words, "--out", str(tmp_path / "out"), "-o", "-4").json["rows"] == 4
    assert counts(tmp_path / "out") == {names[0]: 3, names[1]: 1}


@pytest.mark.parametrize("of", ["cluster", "store"])
@pytest.mark.parametrize("wrong", ["NoPattern*", "PartsMissing"])
def test_what_is_not_there(
    rmq: Run, cluster: Cluster, parts: None, tmp_path: Path, of: str, wrong: str
) -> None:
    out = tmp_path / "out"
    done = exported(rmq, cluster, of, "--topic", "PartsA", "--topic", wrong, "--out", str(out))
    assert done.code == ExitCode.NOT_FOUND and wrong in done.err
    assert not out.exists()


def test_a_table_and_a_feed(rmq: Run, cluster: Cluster, parts: None, tmp_path: Path) -> None:
    table = f"delta:{tmp_path / 'lake'}"
    done = rmq("export", "--topic", "Parts[AB]", "--topic", "PartsOther", "--table", table, "--json")
    assert (done.code, done.json["rows"] > 5) == (0, True)
    words = ("export", "--store", str(cluster.store_path), "--topic", "Parts*", "--table", table, "--resume")
    assert rmq(*words, "--json").json["rows"] == 0
    feed = rmq(*words, "--follow")
    assert feed.code == ExitCode.USAGE and "a pattern would miss new ones" in feed.err
