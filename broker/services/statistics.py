"""Counters of puts and gets, and their rates (Java `BrokerStatsManager`, `StatsItem`, `StoreStatsService`).

The hot path increments integers of one cell per queue, or per queue and group. The items that Java names
(TOPIC_PUT_NUMS …, bodies.md) are sums over cells, computed on request. Samples are taken every 10 s for the
minute (7 are kept), every 10 min for the hour (7) and every hour for the day (25); an empty sample precedes
the first one by one period. Rates are per second, times in ms.

Items that Java never increments (GROUP_GET_FROM_DISK_…, BROKER_GET_FROM_DISK_…, COMMERCIAL_…) do not exist.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import accumulate, repeat
from typing import NamedTuple, TypeVar

import trio

from rmqcli.broker.net.turns import Turns
from rmqcli.codec.bodies.stats import BrokerStatsData, BrokerStatsItem

SAMPLE_PERIOD_MS = 10_000
HOUR_EVERY = 60
DAY_EVERY = 360
MOST_CELLS = 262_144

Sample = tuple[int, int, int, int, int]
"""Time (ms), and the counters nums, size, latency and times of a cell."""
Series = deque[Sample]


@dataclass(slots=True)
class Cell:
    """Counters since the start: messages, bytes, milliseconds of operations, and operations."""

    nums: int = 0
    size: int = 0
    latency: int = 0
    times: int = 0
    minute: Series = field(default_factory=lambda: deque(maxlen=7))
    hour: Series = field(default_factory=lambda: deque(maxlen=7))
    day: Series = field(default_factory=lambda: deque(maxlen=25))

    def add(self, nums: int, size: int, latency: int = 0) -> None:
        self.nums += nums
        self.size += size
        self.latency += latency
        self.times += 1

    def sample(self, now: int, *, hour: bool, day: bool) -> None:
        self._append(self.minute, now, SAMPLE_PERIOD_MS)
        if hour:
            self._append(self.hour, now, SAMPLE_PERIOD_MS * HOUR_EVERY)
        if day:
            self._append(self.day, now, SAMPLE_PERIOD_MS * DAY_EVERY)

    def _append(self, series: Series, now: int, period: int) -> None:
        if not series:
            series.append((now - period, 0, 0, 0, 0))
        series.append((now, self.nums, self.size, self.latency, self.times))


CELLS_PER_STEP = 64

QueueKey = tuple[str, int]
GroupKey = tuple[str, int, str]
KeyT = TypeVar("KeyT", QueueKey, GroupKey)


class Cells(dict[KeyT, Cell]):
    """The cells of queues, or of queues and groups, created on first use; more than `MOST_CELLS` are not
    kept.

    `of` returns the cells of all queues of a topic, or of a topic and group.
    """

    def __init__(self) -> None:
        self._index: dict[tuple[str, ...], dict[KeyT, Cell]] = {}

    def __missing__(self, key: KeyT) -> Cell:
        cell = Cell()
        if len(self) < MOST_CELLS:
            self[key] = self._index.setdefault((key[0], *key[2:]), {})[key] = cell
        return cell

    def of(self, *names: str) -> list[Cell]:
        return list(self._index.get(names, {}).values())

    def forget_topic(self, topic: str) -> None:
        for names in [names for names in self._index if names[0] == topic]:
            for key in self._index.pop(names):
                del self[key]


class Statistics:
    """The counters of a broker. `cluster` is the key of the BROKER_… items."""

    def __init__(self, now_ms: Callable[[], int], cluster: str) -> None:
        self._now_ms = now_ms
        self.cluster = cluster
        self.puts: Cells[QueueKey] = Cells()
        self.gets: Cells[GroupKey] = Cells()
        self.send_backs: Cells[GroupKey] = Cells()
        self._ticks = 0

    def put(self, topic: str, queue_id: int, nums: int, size: int, times: int = 1) -> None:
        """Count `times` sends with `nums` messages and `size` stored bytes in total."""
        cell = self.puts[topic, queue_id]
        cell.nums += nums
        cell.size += size
        cell.times += times

    def got(self, topic: str, queue_id: int, group: str, nums: int, size: int, latency: int = 0) -> None:
        """Count a pull that found `nums` messages with `size` bytes in `latency` ms."""
        self.gets[topic, queue_id, group].add(nums, size, latency)

    def sent_back(self, topic: str, group: str) -> None:
        self.send_backs[topic, 0, group].add(1, 0)

    def forget_topic(self, topic: str) -> None:
        self.puts.forget_topic(topic)
        self.gets.forget_topic(topic)
        self.send_backs.forget_topic(topic)

    def item(self, name: str, key: str) -> Generator[None, None, BrokerStatsData | None]:
        """Return the rates of one item, in steps; None if nothing has been counted for it."""
        finder = _FINDERS.get(name)
        if finder is None:
            return None
        find, column, averaged = finder
        cells = list(find(self, key))
        if not cells:
            return None
        minute, hour, day = (_Rate(column, averaged=averaged) for _ in range(3))
        for count, cell in enumerate(cells, 1):
            minute.add(cell.minute)
            hour.add(cell.hour)
            day.add(cell.day)
            if not count % CELLS_PER_STEP:
                yield
        return BrokerStatsData(stats_minute=minute.item(), stats_hour=hour.item(), stats_day=day.item())

    def consume_tps(self, topic: str, group: str) -> Generator[None, None, float]:
        """Return the messages per second of a topic that a group pulled in the last minute, in steps."""
        found = yield from self.item("GROUP_GET_NUMS", f"{topic}@{group}")
        return found.stats_minute.tps if found is not None and found.stats_minute is not None else 0.0

    def sample(self) -> None:
        """Take the next samples. Call this every 10 s."""
        for _ in self._sampling():
            pass

    def _sampling(self) -> Generator[None, None, None]:
        self._ticks += 1
        now = self._now_ms()
        hour, day = self._ticks % HOUR_EVERY == 0, self._ticks % DAY_EVERY == 0
        # A copy, because cells may be added between two steps.
        for cell in [*self.puts.values(), *self.gets.values(), *self.send_backs.values()]:
            cell.sample(now, hour=hour, day=day)
            yield

    async def run(self, turns: Turns) -> None:
        """Sample until cancelled."""
        while True:
            await trio.sleep(SAMPLE_PERIOD_MS / 1000)
            await turns.run(self._sampling())


class _Rate:
    """The sum, rate, and mean per operation between the oldest and the newest samples."""

    def __init__(self, column: int, *, averaged: bool) -> None:
        self._column = column
        self._averaged = averaged
        self._total = self._times = self._start = self._end = 0

    def add(self, samples: Series) -> None:
        if not samples:
            return
        first, last = samples[0], samples[-1]
        self._total += last[self._column] - first[self._column]
        self._times += last[TIMES] - first[TIMES]
        self._start = min(self._start or first[0], first[0])
        self._end = max(self._end, last[0])

    def item(self) -> BrokerStatsItem:
        elapsed = self._end - self._start
        return BrokerStatsItem(
            sum=self._total,
            tps=self._total * 1000 / elapsed if elapsed > 0 else 0.0,
            avgpt=self._total / self._times if self._times and self._averaged else 0.0,
        )


def _cells_of_topic(statistics: Statistics, key: str) -> Iterable[Cell]:
    return statistics.puts.of(key)


def _cells_of_queue(statistics: Statistics, key: str) -> Iterable[Cell]:
    topic, _, queue = key.rpartition("@")
    cell = statistics.puts.get((topic, int(queue))) if queue.isascii() and queue.isdigit() else None
    return [cell] if cell is not None else []


def _of_group(cells: Cells[GroupKey], key: str) -> Iterable[Cell]:
    topic, _, group = key.rpartition("@")
    return cells.of(topic, group)


def _cells_of_group_queue(statistics: Statistics, key: str) -> Iterable[Cell]:
    topic, queue, group = key.split("@") if key.count("@") == 2 else ("", "", "")
    cell = statistics.gets.get((topic, int(queue), group)) if queue.isascii() and queue.isdigit() else None
    return [cell] if cell is not None else []


def _cells_of_latency(statistics: Statistics, key: str) -> Iterable[Cell]:
    """Return the cells of a latency item, whose key begins with the queue."""
    queue, _, rest = key.partition("@")
    topic, _, group = rest.rpartition("@")
    return _cells_of_group_queue(statistics, f"{topic}@{queue}@{group}")


def _all_puts(statistics: Statistics, key: str) -> Iterable[Cell]:
    return statistics.puts.values() if key == statistics.cluster else []


def _all_gets(statistics: Statistics, key: str) -> Iterable[Cell]:
    return statistics.gets.values() if key == statistics.cluster else []


NUMS, SIZE, LATENCY, TIMES = 1, 2, 3, 4
AVERAGED = True
# By name: the cells, the column to add up, and whether a mean per operation is reported (not for BROKER_…, as
# in Java).
_FINDERS: Mapping[str, tuple[Callable[[Statistics, str], Iterable[Cell]], int, bool]] = {
    "TOPIC_PUT_NUMS": (_cells_of_topic, NUMS, AVERAGED),
    "TOPIC_PUT_SIZE": (_cells_of_topic, SIZE, AVERAGED),
    "QUEUE_PUT_NUMS": (_cells_of_queue, NUMS, AVERAGED),
    "QUEUE_PUT_SIZE": (_cells_of_queue, SIZE, AVERAGED),
    "GROUP_GET_NUMS": (lambda counted, key: _of_group(counted.gets, key), NUMS, AVERAGED),
    "GROUP_GET_SIZE": (lambda counted, key: _of_group(counted.gets, key), SIZE, AVERAGED),
    "GROUP_GET_LATENCY": (_cells_of_latency, LATENCY, AVERAGED),
    "QUEUE_GET_NUMS": (_cells_of_group_queue, NUMS, AVERAGED),
    "QUEUE_GET_SIZE": (_cells_of_group_queue, SIZE, AVERAGED),
    "SNDBCK_PUT_NUMS": (lambda counted, key: _of_group(counted.send_backs, key), NUMS, AVERAGED),
    "BROKER_PUT_NUMS": (_all_puts, NUMS, not AVERAGED),
    "BROKER_GET_NUMS": (_all_gets, NUMS, not AVERAGED),
}


# Totals and rates of the whole broker for GET_BROKER_RUNTIME_INFO (Java `StoreStatsService`, `BrokerStats`).
#
# Totals are sampled every second and 601 samples are kept, for the rates of the last 10 seconds, minute and 10
# minutes. The durations of puts are those of the last complete minute.

KEPT = 601
SPANS = (10, 60, 600)
MINUTE_MS = 60_000


LOWER_ENDS = (0, 1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000)
"""Milliseconds at which the classes of putMessageDistributeTime begin."""
CLASSES = (
    *("[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]"),
    *("[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]"),
)
STEPS = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1000, 9))
UPPER_ENDS = tuple(accumulate(width for step, times in STEPS for width in repeat(step, times)))
"""Milliseconds at which the buckets for percentiles end: 1, 2, … 20, 22, … 10,000; an additional one holds
longer times."""
LONGEST = (1 << 63) - 1
"""The end of the last bucket, Java's Long.MAX_VALUE."""
NOTED_MS = UPPER_ENDS[-1] + 1
"""Longest time that is counted as it is; longer ones count as this, which limits the number of distinct
times."""


class PutTimes:
    """Durations of puts in the current minute, and in the previous one, which is reported.

    Java puts every duration into a bucket. Here only puts of 1 ms or more are counted, and the others are
    derived from the number of puts, so that a fast put costs nothing. A batch is one put. Durations are whole
    milliseconds, rounded down.
    """

    def __init__(self) -> None:
        self.longest_ms = 0
        self._slow: Counter[int] = Counter()
        self._puts_before = 0
        self._last: Counter[int] = Counter()

    def slow(self, took_ms: int) -> None:
        """Count a put of `took_ms`, 1 or more."""
        self.longest_ms = max(self.longest_ms, took_ms)
        self._slow[min(took_ms, NOTED_MS)] += 1

    def end_minute(self, puts: int) -> None:
        """Start the next minute. `puts` is the number of all puts since the start of the broker."""
        fast = max(0, puts - self._puts_before - self._slow.total())
        self._last = self._slow + Counter({0: fast})
        self._slow = Counter()
        self._puts_before = puts

    def distribution(self) -> str:
        """Return the number of puts by class, in Java's format; 0 in the first minute, where Java has
        "null"."""
        counts: Counter[int] = Counter()
        for took, count in self._last.items():
            counts[bisect_right(LOWER_ENDS, took) - 1] += count
        return "".join(f"{name}:{counts[at]} " for at, name in enumerate(CLASSES))

    def percentile(self, part: float) -> float:
        """Return the milliseconds that a fraction (0 to 1) of the puts did not exceed; 0 without puts."""
        counts: Counter[int] = Counter()
        for took, count in self._last.items():
            counts[bisect_left(UPPER_ENDS, max(took, 1))] += count
        wanted, passed, low = int(counts.total() * part), 0, 0
        for at, high in enumerate((*UPPER_ENDS, LONGEST)):
            if wanted <= passed + counts[at]:
                return low + (high - low) * (wanted - passed) / max(1, counts[at])
            passed, low = passed + counts[at], high
        return float(low)


class Totals(NamedTuple):
    """The counters at `time` (ms)."""

    time: int
    puts: int
    found: int
    missed: int
    transferred: int


class StoreRates:
    """Counters that handlers increment, and their rates."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.put_messages = 0
        self.put_in_company = 0
        """Messages of batches except the first of each: a batch is one put."""
        self.put_failures = 0
        self.put_bytes = 0
        self.found = 0
        self.missed = 0
        self.transferred = 0
        self.put_times = PutTimes()
        self.longest_get_seconds = 0.0
        self._samples: deque[Totals] = deque([self._totals()], maxlen=KEPT)
        self._minute_began = now_ms()
        self._day = self._today()
        self.mornings = {"put": (0, 0), "get": (0, 0)}

    def slow_put(self, seconds: float) -> None:
        """Count a put of more than 1 ms."""
        self.put_times.slow(int(seconds * 1000))

    def rates(self, *columns: str, unknown: str = "") -> str:
        """Return the rates of the sum of some totals over 10 s, 1 min and 10 min; `unknown` where samples are
        missing."""
        samples = self._samples
        last = samples[-1]

        def rate(first: Totals) -> float:
            counted: int = sum(getattr(last, name) - getattr(first, name) for name in columns)
            return counted * 1000 / max(1, last.time - first.time)

        return " ".join(f"{rate(samples[-n - 1])}" if len(samples) > n else unknown for n in SPANS)

    def sample(self) -> None:
        """Take the next sample. Call this every second."""
        totals = self._totals()
        self._samples.append(totals)
        if totals.time > self._minute_began + MINUTE_MS:
            self._minute_began = totals.time
            self.put_times.end_minute(totals.puts - self.put_in_company)
        today = self._today()
        if today != self._day:
            self._day = today
            self.mornings = {
                "put": (self.mornings["put"][1], self.put_messages),
                "get": (self.mornings["get"][1], self.transferred),
            }

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await trio.sleep(1)
            self.sample()

    def _totals(self) -> Totals:
        return Totals(self._now_ms(), self.put_messages, self.found, self.missed, self.transferred)

    def _today(self) -> date:
        return datetime.fromtimestamp(self._now_ms() / 1000).date()  # the local day, as in Java
