"""Allocation strategies: tables from the formulas of the protocol, and invariants of every strategy."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import product

import pytest

from rmqcli.client.group.allocation import (
    Allocate,
    averagely,
    averagely_by_circle,
    by_config,
    by_machine_room,
    consistent_hash,
    machine_room_nearby,
)
from rmqcli.codec.message_queue import MessageQueue


def queues(count: int, broker: str = "a") -> list[MessageQueue]:
    return [MessageQueue("T", broker, number) for number in range(count)]


def clients(count: int) -> list[str]:
    return [f"10.0.0.1@{number}" for number in range(count)]


def numbers(strategy: Allocate, n: int, m: int) -> list[list[int]]:
    everyone = clients(m)
    return [[q.queue_id for q in strategy(client, queues(n), everyone)] for client in everyone]


def java_average(n: int, m: int, index: int) -> list[int]:
    """The formula of `AllocateMessageQueueAveragely`, step by step."""
    mod = n % m
    size = 1 if n <= m else n // m + 1 if mod > 0 and index < mod else n // m
    start = index * size if mod > 0 and index < mod else index * size + mod
    return [(start + i) % n for i in range(min(size, n - start))]


def test_averagely_is_the_formula() -> None:
    for n, m in product(range(1, 25), (1, 2, 3, 4, 5, 7, 8, 12)):
        assert numbers(averagely, n, m) == [java_average(n, m, index) for index in range(m)], (n, m)


@pytest.mark.parametrize(
    ("n", "m", "shares"),
    [
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (2, 3, [[0], [1], []]),
        (4, 4, [[0], [1], [2], [3]]),
        (5, 2, [[0, 1, 2], [3, 4]]),
        (0, 2, [[], []]),
    ],
)
def test_averagely(n: int, m: int, shares: list[list[int]]) -> None:
    assert numbers(averagely, n, m) == shares


@pytest.mark.parametrize(
    ("n", "m", "shares"),
    [(8, 3, [[0, 3, 6], [1, 4, 7], [2, 5]]), (2, 3, [[0], [1], []]), (4, 2, [[0, 2], [1, 3]])],
)
def test_by_circle(n: int, m: int, shares: list[list[int]]) -> None:
    assert numbers(averagely_by_circle, n, m) == shares


def test_consistent_hash_is_a_ring_of_ten_nodes_each() -> None:
    def digest(text: str) -> int:
        return int(hashlib.md5(text.encode()).hexdigest()[:8], 16)

    members = clients(3)
    ring = sorted((digest(f"{member}-{k}"), member) for member in members for k in range(10))
    for queue in queues(64):
        place = digest(f"MessageQueue [topic=T, brokerName=a, queueId={queue.queue_id}]")
        expected = next((member for node, member in ring if node >= place), ring[0][1])
        owners = [member for member in members if queue in consistent_hash(member, queues(64), members)]
        assert owners == [expected]


def test_consistent_hash_moves_only_the_queues_of_the_member_that_left() -> None:
    before = {
        queue: member for member in clients(4) for queue in consistent_hash(member, queues(64), clients(4))
    }
    left = clients(4)[:3]
    after = {queue: member for member in left for queue in consistent_hash(member, queues(64), left)}
    assert {before[queue] for queue in queues(64) if before[queue] != after[queue]} == {clients(4)[3]}


def test_a_fixed_list() -> None:
    mine = queues(4)[1:3]
    assert by_config(mine)("anybody", queues(8), clients(2)) == mine


def test_machine_room_leaves_other_rooms_alone() -> None:
    near = [MessageQueue("T", "r1@b", number) for number in range(5)]
    far = [MessageQueue("T", "r2@b", number) for number in range(3)] + queues(2, "plain")
    everything, members = sorted(near + far), clients(2)
    shares = [by_machine_room({"r1"})(member, everything, members) for member in members]
    # 5 = 2 · 2 + 1: neighbours by two, the rest behind
    assert [[q.queue_id for q in share] for share in shares] == [[0, 1, 4], [2, 3]]


def test_nearby_shares_rooms_without_members_among_all() -> None:
    rooms = {"a": "east", "b": "west", "c": "empty"}
    members = ["east-1", "east-2", "west-1"]
    everything = [q for broker in rooms for q in queues(4, broker)]
    strategy = machine_room_nearby(averagely, lambda q: rooms[q.broker_name], lambda c: c.split("-")[0])
    shares = {member: strategy(member, everything, members) for member in members}
    assert [(q.broker_name, q.queue_id) for q in shares["west-1"]] == [
        *[("b", n) for n in range(4)],
        ("c", 3),
    ]
    assert [(q.broker_name, q.queue_id) for q in shares["east-1"]] == [("a", 0), ("a", 1), ("c", 0), ("c", 1)]
    assert Counter(q for share in shares.values() for q in share) == Counter(everything)


def test_nearby_leaves_the_lists_of_its_strategy_alone() -> None:
    """Java calls the inner strategy for its own room only if there are queues, and for empty rooms
    separately.
    """
    kept = {"a": queues(2, "a"), "b": queues(2, "b")}
    strategy = machine_room_nearby(
        lambda client, near, members: kept[near[0].broker_name], lambda q: q.broker_name, lambda c: c
    )
    everything = [*kept["a"], *kept["b"]]
    assert strategy("a", everything, ["a", "c"]) == everything
    assert strategy("c", everything, ["a", "c"]) == queues(2, "b")
    assert kept["a"] == queues(2, "a")


@pytest.mark.parametrize("strategy", [averagely, averagely_by_circle, consistent_hash])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 3), (16, 5), (3, 9), (100, 13)])
def test_each_queue_has_one_owner(strategy: Allocate, n: int, m: int) -> None:
    assert sorted(number for share in numbers(strategy, n, m) for number in share) == list(range(n))
