"""Options and offsets of the data source, without Spark."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from rmqcli.client import ConnectionLost, Credentials, Tls
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.export.spark_source import OptionError
from rmqcli.export.spark_source.batch import BatchReader
from rmqcli.export.spark_source.offsets import (
    EARLIEST,
    LATEST,
    Position,
    behind_latest,
    limited,
    queues_from_json,
    queues_to_json,
)
from rmqcli.export.spark_source.options import ReadOptions, read_options, write_options
from rmqcli.export.spark_source.planning import for_all
from rmqcli.export.spark_source.rows import Columns, spark_schema
from tests.export.spark_source.support import queue

LIVE = {"namesrv": "h:9876", "subscribe": "T"}


def read(**options: str) -> ReadOptions:
    return read_options({**LIVE, **options})


def test_what_is_not_given() -> None:
    found = read()
    assert found.client is not None
    assert found.client.arguments == {"namesrv": "h:9876"}
    assert (found.topics, found.start, found.end, found.selector) == (("T",), None, None, "*")
    assert (found.fail_on_data_loss, found.include_body, found.queue_id) == (True, True, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"nameServer": "h:1", "topic": "T"}, {"namesrv": "h:1", "subscribe": "T"}),
        ({"rocketmq.namesrvAddr": "h:1", "subscribe": "T"}, {"namesrv": "h:1", "subscribe": "T"}),
        ({**LIVE, "group": "G"}, {**LIVE, "groupId": "G"}),
        ({**LIVE, "subExpression": "a || b"}, {**LIVE, "selector": "a || b"}),
        ({**LIVE, "pullTimeoutMs": "500"}, {**LIVE, "rocketmq.timeout": "0.5"}),
    ],
)
def test_the_names_of_the_older_connector(old: dict[str, str], new: dict[str, str]) -> None:
    assert read_options(old) == read_options(new)


def test_the_options_of_a_table_stand_among_its_properties() -> None:
    table = {f"option.{name}": value for name, value in LIVE.items()}
    assert read_options({**LIVE, **table, "owner": "me", "provider": "rocketmq"}) == read_options(LIVE)
    with pytest.raises(OptionError, match="subscripe: unknown option"):
        read_options({**table, "option.subscripe": "T", "owner": "me"})


def test_the_lag_of_a_stream() -> None:
    def text(*numbers: int) -> str:
        return json.dumps({"T": {"b": {str(queue): number for queue, number in enumerate(numbers)}}})

    assert behind_latest({"endOffset": text(3, 7, 5), "latestOffset": text(4, 7, 5, 7)}) == {
        "avgOffsetsBehindLatest": 2.0,
        "maxOffsetsBehindLatest": 7,
        "minOffsetsBehindLatest": 0,
    }
    assert behind_latest({"endOffset": text(1), "latestOffset": ""}) == {}


def test_options_of_the_client() -> None:
    found = write_options(
        {"namesrv": "h:1", "topic": "T", "rocketmq.sendTimeout": "9", "rocketmq.allow_empty": "true"}
    )
    assert (found.client.producer, found.topic) == ({"send_timeout": 9.0, "allow_empty": True}, "T")
    assert write_options({"namesrv": "h:1", "rocketmq.trace": "MyTrace"}).client.producer == {
        "trace": "MyTrace"
    }


@pytest.mark.parametrize(
    ("given", "tls"),
    [
        ({}, None),
        ({"rocketmq.tls": "true"}, Tls()),
        ({"rocketmq.tlsCa": "ca.pem", "rocketmq.tls": "false"}, None),
        ({"rocketmq.tlsInsecure": "true"}, Tls(check=False)),
        (
            {"rocketmq.tlsCa": "ca.pem", "rocketmq.tlsCert": "c.pem", "rocketmq.tls_key": "k.pem"},
            Tls(ca="ca.pem", certificate="c.pem", key="k.pem"),
        ),
    ],
)
def test_tls_settings(given: dict[str, str], tls: Tls | None) -> None:
    client = read(**given).client
    assert client is not None
    assert client.tls == tls


@pytest.mark.parametrize(("given", "tls"), [({}, False), ({"rocketmq.tls": "true"}, True)])
def test_tls(given: dict[str, str], tls: bool) -> None:
    client = read(**given).client
    assert client is not None
    assert ("tls" in client.arguments) is tls


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"startingOffsets": "Earliest"}, Position(EARLIEST)),
        ({"startingOffsets": "latest"}, Position(LATEST)),
        ({"startingOffsets": '{"T":{"broker-a":{"3":7}}}'}, Position(offsets={queue("T", 3): 7})),
        ({"startingOffsetsByTimestamp": '{"T":{"broker-a":{"3":7}}}'}, Position(times={queue("T", 3): 7})),
        ({"startingTimestamp": "99", "startingOffsets": "latest"}, Position(time=99)),
    ],
)
def test_positions(given: dict[str, str], expected: Position | None) -> None:
    assert read(**given).start == expected
    ends = {name.replace("starting", "ending"): value for name, value in given.items()}
    assert read(**ends).end == expected


def test_assigned_queues() -> None:
    found = read_options({"namesrv": "h:1", "assign": '{"T":{"broker-a":[0,1]},"U":[2]}'})
    assert found.assigned == {"T": {"broker-a": (0, 1)}, "U": {None: (2,)}}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"namesrv": "h:1"}, "expected exactly one of subscribe, subscribePattern and assign, or path"),
        ({**LIVE, "assign": '{"T":[0]}'}, "exactly one of"),
        ({"subscribe": "T"}, "namesrv is missing"),
        ({**LIVE, "topic": "U"}, "subscribe is given twice, as T and as U"),
        (
            {**LIVE, "startingOffset": "latest"},
            "startingoffset: unknown option; did you mean startingOffsets?",
        ),
        ({**LIVE, "rocketmq.timeuot": "1"}, "rocketmq.timeuot: unknown option; did you mean timeout?"),
        ({**LIVE, "subscribe": ", "}, "subscribe names no topic"),
        ({"namesrv": "h:1", "subscribePattern": "("}, "not a regular expression"),
        ({"namesrv": "h:1", "assign": "[0]"}, "expected {"),
        ({"namesrv": "h:1", "assign": "{}"}, "assign names no topic"),
        ({**LIVE, "startingOffsets": "first"}, "startingOffsets=first: expected earliest, latest or"),
        ({**LIVE, "startingOffsets": '{"T":{"b":{"0":-3}}}'}, "earliest, latest or"),
        ({**LIVE, "startingTimestamp": "-1"}, "startingTimestamp=-1: expected a number"),
        ({**LIVE, "minPartitions": "0"}, "expected 1 or more"),
        ({**LIVE, "maxPartitionBytes": "0"}, "maxPartitionBytes 0: expected a size such as 64M"),
        ({**LIVE, "includeBody": "yes"}, "expected true or false"),
        (
            {**LIVE, "queueOffsets": "7"},
            "queueOffsets=7: expected A:B, offsets without B; an empty side is op",
        ),
        ({**LIVE, "queueOffsets": "@1700000000:"}, "queueOffsets=@1700000000:: expected A:B"),
        ({**LIVE, "queueOffsets": "7:6"}, "queueOffsets: range '7:6': the end is before the start"),
        ({**LIVE, "queueId": "a"}, "queueId=a: expected a number"),
        (
            {**LIVE, "pushFilters": "true"},
            "pushFilters: unknown option; Spark applies the filters of one query",
        ),
        ({**LIVE, "maxTriggerDelay": "1m"}, "maxTriggerDelay is the longest wait for minOffsetsPerTrigger"),
        ({**LIVE, "minOffsetsPerTrigger": "1", "maxTriggerDelay": "1"}, "maxTriggerDelay=1: expected a dura"),
        (
            {**LIVE, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger=9 is above maxOffsetsPerTrigger=8",
        ),
        ({}, "no options are given. Spark hands those of CREATE TABLE to no Python data source"),
        ({**LIVE, "selectorType": "regex"}, "expected TAG or SQL92"),
        (
            {**LIVE, "selectorType": "SQL92", "selector": "a ="},
            "selector=a =: at character 4: expected a value",
        ),
        ({**LIVE, "selectorType": "SQL92"}, "selector=*: at character 1: "),
        ({**LIVE, "rocketmq.timeout": "soon"}, "rocketmq.timeout=soon: expected more than 0 seconds"),
        ({**LIVE, "rocketmq.timeout": "nan"}, "expected more than 0 seconds"),
        ({**LIVE, "rocketmq.sendTimeout": "-1"}, "rocketmq.sendTimeout=-1: expected more than 0 seconds"),
        (
            {**LIVE, "rocketmq.compression": "rar"},
            "rocketmq.compression=rar: expected zlib, lz4, zstd or none",
        ),
        ({**LIVE, "group": "G", "groupId": "H"}, "groupId is given twice, as "),
        (
            {**LIVE, "startingTimestamp": "9", "endingTimestamp": "8"},
            "endingTimestamp=8 is before startingTimestamp=9",
        ),
        (
            {
                **LIVE,
                "startingOffsets": '{"T":{"b":{"0":5,"1":9}}}',
                "endingOffsets": '{"T":{"b":{"0":5,"1":8}}}',
            },
            "endingOffsets: T@b:1 ends at 8, before it starts at 9",
        ),
        (
            {**LIVE, "path": "/store"},
            "path cannot be combined with namesrv, only with subscribe, queueId, ",
        ),
        ({"path": "/store", "startingOffsets": "latest"}, "path cannot be combined with startingOffsets"),
        ({"path": "/store", "failOnDataLoss": "false"}, "path cannot be combined with failOnDataLoss"),
        ({"path": "/store", "rocketmq.timeout": "3"}, "path cannot be combined with rocketmq.timeout"),
        ({"path": "/store", "selectorType": "SQL92"}, "is for a broker"),
    ],
)
def test_what_cannot_be_meant(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_options(options)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"maxOffsetsPerTrigger": "5"}, "a batch has no triggers: maxOffsetsPerTrigger is for streams"),
        ({"minOffsetsPerTrigger": "5"}, "a batch has no triggers: minOffsetsPerTrigger is for streams"),
        ({"startingOffsets": "latest"}, "a batch starts at earliest"),
        ({"endingOffsets": "earliest"}, "a batch starts at earliest"),
    ],
)
def test_what_no_batch_means(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        BatchReader(read(**given), Columns.wanted(spark_schema()))


def test_certificates_that_are_not_there() -> None:
    client = read(**{"rocketmq.tlsCa": "/nonexistent"}).client
    assert client is not None
    with pytest.raises(OptionError, match=r"rocketmq\.tls…: TLS CA /nonexistent: No such file or directory"):
        client.arguments  # noqa: B018


def test_an_end_that_counts_from_the_end_is_behind_every_start() -> None:
    assert read(startingOffsets='{"T":{"b":{"0":5}}}', endingOffsets='{"T":{"b":{"0":-1}}}').end is not None
    assert read(startingOffsets='{"T":{"b":{"0":-2}}}', endingOffsets='{"T":{"b":{"0":0}}}').end is not None


def test_no_compression() -> None:
    found = write_options({"namesrv": "h:1", "rocketmq.compression": "none"})
    assert found.client.producer == {"compression": None}


def test_a_sink_has_no_path() -> None:
    with pytest.raises(OptionError, match="path: unknown option"):
        write_options({"namesrv": "h:1", "path": "/out"})


def test_pyspark_is_not_imported_before_it_is_used() -> None:
    program = "import sys; from rmqcli.export import spark_source; sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_write_needs_a_name_server() -> None:
    with pytest.raises(OptionError, match="namesrv is missing"):
        write_options({"topic": "T"})


QUEUES = st.builds(MessageQueue, st.sampled_from("TU"), st.sampled_from(("a", "b")), st.integers(0, 12))
OFFSETS = st.dictionaries(QUEUES, st.integers(0, 10**12), max_size=12)


@given(OFFSETS)
def test_offsets_as_json(offsets: dict[MessageQueue, int]) -> None:
    text = json.dumps(queues_to_json(offsets))
    assert queues_from_json(json.loads(text)) == offsets
    assert json.dumps(queues_to_json(dict(reversed(offsets.items())))) == text


@given(OFFSETS, st.integers(1, 10**6))
def test_a_limit_is_kept_and_used(end: dict[MessageQueue, int], most: int) -> None:
    start = {queue: offset // 2 for queue, offset in end.items()}
    found = limited(start, end, most)
    taken = {queue: found[queue] - start[queue] for queue in end}
    waiting = sum(end.values()) - sum(start.values())
    assert sum(taken.values()) == min(most, waiting)
    assert all(0 <= taken[queue] <= end[queue] - start[queue] for queue in end)


def test_a_limit_is_shared_by_what_waits() -> None:
    start, end = {queue("T", n): 0 for n in range(3)}, {queue("T", 0): 90, queue("T", 1): 9, queue("T", 2): 1}
    assert sorted(limited(start, end, 50).values()) == [1, 4, 45]
    assert sorted(limited(start, end, 1).values()) == [0, 0, 1]


async def test_one_error_of_several_queues() -> None:
    async def ask(asked: MessageQueue) -> int:
        if asked.queue_id:
            raise ConnectionLost("127.0.0.1:1")
        return 7

    assert await for_all([queue("T", 0)], ask) == {queue("T", 0): 7}
    with pytest.raises(ConnectionLost):
        await for_all([queue("T", number) for number in range(40)], ask)


async def test_many_queues_need_few_tasks() -> None:
    living: list[int] = []

    async def ask(place: MessageQueue) -> int:
        living.append(trio.lowlevel.current_statistics().tasks_living)
        await trio.lowlevel.checkpoint()
        return place.queue_id

    queues = [queue("T", number) for number in range(1000)]
    assert await for_all(queues, ask) == {place: place.queue_id for place in queues}
    assert max(living) < 100


def test_an_account(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("AccessKey=rocketmq2\nSecretKey=top-secret\n")
    found = read(**{"rocketmq.secretKeyFile": str(keys)}).client
    assert found is not None
    assert found.arguments["credentials"] == Credentials("rocketmq2", "top-secret")
    assert pickle.loads(pickle.dumps(found)) == found
    assert "top-secret" not in repr(found)
    given = {"rocketmq.accessKey": "rocketmq3", "rocketmq.secretKey": "s", "rocketmq.securityToken": "t"}
    client = read(**given).client
    assert client is not None
    assert client.arguments["credentials"] == Credentials("rocketmq3", "s", "t")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"secretKey": "top-secret"}, "needs an access key"),
        ({"accessKey": "k"}, "the secret key is empty"),
        ({"secretKeyFile": "/nonexistent"}, "secretKeyFile=/nonexistent: No such file"),
        ({"accessKey": "k", "secretKey": "s", "secretKeyFile": "/f"}, "cannot be combined"),
    ],
)
def test_an_account_that_is_none(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError, match=text) as caught:
        read(**{f"rocketmq.{name}": value for name, value in given.items()})
    assert "top-secret" not in str(caught.value)
