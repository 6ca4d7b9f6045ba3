"""The runtime figures of a broker (GET_BROKER_RUNTIME_INFO, code 28) as metrics.

Strings are those of `AdminBrokerProcessor.prepareRuntimeInfo`: rates over 10 s, 1 min and 10 min in one
string, sizes with units, the distribution of the times of puts. A figure that is missing or not a number, as
in other versions, is omitted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from rmqcli.metrics.families import BEHIND, BROKER_QPS, BROKER_TPS, Sample, runtime

_PLAIN = {
    "commitLogDiskRatio": runtime("commitlog_disk_ratio", "Used part of the disk of the commit log, 0 to 1"),
    "commitLogMaxOffset": runtime("commitlog_maxoffset", "End of the commit log"),
    "commitLogMinOffset": runtime("commitlog_minoffset", "Begin of the commit log"),
    "consumeQueueDiskRatio": runtime(
        "consumequeue_disk_ratio", "Used part of the disk of consume queues, 0 to 1"
    ),
    "dispatchBehindBytes": runtime("dispatch_behind_bytes", "Bytes that have no queue entries yet"),
    "dispatchMaxBuffer": runtime("dispatch_maxbuffer", "Longest dispatch, in bytes"),
    "earliestMessageTimeStamp": runtime("earliest_message_timestamp", "Store time of the first message, ms"),
    "getMessageEntireTimeMax": runtime("getmessage_entire_time_max", "Longest read, ms"),
    "msgGetTotalTodayMorning": runtime("msg_gettotal_todaymorning", "Deliveries until this midnight"),
    "msgGetTotalTodayNow": runtime("msg_gettotal_today_now", "Deliveries until now"),
    "msgGetTotalYesterdayMorning": runtime(
        "msg_gettotal_yesterdaymorning", "Deliveries until the midnight before"
    ),
    "msgPutTotalTodayMorning": runtime("msg_puttotal_todaymorning", "Stored messages until this midnight"),
    "msgPutTotalTodayNow": runtime("msg_put_total_today_now", "Stored messages until now"),
    "msgPutTotalYesterdayMorning": runtime(
        "msg_puttotal_yesterdaymorning", "Stored messages until the midnight before"
    ),
    "pageCacheLockTimeMills": runtime("pagecache_lock_time_mills", "Time that the present write takes, ms"),
    "pullThreadPoolQueueCapacity": runtime("pull_threadpoolqueue_capacity", "Pulls that may wait"),
    "pullThreadPoolQueueHeadWaitTimeMills": runtime(
        "pull_threadpoolqueue_headwait_timemills", "Wait of the first pull, ms"
    ),
    "pullThreadPoolQueueSize": runtime("pull_threadpoolqueue_size", "Pulls that wait"),
    "putLatency99": runtime("put_latency_99", "99th percentile of puts, ms"),
    "putLatency999": runtime("put_latency_999", "99.9th percentile of puts, ms"),
    "putMessageAverageSize": runtime("put_message_average_size", "Bytes of a stored message, on average"),
    "putMessageEntireTimeMax": runtime("putmessage_entire_time_max", "Longest put, ms"),
    "putMessageSizeTotal": runtime("put_message_size_total", "Bytes stored since the start"),
    "putMessageTimesTotal": runtime("putmessage_times_total", "Messages stored since the start"),
    "queryThreadPoolQueueCapacity": runtime("query_threadpool_queue_capacity", "Queries that may wait"),
    "queryThreadPoolQueueHeadWaitTimeMills": runtime(
        "query_threadpoolqueue_headwait_timemills", "Wait of the first query, ms"
    ),
    "queryThreadPoolQueueSize": runtime("query_threadpoolqueue_size", "Queries that wait"),
    "remainHowManyDataToFlush": runtime("remain_howmanydata_toflush", "Bytes that are not flushed"),
    "remainTransientStoreBufferNumbs": runtime(
        "remain_transientstore_buffer_numbs", "Free buffers of the transient store pool"
    ),
    "sendThreadPoolQueueCapacity": runtime("send_threadpoolqueue_capacity", "Sends that may wait"),
    "sendThreadPoolQueueHeadWaitTimeMills": runtime(
        "send_threadpoolqueue_headwait_timemills", "Wait of the first send, ms"
    ),
    "sendThreadPoolQueueSize": runtime("send_threadpool_queue_size", "Sends that wait"),
    "startAcceptSendRequestTimeStamp": runtime(
        "start_accept_sendrequest_time", "Time from which sends are accepted, ms"
    ),
}
_RATES = {
    "getFoundTps": ("getfound_tps", "Pulls per second that found messages"),
    "getMissTps": ("getmiss_tps", "Pulls per second that found none"),
    "getTotalTps": ("gettotal_tps", "Pulls per second"),
    "getTransferedTps": ("gettransfered_tps", "Messages delivered per second"),
    "putTps": ("put_tps", "Messages stored per second"),
}
_SPANS = ("10", "60", "600")
_RATE_FAMILIES = {
    name: [runtime(f"{metric}{span}", f"{text}, last {span} s") for span in _SPANS]
    for name, (metric, text) in _RATES.items()
}
_CAPACITY = re.compile(r"Total : ([\d.]+) (\w+), Free : ([\d.]+) (\w+)")
_TOTAL = runtime("commitlogdir_capacity_total", "Size of the disk of the commit log, bytes")
_FREE = runtime("commitlogdir_capacity_free", "Free bytes of the disk of the commit log")
_UNITS = {"B": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4, "PiB": 5, "EiB": 6}

_SPREAD = re.compile(r"\[([^\]]+)\]:(\d+)")
_SPREAD_NAMES = {
    "<=0ms": "0ms",
    "0~10ms": "0to10ms",
    "10~50ms": "10to50ms",
    "50~100ms": "50to100ms",
    "100~200ms": "100to200ms",
    "200~500ms": "200to500ms",
    "500ms~1s": "500to1s",
    "1~2s": "1to2s",
    "2~3s": "2to3s",
    "3~4s": "3to4s",
    "4~5s": "4to5s",
    "5~10s": "5to10s",
    "10s~": "10stomore",
}
_SPREAD_FAMILIES = {
    span: runtime(f"pmdt_{name}", f"Puts that took {span}, last minute")
    for span, name in _SPREAD_NAMES.items()
}


def runtime_samples(cluster: str, address: str, broker: str, table: Mapping[str, str]) -> Iterator[Sample]:
    """Yield the samples of one broker."""
    labels = (cluster, address, broker, table.get("brokerVersionDesc", ""))
    for name, family in _PLAIN.items():
        value = _number(table.get(name, "").partition(" ")[0])
        if value is not None:
            yield Sample(family, labels, value)
    rates = {name: _rates_of(table, name) for name in _RATES}
    for name, values in rates.items():
        for family, value in zip(_RATE_FAMILIES[name], values, strict=False):
            yield Sample(family, labels, value)
    for family, name in ((BROKER_TPS, "putTps"), (BROKER_QPS, "getTransferedTps")):
        for value in rates[name][:1]:
            yield Sample(family, (cluster, address, broker), value)
    yield from _capacity(labels, table.get("commitLogDirCapacity", ""))
    for span, count in _SPREAD.findall(table.get("putMessageDistributeTime", "")):
        if span in _SPREAD_FAMILIES:
            yield Sample(_SPREAD_FAMILIES[span], labels, float(count))


def slave_samples(
    clusters: Mapping[str, str], seats: Mapping[str, str], tables: Mapping[str, Mapping[str, str]]
) -> Iterator[Sample]:
    """Yield how far slaves are behind their masters. `clusters` are by broker name, `seats` and `tables` by label.

    They are queried at slightly different times, so a value may be below 0.
    """
    ends = {label: _number(table.get("commitLogMaxOffset", "")) for label, table in tables.items()}
    for label, end in ends.items():
        name, is_slave, _ = label.partition(":")
        master = ends.get(name)
        if is_slave and end is not None and master is not None:
            yield Sample(BEHIND, (clusters.get(name, ""), seats[label], label), master - end)


def _rates_of(table: Mapping[str, str], name: str) -> list[float]:
    text = table.get(name) or table.get(name.replace("Transfered", "Transferred"), "")  # 5.x
    values = [_number(word) for word in text.split()]
    return [value for value in values if value is not None]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _capacity(labels: tuple[str, ...], text: str) -> Iterator[Sample]:
    found = _CAPACITY.match(text)
    if found is None:
        return
    for family, number, unit in ((_TOTAL, found[1], found[2]), (_FREE, found[3], found[4])):
        value = _number(number)
        if value is not None and unit in _UNITS:
            yield Sample(family, labels, value * 1024 ** _UNITS[unit])
