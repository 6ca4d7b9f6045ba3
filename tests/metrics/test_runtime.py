"""Runtime figures of brokers as metrics."""

from __future__ import annotations

import pytest

from rmqcli.metrics.runtime import runtime_samples, slave_samples


def samples(**table: str) -> dict[str, float]:
    found = runtime_samples("C", "10.0.0.1:10911", "broker-a", {"brokerVersionDesc": "V4_9_8", **table})
    return {one.family.name.removeprefix("rocketmq_"): one.value for one in found}


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("putTps", "1.5 2.5 3.5", {"put_tps10": 1.5, "put_tps60": 2.5, "put_tps600": 3.5}),
        ("putTps", "1.5 2.5 ", {"put_tps10": 1.5, "put_tps60": 2.5}),
        ("getTransferredTps", "4 5 6", {"gettransfered_tps10": 4, "gettransfered_tps600": 6}),
        ("remainHowManyDataToFlush", "17 B", {"remain_howmanydata_toflush": 17}),
        (
            "commitLogDirCapacity",
            "Total : 2.0 GiB, Free : 512.0 MiB.",
            {"commitlogdir_capacity_total": 2**31, "commitlogdir_capacity_free": 2**29},
        ),
        (
            "putMessageDistributeTime",
            "[<=0ms]:3 [0~10ms]:2 [10s~]:1 ",
            {"pmdt_0ms": 3, "pmdt_0to10ms": 2, "pmdt_10stomore": 1},
        ),
        ("commitLogDiskRatio", "0.25", {"commitlog_disk_ratio": 0.25}),
    ],
)
def test_a_text_of_a_broker(name: str, text: str, found: dict[str, float]) -> None:
    values = samples(**{name: text})
    assert {f"brokeruntime_{key}": value for key, value in found.items()}.items() <= values.items()


@pytest.mark.parametrize("text", ["", "many", "nan", "inf", "1,000"])
def test_what_is_no_number_is_left_out(text: str) -> None:
    names = ("commitLogDiskRatio", "putTps", "commitLogDirCapacity", "putMessageDistributeTime")
    assert samples(**dict.fromkeys(names, text)) == {}


def test_the_rates_of_a_broker_are_those_of_ten_seconds() -> None:
    values = samples(putTps="1.5 2.5 3.5", getTransferedTps="4.5")
    assert (values["broker_tps"], values["broker_qps"]) == (1.5, 4.5)


def test_how_far_slaves_are_behind() -> None:
    ends = {
        "broker-a": "1000",
        "broker-a:1": "900",
        "broker-a:2": "1001",
        "broker-a:3": "",
        "broker-b:1": "5",
    }
    seats = {label: f"10.0.0.{number}:10911" for number, label in enumerate(ends)}
    tables = {label: {"commitLogMaxOffset": end} for label, end in ends.items()}
    found = slave_samples({"broker-a": "C"}, seats, tables)
    assert [(one.labels, one.value) for one in found] == [
        (("C", "10.0.0.1:10911", "broker-a:1"), 100),
        (("C", "10.0.0.2:10911", "broker-a:2"), -1),
    ]
