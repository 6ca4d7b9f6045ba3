"""What a transform makes of rows is the same in every engine, on the one session of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rmqcli.export import spark_source
from rmqcli.export.errors import DecodeError
from rmqcli.export.spark.job import _reason
from rmqcli.export.spark_source.batch import BatchReader
from rmqcli.export.spark_source.option_values import OptionError
from rmqcli.export.spark_source.options import read_options
from rmqcli.export.spark_source.rows import Columns, spark_schema
from tests.cli.conftest import Run
from tests.export.support import write_log
from tests.export.transform.samples import BODIES, REASON, WRONG, rows, write_schema


@pytest.fixture
def session(spark: object) -> SparkSession:
    found = SparkSession.builder.getOrCreate()
    spark_source.register(found)
    return found


COLUMNS = ("queue_id", "queue_offset", "body", "value", "value_error")


def of_spark(frame: DataFrame) -> list[dict[str, Any]]:
    found = [row.asDict(recursive=True) for row in frame.select(*COLUMNS).sort(*COLUMNS[:2]).collect()]
    return [{**row, "body": row["body"] and bytes(row["body"])} for row in found]


def test_rows_are_the_same_in_every_engine(session: SparkSession, cli: Run, tmp_path: Path) -> None:
    store, schema = tmp_path / "store", write_schema(tmp_path)
    write_log(store / "commitlog", [*BODIES, WRONG])
    (tmp_path / "key").write_bytes(bytes(range(32)))
    decode = ("--decode", "json", "--schema", schema, "--on-error", "column")
    masks = ("--mask", "value.email:hash", "--mask-key-file", str(tmp_path / "key"), "--sample", "99.9%")
    for out, engine in (("local", ()), ("spark", ("--spark",))):
        words = ("--store", str(store), "--out", str(tmp_path / out), "--compression", "none", *engine)
        assert cli("export", *words, *decode, *masks).code == 0
        files = [path for path in (tmp_path / out).rglob("*") if path.is_file()]
        assert not any(b"example.org" in path.read_bytes() for path in files)
    expected = rows(tmp_path / "local")
    assert len({row["value"]["email"] for row in expected[:4]}) == 4
    assert expected[4]["value_error"] == REASON
    assert rows(tmp_path / "spark") == expected
    options = {"decode": "json", "decodeSchema": schema, "decodeOnError": "column"}
    options |= {"mask": "value.email:hash, value.lines.sku:drop", "maskKeyFile": str(tmp_path / "key")}
    options |= {"sample": "99.9%"}
    for row in expected[:4]:
        row["value"]["lines"] = [{"sku": None}]
    frame = session.read.format("rocketmq").options(**options).load(str(store))
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,email:string,lines:array<struct<sku:string>>>"
    )
    assert of_spark(frame) == [{name: row[name] for name in COLUMNS} for row in expected]


def test_a_wrong_body_ends_a_query(tmp_path: Path) -> None:
    """Without a session: what Spark makes of an error has tests of its own."""
    store, schema = tmp_path / "store", write_schema(tmp_path)
    write_log(store / "commitlog", [*BODIES, WRONG])
    options = read_options({"path": str(store), "decode": "json", "decodeSchema": schema})
    transform = options.transform()
    reader = BatchReader(options, Columns.wanted(spark_schema(transform=transform), transform))
    with pytest.raises(DecodeError) as error:
        list(reader.read(reader.partitions()[0]))
    text = f"topic TopicA, queue 1, offset 4: the body is not json of {schema}: {REASON}"
    assert str(error.value).startswith(text)
    task = f"org.apache.spark.SparkException: …\nrmqcli.export.errors.DecodeError: {error.value}\n\n\tat …"
    found = _reason(Exception(task))
    assert (type(found), str(found)) == (DecodeError, str(error.value))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"decode": "json"}, "decode=json needs decodeSchema: the file of the schema"),
        ({"decodeSchema": "S"}, "decodeSchema and decodeOnError need the option decode"),
        ({"decode": "json", "decodeSchema": "/none"}, "decodeSchema=/none: No such file or directory"),
        ({"decode": "json", "decodeSchema": __file__}, f"{__file__}: not JSON: "),
        ({"sample": "1"}, "sample 1: expected more than 0% and at most 100%"),
        ({"maskKeyFile": "/none"}, "maskKeyFile needs the option mask: FIELD:ACTION, separated by commas"),
        ({"mask": "tags:hash", "maskKeyFile": "/none"}, "maskKeyFile=/none: No such file or directory"),
        ({"mask": "tags:hash,keys"}, "--mask keys: expected FIELD:ACTION"),
        ({"sample": "1"}, "sample 1: expected more than 0% and at most 100%"),
        ({"decode": "xml", "decodeSchema": "S"}, "decode xml: expected one of json"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as error:
        read_options({"path": "/store", **options}).transform()
    assert str(error.value).startswith(said)
