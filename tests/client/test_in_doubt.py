"""Sends without an answer: which errors leave open whether the message is stored."""

from __future__ import annotations

from typing import Any

import pytest

from rmqcli.client import ClientError, ConnectionFailed, RequestTimeout
from rmqcli.client.errors import UnexpectedReply
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.message import Message
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.remoting.command import RemotingCommand
from tests.client.scripted import Network, refuse, silent
from tests.client.sending import SEND, TOPIC, Cluster, producing


@pytest.fixture
def cluster(network: Network) -> Cluster:
    return Cluster(network)


def sent_id(cluster: Cluster) -> str:
    """The id of the only message that was sent."""
    (one,) = {
        decode_properties((request.ext_fields or {})["i"])["UNIQ_KEY"]
        for request in cluster.sends()
        if request.ext_fields
    }
    return one


async def failure(cluster: Cluster, **options: Any) -> ClientError:
    async with producing(cluster.network, **options) as producer:
        with pytest.raises(ClientError) as raised:
            await producer.send(Message.of(TOPIC, b"x"))
    return raised.value


async def test_a_silent_broker_may_have_stored_it(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = silent
    error = await failure(cluster)
    assert isinstance(error, RequestTimeout)
    assert error.maybe_stored == sent_id(cluster)


async def test_a_later_refusal_does_not_take_the_first_try_back(
    cluster: Cluster, autojump_clock: Any
) -> None:
    refused, seen = refuse(ResponseCode.MESSAGE_ILLEGAL), []

    def reply(command: RemotingCommand) -> RemotingCommand | bytes | None:
        seen.append(command)
        return b"\xff" * 8 if len(seen) == 1 else refused(command)  # no frame: the client hangs up

    cluster.a.replies[SEND] = cluster.b.replies[SEND] = reply
    error = await failure(cluster)
    assert len(seen) == 2
    assert "MESSAGE_ILLEGAL" in str(error)
    assert error.maybe_stored == sent_id(cluster)


async def test_a_reply_that_cannot_be_read(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = lambda command: command.reply(0)
    error = await failure(cluster)
    assert isinstance(error, UnexpectedReply)
    assert error.maybe_stored == sent_id(cluster)


async def test_what_never_left_is_not_stored(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.refuses = cluster.b.refuses = True
    error = await failure(cluster)
    assert isinstance(error, ConnectionFailed)
    assert error.maybe_stored == ""


async def test_what_is_refused_is_not_stored(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.a.replies[SEND] = cluster.b.replies[SEND] = refuse(ResponseCode.MESSAGE_ILLEGAL)
    assert (await failure(cluster)).maybe_stored == ""


async def test_a_silent_name_server_stores_nothing(cluster: Cluster, autojump_clock: Any) -> None:
    cluster.namesrv.replies[RequestCode.GET_ROUTEINFO_BY_TOPIC] = silent
    assert (await failure(cluster)).maybe_stored == ""
