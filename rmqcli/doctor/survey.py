"""Queries name servers, brokers and clients for everything that the checks need, all of a kind at once.

An address that does not respond costs one timeout in all: later requests skip it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
import trio

from rmqcli.client import UNREACHED, Admin, ClientError
from rmqcli.client.admin.area import gather
from rmqcli.client.wire.addresses import name_servers
from rmqcli.client.wire.pool import vip_address
from rmqcli.codec.bodies.config import SubscriptionGroupConfig
from rmqcli.codec.bodies.route import ClusterInfo, TopicRouteData
from rmqcli.codec.bodies.running import ConsumerConnection, ConsumerRunningInfo
from rmqcli.codec.codes import MASTER_ID
from rmqcli.codec.headers.routes import GetRouteInfoRequestHeader
from rmqcli.codec.operations.routes import GET_BROKER_CLUSTER_INFO, GET_ROUTEINFO_BY_TOPIC
from rmqcli.doctor.group_facts import Members, lagging, members_of
from rmqcli.files import replace_file
from rmqcli.render.text import duration
from rmqcli.state import state_folder

# Brokers that were registered during an earlier survey.
#
# A name server immediately forgets a killed broker and its topics, so the brokers that are registered and
# reply may be half of a cluster. Each survey of a cluster therefore records the brokers in a file of the
# state folder, and a broker that is missing from a later survey counts as lost, until FORGOTTEN_MS after it
# was last seen.

FORGOTTEN_MS = 86_400_000
"""The time for which a broker that is no longer registered counts as lost: a day."""


class Place(NamedTuple):
    """The cluster and the address of a broker."""

    cluster: str
    address: str


class LostBroker(msgspec.Struct, frozen=True):
    """A broker as it was registered at `seen` (epoch ms). `label` is `NAME`, or `NAME:ID` for a slave."""

    label: str
    cluster: str
    address: str
    seen: int

    @property
    def name(self) -> str:
        return self.label.partition(":")[0]

    def told(self, now_ms: int) -> str:
        """Return the known facts about the broker, as the end of a sentence."""
        return (
            f"is no longer registered; {duration((now_ms - self.seen) / 1000)} ago it was, at {self.address}"
        )


def seat_label(name: str, broker_id: int) -> str:
    """Return `NAME`, or `NAME:ID` for a slave."""
    return name if broker_id == MASTER_ID else f"{name}:{broker_id}"


def places_of(info: ClusterInfo) -> dict[str, Place]:
    """Return all brokers in a reply of a name server, by label."""
    return {
        seat_label(name, broker_id): Place(data.cluster or "", address)
        for name, data in info.broker_addr_table.items()
        for broker_id, address in data.broker_addrs.items()
    }


class Seen:
    """The brokers that earlier runs saw, by label."""

    def __init__(self, brokers: Collection[LostBroker] = ()) -> None:
        self._brokers = {one.label: one for one in brokers}

    @property
    def brokers(self) -> list[LostBroker]:
        return [one for _, one in sorted(self._brokers.items())]

    def missing(self, places: Mapping[str, Place], now_ms: int) -> list[LostBroker]:
        """Record the registered brokers, and return those that are no longer registered.

        If a slave has become the master, its label is no longer registered; it is returned with the address
        of the former master, which is the lost one.
        """
        former, lost = self._brokers, []
        holders = {place.address: label for label, place in places.items()}
        for label, one in sorted(former.items()):
            if label in places or abs(now_ms - one.seen) >= FORGOTTEN_MS:
                continue
            moved = former.get(holders.get(one.address, ""), one)
            if moved.address not in holders:
                lost.append(msgspec.structs.replace(one, address=moved.address))
        self.note(places, now_ms)
        self._brokers |= {one.label: one for one in lost}
        return lost

    def note(self, places: Mapping[str, Place], now_ms: int) -> None:
        """Record the registered brokers, and forget all others, because the expected number is present."""
        self._brokers = {label: LostBroker(label, *place, now_ms) for label, place in places.items()}


class SeenFile:
    """The file of the brokers that some name servers had. `trouble`: the reason why it cannot be written."""

    def __init__(self, namesrv: str) -> None:
        name = re.sub(r"[^\w.-]", "_", ",".join(sorted(name_servers(namesrv))))[:200]
        self.path = state_folder() / "brokers" / f"{name}.json"
        self.trouble: OSError | None = None

    @property
    def reason(self) -> str:
        """The trouble as a line with the remedy."""
        text = None if self.trouble is None else self.trouble.strerror
        return (
            f"brokers of earlier runs are unknown: {self.path}: {text}; name a folder that can be written to "
            "with RMQ_STATE_DIR"
        )

    def read(self) -> Seen:
        """Return the content of the file, empty if it does not exist or has another format."""
        try:
            return Seen(msgspec.json.decode(self.path.read_bytes(), type=list[LostBroker]))
        except FileNotFoundError:
            return Seen()
        except OSError as error:
            self.trouble = error
            return Seen()
        except msgspec.DecodeError:
            return Seen()  # it will be rewritten

    def write(self, seen: Seen) -> None:
        """Replace the file."""
        try:
            replace_file(self.path, msgspec.json.encode(seen.brokers), durable=False)
        except OSError as error:
            self.trouble = error


T = TypeVar("T")
MAX_GROUPS = 200
"""The maximum number of groups with messages to consume whose clients are queried."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One address of a broker; id 0 is the master."""

    broker_name: str
    broker_id: int
    address: str

    def __str__(self) -> str:
        return f"{self.broker_name} {self.address}"


@dataclass(frozen=True, slots=True)
class Reading:
    """The runtime table of a broker; `before` and `after` are the times of this machine around the request,
    in epoch ms.
    """

    table: Mapping[str, str]
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class GroupSurvey:
    """A group: its settings by broker, its clients (None: none is connected), their states by client id;
    `members` has everything known about it.
    """

    name: str
    settings: Mapping[str, SubscriptionGroupConfig]
    connection: ConsumerConnection | ClientError | None
    states: Mapping[str, ConsumerRunningInfo]
    members: Members | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """The requests and their results. `views` and `routes` are by name server, `readings` and `vip` by
    address.

    `vip` holds the masters whose VIP port was tried: None if it responds. `group` is None without a group.
    `gone` are brokers that were registered before, as of `now_ms` (epoch ms). `lagging` are other groups with
    messages to consume.
    """

    views: Mapping[str, ClusterInfo | ClientError]
    topic: str | None = None
    routes: Mapping[str, TopicRouteData | ClientError] = field(default_factory=dict)
    readings: Mapping[str, Reading | ClientError] = field(default_factory=dict)
    vip: Mapping[str, ClientError | None] = field(default_factory=dict)
    group: GroupSurvey | None = None
    gone: Sequence[LostBroker] = ()
    now_ms: int = 0
    lagging: Sequence[Members] = ()

    @property
    def answered(self) -> bool:
        """True if a name server responded."""
        return any(isinstance(view, ClusterInfo) for view in self.views.values())

    @property
    def view(self) -> ClusterInfo:
        """The first reply of a name server; empty without one."""
        return next((view for view in self.views.values() if isinstance(view, ClusterInfo)), ClusterInfo())

    @property
    def seats(self) -> list[Seat]:
        """Every broker address that a name server knows, sorted."""
        views = [view for view in self.views.values() if isinstance(view, ClusterInfo)]
        found = {
            Seat(name, broker_id, address)
            for view in views
            for name, data in view.broker_addr_table.items()
            for broker_id, address in data.broker_addrs.items()
        }
        return sorted(found, key=lambda seat: (seat.broker_name, seat.broker_id, seat.address))

    @property
    def places(self) -> dict[str, Place]:
        """Every broker that a name server knows, by label."""
        clusters = {
            name: data.cluster or ""
            for view in self.views.values()
            if isinstance(view, ClusterInfo)
            for name, data in view.broker_addr_table.items()
        }
        return {
            seat_label(seat.broker_name, seat.broker_id): Place(clusters[seat.broker_name], seat.address)
            for seat in self.seats
        }

    @property
    def masters(self) -> dict[str, str]:
        """The addresses of the masters that responded, by broker name."""
        return {
            seat.broker_name: seat.address
            for seat in self.seats
            if seat.broker_id == MASTER_ID and isinstance(self.readings.get(seat.address), Reading)
        }


async def examine(
    admin: Admin, topic: str | None = None, group: str | None = None, *, others: bool = False
) -> Survey:
    """Query everything; with `others`, also the other groups that have messages to consume.

    Errors of single servers are part of the survey; none is raised.
    """
    views: dict[str, ClusterInfo | ClientError] = {}
    await _fill(views, admin.instance.name_servers.addresses, partial(_view, admin))
    found = Survey(views, topic)
    if not found.answered:
        return found
    # Later requests would otherwise wait for name servers that do not respond.
    admin.instance.name_servers.prefer(
        next(one for one, view in views.items() if isinstance(view, ClusterInfo))
    )
    readings: dict[str, Reading | ClientError] = {}
    vip: dict[str, ClientError | None] = {}
    routes: dict[str, TopicRouteData | ClientError] = {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            _fill, readings, sorted({seat.address for seat in found.seats}), partial(_read, admin)
        )
        nursery.start_soon(_fill, vip, _vip_known(admin, found), partial(_knock, admin))
        if topic is not None:
            answering = [server for server, view in views.items() if not isinstance(view, UNREACHED)]
            nursery.start_soon(_fill, routes, answering, partial(_route, admin, topic))
    surveyed = Survey(views, topic, routes, readings, vip)
    if group is not None:
        surveyed = replace(surveyed, group=await _group(admin, surveyed, group))
    return replace(surveyed, lagging=await _lagging(admin, surveyed)) if others else surveyed


async def _lagging(admin: Admin, survey: Survey) -> list[Members]:
    """Query the running groups with messages to consume, except the surveyed one."""
    failures = _lost(survey)
    own = survey.group.name if survey.group is not None else ""
    try:
        names = [name for name in await lagging(admin, survey.masters, failures) if name != own][:MAX_GROUPS]
    except ClientError:
        return []  # the finding about the broker has the reason
    found, _ = await gather(names, lambda name: members_of(admin, name, failures))
    return [one for one in found.values() if one.connection is not None]


async def _fill(
    answers: dict[str, T | ClientError], keys: Collection[str], ask: Callable[[str], Awaitable[T]]
) -> None:
    """Call `ask` for all keys at once, and put results and errors into `answers`, in the order of the keys."""
    found: dict[str, T | ClientError] = {}

    async def one(key: str) -> None:
        try:
            found[key] = await ask(key)
        except ClientError as error:
            found[key] = error

    async with trio.open_nursery() as nursery:
        for key in keys:
            nursery.start_soon(one, key)
    answers.update({key: found[key] for key in keys})


async def _view(admin: Admin, server: str) -> ClusterInfo:
    return (await admin.instance.ask(server, GET_BROKER_CLUSTER_INFO, None, None)).body


async def _route(admin: Admin, topic: str, server: str) -> TopicRouteData:
    header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
    return (await admin.instance.ask(server, GET_ROUTEINFO_BY_TOPIC, header, None)).body


async def _read(admin: Admin, address: str) -> Reading:
    now_ms = admin.instance.now_ms
    before = now_ms()
    table = await admin.brokers.runtime_info(address)
    return Reading(table, before, now_ms())


async def _knock(admin: Admin, address: str) -> None:
    """Send a request to a master's VIP port: any reply shows that the port is open."""
    try:
        await admin.brokers.runtime_info(vip_address(address))
    except UNREACHED:
        raise
    except ClientError:
        return


def _vip_known(admin: Admin, survey: Survey) -> list[str]:
    """Return the masters whose VIP port can be tried: an address map that names only their main port does not
    cover it.
    """
    target = admin.instance.address_map.target
    masters = {seat.address for seat in survey.seats if seat.broker_id == MASTER_ID}
    return sorted(
        address
        for address in masters
        if target(address) == address or target(vip_address(address)) != vip_address(address)
    )


async def _group(admin: Admin, survey: Survey, name: str) -> GroupSurvey:
    """Query the masters that responded for a group, and its clients for their subscriptions."""
    failures = _lost(survey)
    settings: dict[str, SubscriptionGroupConfig] = {}
    try:
        tables = await admin.groups.all_settings(failures=failures)
        settings = {broker: table[name] for broker, table in tables.items() if name in table}
        members = await members_of(admin, name, failures, tables)
    except ClientError as connection:
        return GroupSurvey(name, settings, connection, {})
    return GroupSurvey(name, settings, members.connection, members.states, members)


def _lost(survey: Survey) -> dict[str, ClientError]:
    """Return the errors of masters that did not respond, by broker name."""
    answers = ((seat, survey.readings.get(seat.address)) for seat in survey.seats)
    return {
        seat.broker_name: answer
        for seat, answer in answers
        if isinstance(answer, UNREACHED) and seat.broker_id == MASTER_ID
    }
