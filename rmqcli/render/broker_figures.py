"""The runtime figures of a broker (GET_BROKER_RUNTIME_INFO): their groups, and their formatted text.

The names are those of 4.9 and 5.x. An unknown figure belongs to the group `other`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from rmqcli.render.text import local_seconds, size

OTHER = "other"


class Figure(NamedTuple):
    """The figures whose names match, their group, and how a value is shown."""

    names: re.Pattern[str]
    group: str
    show: Callable[[str], str] = str


def _rates(text: str) -> str:
    first, *more = (f"{float(rate):,.1f}" for rate in text.split() or [""])
    longer = [f"{span}: {rate}" for span, rate in zip(("1 min", "10 min"), more, strict=False)]
    return f"{first}/s" + (f" ({', '.join(longer)})" if longer else "")


def _percent(text: str) -> str:
    return f"{float(text):.0%}"


def _count(text: str) -> str:
    return f"{int(text):,}"


def _size(text: str) -> str:
    return size(round(float(text)))


def _milliseconds(text: str) -> str:
    return f"{float(text):,.0f} ms"


def _time(text: str) -> str:
    return local_seconds(int(text)) or "none"


def _progress(text: str) -> str:
    done, last = (int(part) for part in text.split(","))
    return f"{done:,} of {last:,}"


def _figure(names: str, group: str, show: Callable[[str], str] = str) -> Figure:
    return Figure(re.compile(names), group, show)


FIGURES = (
    _figure("bootTimestamp|startAcceptSendRequestTimeStamp", "broker", _time),
    _figure("brokerVersion.*|runtime|brokerActive|brokerRole.*", "broker"),
    _figure("(put|get(Found|Miss|Total|Transferr?ed))Tps", "traffic", _rates),
    _figure("msg(Put|Get)Total.*", "traffic", _count),
    _figure("putMessage(SizeTotal|AverageSize)", "puts", _size),
    _figure("putMessage(Times|Failed).*", "puts", _count),
    _figure("(put|get)MessageEntireTimeMax|putLatency.*|pageCacheLockTimeMills", "puts", _milliseconds),
    _figure("putMessageDistributeTime", "puts"),
    _figure("commitLog(Min|Max)Offset", "store", _count),
    _figure("dispatch(MaxBuffer|BehindBytes)", "store", _size),
    _figure("earliestMessageTimeStamp", "store", _time),
    _figure("(commitLog|consumeQueue)DiskRatio.*", "store", _percent),
    _figure("commitLogDirCapacity|remain(HowManyDataToFlush|TransientStoreBufferNumbs)", "store"),
    _figure(".*(Queue|Pool).*HeadWaitTimeMills", "waiting", _milliseconds),
    _figure(".*Queue(Size|Capacity)", "waiting", _count),
    _figure(r"scheduleMessageOffset_\d+", "delays", _progress),
    _figure("timer(ReadBehind|OffsetBehind|CongestNum)", "timers", _count),
    _figure("timer.*", "timers"),
)
GROUPS = (*dict.fromkeys(figure.group for figure in FIGURES), OTHER)


def grouped(table: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return group, name and value of each figure, in the order of GROUPS and of names."""
    rows = [(_find(name).group, name, value) for name, value in table.items()]
    return sorted(rows, key=lambda row: (GROUPS.index(row[0]), row[1]))


def human(name: str, value: str) -> str:
    """Return the value as text for people; return a value of another form unchanged."""
    try:
        return _find(name).show(value)
    except ValueError:
        return value


_OTHERS = _figure(".*", OTHER)


def _find(name: str) -> Figure:
    return next((figure for figure in FIGURES if figure.names.fullmatch(name)), _OTHERS)
