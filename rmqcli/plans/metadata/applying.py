"""The application of a plan, with separate calls for each area."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from rmqcli.client import Admin, ClientError
from rmqcli.client.admin.area import gather
from rmqcli.client.admin.values import stored
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.plans import properties, settings
from rmqcli.plans.metadata.document import ENTRIES
from rmqcli.plans.metadata.planning import Step
from rmqcli.plans.metadata.reading import State
from rmqcli.plans.topics import writing
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import TopicChange

Failures: TypeAlias = "dict[str, ClientError | str]"
_Apply: TypeAlias = "Callable[[Admin, Sequence[Step], State], Awaitable[Failures]]"


async def carry_out(admin: Admin, steps: Sequence[Step], state: State) -> tuple[int, Failures]:
    """Carry out the steps. Return how many succeeded, and the errors of the others by area, name and place."""
    failures: Failures = {}
    for area, apply in _AREAS.items():
        if chosen := [step for step in steps if step.area == area]:
            failures |= await apply(admin, chosen, state)
    done = sum(label_of(step) not in failures for step in steps)
    return done, failures


async def seen_losses(admin: Admin, steps: Sequence[Step], state: State) -> list[str]:
    """Return the messages that consumers will not see: those of removed queues and topics, with their
    producers, and those before offsets beyond the end.
    """
    tables = {
        place: _structs("topics", table) for place, table in state.metadata.areas.get("topics", {}).items()
    }
    puts = [_desired(step, state) for step in steps if step.area == "topics" and step.action == "change"]
    return (
        await settings.hidden(admin, puts, tables)
        + await _deleted(admin, steps)
        + await _beyond(admin, steps)
    )


def label_of(step: Step) -> str:
    """Return the name of a step in messages."""
    return f"{step.place} {step.name}" if step.area == "kv" else f"{step.name} on {step.place}"


async def _deleted(admin: Admin, steps: Sequence[Step]) -> list[str]:
    topics = sorted({step.name for step in steps if step.area == "topics" and step.action == "delete"})
    tables, _ = await gather(topics, lambda topic: admin.topics.stats(topic, failures={}))
    found = []
    for topic, stats in tables.items():
        writers = await writing(admin, stats)
        if count := stored(stats):
            told = "" if writers is None else f"; it is written to, {writers}"
            found.append(f"topic {topic}: {many(count, 'message')}{told}")
    return found


async def _beyond(admin: Admin, steps: Sequence[Step]) -> list[str]:
    offsets = {queue: (step, to) for step in steps if step.area == "offsets" for queue, to in _queues(step)}
    topics = sorted({queue.topic for queue in offsets})
    ends, _ = await gather(topics, lambda topic: admin.topics.stats(topic, failures={}))
    far = {
        label_of(step): None
        for queue, (step, to) in offsets.items()
        if queue not in (table := ends.get(queue.topic, {})) or to > table[queue].max_offset
    }
    text = "offsets beyond the end of their queues, so that groups skip new messages"
    return [f"{many(len(far), 'group')} with {text}: {', '.join(far)}"] if far else []


def _structs(area: str, table: Mapping[str, Any]) -> dict[str, settings.Config]:
    kind = ENTRIES[area]
    return {
        name: msgspec.convert({**members, kind.key: name}, kind.struct) for name, members in table.items()
    }


def _desired(step: Step, state: State) -> settings.Step:
    kind = ENTRIES[step.area]
    there = state.metadata.areas[step.area].get(step.place, {})
    found = {name: members for name, members in there.items() if name == step.name}
    members: dict[str, Any] = {**dict(step.wanted), kind.key: step.name}  # type: ignore[arg-type]
    if step.area == "topics" and "attributes" in members:
        old = next((dict(one).get("attributes") or {} for one in found.values()), {})  # type: ignore[arg-type]
        # Brokers merge attributes, so those that the document lacks are removed by name.
        gone = {f"-{name}": "" for name in old if name not in members["attributes"]}
        members["attributes"] = {**members["attributes"], **gone}
    entry = settings.entry_of(label_of(step), members, kind)
    (made,) = settings.planned([entry], kind, {step.place: _structs(step.area, found)})
    return made


async def _put_entries(admin: Admin, steps: Sequence[Step], state: State) -> Failures:
    """Put topics or groups on their brokers."""
    puts = [step for step in steps if step.action != "delete"]
    _, failed = await gather(
        range(len(puts)), lambda place: settings.carry_out(admin, _desired(puts[place], state))
    )
    return {label_of(puts[place]): error for place, error in failed.items()}


async def _topics(admin: Admin, steps: Sequence[Step], state: State) -> Failures:
    failures = await _put_entries(admin, steps, state)
    deleted = [step for step in steps if step.action == "delete"]
    names = {step.name for step in deleted}
    lost = {name: error for name, error in state.failures.items() if name in state.masters}
    answers, failed = await gather(names, lambda name: admin.topics.delete(name, failures=lost))
    for step in deleted:
        error = failed.get(step.name) or answers[step.name].failures.get(step.place)
        failures |= {label_of(step): error} if error else {}
    return failures


async def _groups(admin: Admin, steps: Sequence[Step], state: State) -> Failures:
    failures = await _put_entries(admin, steps, state)
    deleted = [step for step in steps if step.action == "delete"]
    _, failed = await gather(
        range(len(deleted)),
        lambda place: admin.groups.delete(deleted[place].name, brokers=[deleted[place].place]),
    )
    return failures | {label_of(deleted[place]): error for place, error in failed.items()}


async def _entries(admin: Admin, steps: Sequence[Step], state: State) -> Failures:
    async def put(place: int) -> TopicChange:
        step = steps[place]
        if step.action == "delete":
            return await admin.name_servers.delete_entry(step.place, step.name)
        return await admin.name_servers.put_entry(step.place, step.name, str(step.wanted))

    answers, failed = await gather(range(len(steps)), put)
    errors = failed | {
        place: next(iter(answer.failures.values())) for place, answer in answers.items() if answer.failures
    }
    return {label_of(steps[place]): error for place, error in errors.items()}


async def _configs(admin: Admin, steps: Sequence[Step], state: State) -> Failures:
    """Change each property with a separate request, because a broker refuses a request as a whole; then read
    them again.
    """
    seats = {step.place: state.masters[step.place] for step in steps}

    async def put(place: int) -> None:
        step = steps[place]
        values = {step.name: str(step.wanted)}
        change = await admin.brokers.set_config({step.place: seats[step.place]}, values)
        for error in change.failures.values():
            raise error

    failures: Failures = {}
    for place in range(len(steps)):  # one after another: a broker rewrites its file with each change
        _, failed = await gather([place], put)
        failures |= {label_of(steps[place]): error for error in failed.values()}
    after = await admin.brokers.configs(seats, failures={})
    for step in steps:
        made = properties.Change(step.place, step.name, None, str(step.wanted))
        for text in properties.not_taken([made], after).values():
            failures.setdefault(label_of(step), text)
    return failures


async def _offsets(admin: Admin, steps: Sequence[Step], state: State) -> Failures:
    async def commit(place: int) -> None:
        for queue, offset in _queues(steps[place]):
            await admin.offsets.commit(queue, offset, steps[place].name.partition("@")[2])

    _, failed = await gather(range(len(steps)), commit)
    return {label_of(steps[place]): error for place, error in failed.items()}


def _queues(step: Step) -> list[tuple[MessageQueue, int]]:
    topic = step.name.partition("@")[0]
    queues: Mapping[str, int] = dict(step.wanted)  # type: ignore[arg-type]
    return [(MessageQueue(topic, step.place, int(queue)), offset) for queue, offset in queues.items()]


_AREAS: Final[Mapping[str, _Apply]] = {
    "kv": _entries,  # before topics: a broker that registers learns from name servers which are ordered
    "topics": _topics,
    "groups": _groups,
    "config": _configs,
    "offsets": _offsets,
}
