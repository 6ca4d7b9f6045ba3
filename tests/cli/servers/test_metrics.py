"""`rmq metrics`: what a scrape of two brokers holds, and one while servers are lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from rmqcli.broker.config import NamesrvConfig
from rmqcli.broker.namesrv import open_name_server
from rmqcli.broker.net.tls.acceptor import TlsAcceptor
from rmqcli.broker.testing.embedded import open_member
from rmqcli.client import Admin
from rmqcli.codec.ids import split_address
from rmqcli.commands.common.metrics import Own
from rmqcli.metrics.collect import collect
from rmqcli.metrics.server import open_metrics
from tests.certificates import make_certificates
from tests.cli.conftest import Run
from tests.cli.servers.clusters import Pair
from tests.support import PATIENCE

Labels = dict[str, str]


def series(text: str) -> Iterator[tuple[str, Labels, float]]:
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def value(text: str, name: str, **labels: str) -> float:
    """The sum of the series with these labels."""
    found = [number for one, own, number in series(text) if one == name and labels.items() <= own.items()]
    assert found, f"no series {name} with {labels}"
    return sum(found)


@pytest.fixture
def consumed(both: Run) -> str:
    """A topic of which a group has consumed one of three messages."""
    topic = "metrics_topic"
    for number in range(3):
        assert both("send", topic, str(number), "-q", "0", "-b", "broker-a").code == 0
    assert both("send", topic, "later", "--delay", "1h").code == 0
    assert both("consume", topic, "-g", "metrics_group", "--from", "start", "-c", "1").code == 0
    return topic


def test_a_scrape(both: Run, consumed: str) -> None:
    shown = both("metrics", "show")
    assert (shown.code, shown.err) == (0, "")
    text = shown.out.decode()
    assert value(text, "rmq_name_server_up") == 1
    assert value(text, "rmq_up") == 2
    assert value(text, "rmq_series_dropped") == 0
    assert value(text, "rocketmq_producer_offset", topic=consumed, broker="broker-a") == 3
    assert value(text, "rocketmq_brokeruntime_putmessage_times_total") >= 3
    assert value(text, "rocketmq_timing_messages", topic=consumed) == 1
    labels = {"topic": consumed, "group": "metrics_group"}
    assert value(text, "rocketmq_consumer_offset", broker="broker-a", **labels) == 1
    assert value(text, "rocketmq_message_accumulation", **labels) == 2
    assert value(text, "rocketmq_consumer_inflight_messages", **labels) == 2  # pulled, not consumed
    assert value(text, "rocketmq_group_diff", countOfOnlineConsumers="0", **labels) == 2
    assert value(text, "rocketmq_group_count", group="metrics_group") == 0
    documents = both("metrics", "show", "--json").json["metrics"]
    assert {"name": "rmq_series_dropped", "labels": {}, "value": 0} in documents


def test_series_above_the_limit_are_counted(both: Run, consumed: str) -> None:
    text = both("metrics", "show", "--max-series", "5").out.decode()
    assert len(list(series(text))) == 5 + 3
    assert value(text, "rmq_up") == 2
    assert value(text, "rmq_series_dropped") > 50


def test_one_broker(both: Run) -> None:
    text = both("metrics", "show", "-b", "broker-b").out.decode()
    assert value(text, "rmq_up") == value(text, "rmq_up", broker="broker-b") == 1
    assert both("metrics", "show", "-b", "broker-x").code == 4


def test_a_broker_that_does_not_answer(half: Run) -> None:
    shown = half("metrics", "show")
    assert (shown.code, shown.err) == (3, "rmq: broker-b: does not answer\n")
    assert value(shown.out.decode(), "rmq_up", broker="broker-a") == 1
    assert value(shown.out.decode(), "rmq_up", broker="broker-b") == 0


def scraped(port: int, accept: str = "text/plain") -> tuple[int, str, str]:
    with urlopen(Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})) as answer:
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


async def scrape(namesrv: str, *accepts: str) -> list[tuple[int, str, str]]:
    async with (
        Admin(namesrv=namesrv, timeout=30) as admin,
        open_metrics("127.0.0.1", 0, lambda: collect(admin)) as port,
    ):
        return [await trio.to_thread.run_sync(scraped, port, accept) for accept in accepts]


async def test_scrapes_are_answered(pair: Pair) -> None:
    plain, open_metrics_text = await scrape(pair.namesrv, "text/plain", "application/openmetrics-text")
    assert plain[0] == open_metrics_text[0] == 200
    assert plain[1].startswith("text/plain")
    assert open_metrics_text[1].startswith("application/openmetrics-text")
    assert open_metrics_text[2].endswith("# EOF\n")
    assert value(plain[2], "rmq_up") == 2


async def test_a_scrape_without_a_name_server(pair: Pair) -> None:
    ((status, _, text),) = await scrape("127.0.0.1:1", "text/plain")
    assert status == 200
    assert value(text, "rmq_name_server_up") == 0
    assert not [name for name, _, _ in series(text) if name == "rmq_up"]


async def test_a_name_server_that_knows_no_broker_is_up() -> None:
    config = NamesrvConfig(kv_config_path=None, config_store_path=None)
    async with open_name_server(config, port=0) as names, Admin(namesrv=names.address, timeout=30) as admin:
        samples = await collect(admin)
    assert [(one.family.name, one.value) for one in samples][:2] == [
        ("rmq_name_server_up", 1),
        ("rmq_up", 0),
    ]


async def test_a_broker_asks_name_servers_by_tls_and_itself_as_its_port_wants(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path / "tls")
    names = NamesrvConfig(kv_config_path=None, config_store_path=None)
    tls = TlsAcceptor({"tls.enable": "true", "tls.client.trustCertPath": str(certificates.ca)})
    async with (
        open_name_server(names, port=0, tls=TlsAcceptor(certificates.server())) as server,
        open_member(server.address, tmp_path / "store", {"broker_ip1": "127.0.0.1"}, tls=tls) as cluster,
        Admin(
            namesrv=server.address,
            timeout=PATIENCE,
            open_stream=Own(cluster.broker_address, split_address(cluster.broker_address), tls).open_stream,
        ) as admin,
    ):
        samples = {one.family.name: one.value for one in await collect(admin)}
    assert (samples["rmq_name_server_up"], samples["rmq_up"]) == (1, 1)


@pytest.mark.parametrize("text", ["5557", "localhost", ":x", ":70000", ""])
def test_a_wrong_address(cli: Run, text: str) -> None:
    wrong = cli("metrics", "serve", "--listen", text)
    assert (wrong.code, wrong.out) == (2, b"")
    assert "expected HOST:PORT or :PORT" in wrong.err


def test_without_a_name_server(cli: Run) -> None:
    assert cli("metrics", "show", "-n", "127.0.0.1:1").code == 5


def test_without_the_package(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for words in (
        ["metrics", "show"],
        ["metrics", "serve"],
        ["up", "--metrics", "0"],
        ["broker", "--metrics", "0"],
    ):
        missing = cli(*words)
        assert (missing.code, missing.err) == (
            2,
            "rmq: package prometheus_client is not installed: pip install 'rmqcli[metrics]'\n",
        )
