"""Brokers that were registered at an earlier look.

A name server forgets a broker that is killed at once, with its topics: what is registered and answers may be
half of a cluster. So each look at a cluster leaves what it saw in a file of the state folder, and a broker
that is missing at a later one is lost, until FORGOTTEN_MS after it was seen last.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from codec.bodies.route import ClusterInfo
from codec.codes import MASTER_ID
from rmqcli.client.wire.addresses import name_servers
from rmqcli.files import replace_file
from rmqcli.render.text import duration
from rmqcli.state import state_folder

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
        """Return what is known of it, as the end of a sentence."""
        return (
            f"is no longer registered; {duration((now_ms - self.seen) / 1000)} ago it was, at {self.address}"
        )


def seat_label(name: str, broker_id: int) -> str:
    """Return `NAME`, or `NAME:ID` for a slave."""
    return name if broker_id == MASTER_ID else f"{name}:{broker_id}"


def places_of(info: ClusterInfo) -> dict[str, Place]:
    """Return all brokers of an answer of a name server, by label."""
    return {
        seat_label(name, broker_id): Place(data.cluster or "", address)
        for name, data in info.broker_addr_table.items()
        for broker_id, address in data.broker_addrs.items()
    }


class Seen:
    """The brokers of earlier looks, by label."""

    def __init__(self, brokers: Collection[LostBroker] = ()) -> None:
        self._brokers = {one.label: one for one in brokers}

    @property
    def brokers(self) -> list[LostBroker]:
        return [one for _, one in sorted(self._brokers.items())]

    def missing(self, places: Mapping[str, Place], now_ms: int) -> list[LostBroker]:
        """Note what is registered now, and return what is not any more.

        Where a slave has become the master, its own place is empty, and the address of the former master
        lost.
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
        """Remember what is registered now, and nothing else: all that are expected are there."""
        self._brokers = {label: LostBroker(label, *place, now_ms) for label, place in places.items()}


class SeenFile:
    """The file of the brokers that some name servers had. `trouble`: why it cannot be kept."""

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
        """Return what the file has; nothing if there is none, or another."""
        try:
            return Seen(msgspec.json.decode(self.path.read_bytes(), type=list[LostBroker]))
        except FileNotFoundError:
            return Seen()
        except OSError as error:
            self.trouble = error
            return Seen()
        except msgspec.DecodeError:
            return Seen()  # it is written again

    def write(self, seen: Seen) -> None:
        """Replace the file."""
        try:
            replace_file(self.path, msgspec.json.encode(seen.brokers), durable=False)
        except OSError as error:
            self.trouble = error
