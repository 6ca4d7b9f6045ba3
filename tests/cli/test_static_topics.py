"""Plans of static topics: what each broker shall have, and the order in which it is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmqcli.codec.bodies.config import TopicConfigAndQueueMapping
from rmqcli.codec.bodies.route import LogicQueueMappingItem
from rmqcli.flows.errors import InvalidInput, NotMapped
from rmqcli.plans.static_topics import (
    BLOCK,
    GROWN,
    MOVED,
    Mapped,
    Move,
    decided,
    grown,
    load,
    moved,
    places,
    plan_of,
    queues_of,
    save,
)

EVERY = ("a", "b", "c")
NOW = 1_700_000_000_000


def made(count: int = 4, brokers: tuple[str, ...] = ("a", "b")) -> Mapped:
    return grown("T", {}, count, brokers, EVERY, NOW)


def detail(mapped: Mapped, broker: str) -> Any:
    return mapped[broker].mapping_detail


def holders(mapped: Mapped) -> list[str]:
    return [place.broker for place in places(mapped)]


def test_a_new_topic_is_spread_and_known_to_every_broker() -> None:
    mapped = made()
    assert [tuple(place) for place in places(mapped)] == [
        (0, "a", 0, 0),
        (1, "b", 0, 0),
        (2, "a", 1, 0),
        (3, "b", 1, 0),
    ]
    assert {name: one.write_queue_nums for name, one in mapped.items()} == {"a": 2, "b": 2, "c": 0}
    assert {(detail(mapped, name).total_queues, detail(mapped, name).epoch) for name in EVERY} == {(4, NOW)}
    assert detail(mapped, "c").hosted_queues == {}


def test_new_queues_go_where_the_fewest_are() -> None:
    more = grown("T", made(2, ("a",)), 5, EVERY, EVERY, NOW)
    assert holders(more) == ["a", "a", "b", "c", "b"]
    assert detail(more, "a").epoch == NOW + 1000, "an epoch grows by more than clocks differ"
    with pytest.raises(InvalidInput, match="can only grow"):
        grown("T", more, 5, EVERY, EVERY, NOW)


def test_few_queues_move_and_no_broker_gives_and_takes() -> None:
    plan = moved("T", made(6), EVERY, EVERY, NOW + 9)
    assert (plan.inward, plan.outward) == (("c",), ("a", "b"))
    assert sorted(holders(plan.mapped)) == ["a", "a", "b", "b", "c", "c"]
    assert sum(place.first_offset is None for place in places(plan.mapped)) == 2
    away = moved("T", made(4), ("c",), EVERY, NOW)
    assert (holders(away.mapped), away.outward) == (["c"] * 4, ("a", "b"))
    assert moved("T", made(4), ("a", "b"), EVERY, NOW).inward == ()


def test_offsets_of_moved_queues_begin_beyond_those_of_before() -> None:
    plan = moved("T", made(4), ("c",), EVERY, NOW)
    ends = {("a", 0): 0, ("a", 1): 4_999, ("b", 0): 5_000, ("b", 1): 10_000}
    after = decided(plan, ends)
    assert [place.first_offset for place in places(after)] == [BLOCK, 2 * BLOCK, BLOCK, 2 * BLOCK]
    assert detail(after, "a").hosted_queues[0] == detail(after, "c").hosted_queues[0]
    again = decided(moved("T", after, ("a",), EVERY, NOW), dict.fromkeys((("c", n) for n in range(4)), 7))
    assert [place.first_offset for place in places(again)] == [2 * BLOCK, 3 * BLOCK, 2 * BLOCK, 3 * BLOCK]
    assert [len(items) for items in queues_of(again).values()] == [3, 3, 3, 3]
    with pytest.raises(NotMapped, match="no end of queue 0 of a"):
        decided(plan, {})


def without(mapped: Mapped, broker: str) -> Mapped:
    return {name: one for name, one in mapped.items() if name != broker}


def contradictions() -> Iterator[tuple[Mapped, str]]:
    yield without(made(), "a"), "not every queue of 0 to 3"
    yield {**made(), "c": made(5)["c"]}, "different epochs or numbers of queues"
    yield {"a": TopicConfigAndQueueMapping(topic_name="T")}, "T is not a static topic on a"
    twice = made()
    detail(twice, "b").hosted_queues[0] = [LogicQueueMappingItem(bname="b", queue_id=7)]
    yield twice, "queue 0 is written to on b and a"
    shared = made()
    detail(shared, "a").hosted_queues[2] = [LogicQueueMappingItem(bname="a", queue_id=0)]
    yield shared, "queue 0 of a belongs to 2"


@pytest.mark.parametrize(("mapped", "text"), list(contradictions()))
def test_what_does_not_fit_together_is_not_changed(mapped: Mapped, text: str) -> None:
    with pytest.raises(NotMapped, match=text):
        grown("T", mapped, 9, EVERY, EVERY, NOW)


def test_plans_are_kept(tmp_path: Path) -> None:
    plan = plan_of("T", GROWN, Move(made(), (), ()))
    path = save(plan, tmp_path / "plans")
    assert (path.name, load(path, "T", GROWN)) == (f"T-{NOW}.json", plan)
    for topic, kind in (("U", GROWN), ("T", MOVED)):
        with pytest.raises(InvalidInput, match="is a plan CREATE_OR_UPDATE of topic T"):
            load(path, topic, kind)
    path.write_text("{")
    with pytest.raises(InvalidInput, match="is not a plan"):
        load(path, "T", GROWN)
