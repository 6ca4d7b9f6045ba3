"""A survey limited to some brokers: what others are like is no part of the page."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from msgspec import structs

from codec.bodies.route import ClusterInfo
from rmqcli.doctor.survey import Survey


def limited(survey: Survey, brokers: Container[str]) -> Survey:
    """Return the survey as if no other brokers were registered."""
    views = {
        server: _only(view, brokers) if isinstance(view, ClusterInfo) else view
        for server, view in survey.views.items()
    }
    found = replace(survey, views=views)
    addresses = {seat.address for seat in found.seats}
    return replace(
        found,
        readings={address: one for address, one in survey.readings.items() if address in addresses},
        vip={address: one for address, one in survey.vip.items() if address in addresses},
    )


def _only(view: ClusterInfo, brokers: Container[str]) -> ClusterInfo:
    clusters = {
        cluster: [name for name in names if name in brokers]
        for cluster, names in view.cluster_addr_table.items()
    }
    return structs.replace(
        view,
        broker_addr_table={name: data for name, data in view.broker_addr_table.items() if name in brokers},
        cluster_addr_table={cluster: names for cluster, names in clusters.items() if names},
    )
