"""Registration of a broker at name servers: over loopback sockets, or in memory on a virtual clock."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest
import trio
import trio.testing

from rmqcli.broker.config import BrokerConfig
from rmqcli.broker.errors import RemoteClosed, RemoteTimeout
from rmqcli.broker.namesrv import open_name_server
from rmqcli.broker.net.network import TCP, Network
from rmqcli.broker.net.peers import Peers
from rmqcli.broker.net.server import Server
from rmqcli.broker.net.session import Session
from rmqcli.broker.services.registration import Registration
from rmqcli.broker.testing.in_memory import HOST, MemoryNetwork, embedded_in_memory
from rmqcli.codec.bodies.config import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rmqcli.codec.bodies.registration import RegisterBrokerBody
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.ids import join_address, split_address
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.namesrv.support import NO_FILES
from tests.broker.serving import Client
from tests.support import PATIENCE

REGISTER, QUERY, UNREGISTER = (
    RequestCode.REGISTER_BROKER,
    RequestCode.QUERY_DATA_VERSION,
    RequestCode.UNREGISTER_BROKER,
)


class Recorder:
    """A name server that records requests, and replies with `code`, or never when that is None."""

    def __init__(self, code: int | None = 0) -> None:
        self.code = code
        self.changed = "false"
        self.master: str | None = None
        self.requests: list[RemotingCommand] = []
        self.address = ""

    def handle(self, _session: Session, request: RemotingCommand) -> RemotingCommand | None:
        self.requests.append(request)
        if self.code is None:
            return None
        master = {} if self.master is None else {"masterAddr": self.master, "haServerAddr": self.master}
        return request.reply(self.code, "told so", {"changed": self.changed, **master})

    async def start(self, nursery: trio.Nursery, network: Network = TCP, port: int = 0) -> None:
        listener = network.listen(HOST, port)
        self.address = join_address(*listener.address)
        server = Server(dict.fromkeys((REGISTER, QUERY, UNREGISTER), self.handle))
        await nursery.start(server.serve, listener.sockets)
        listener.serve_with(server)

    @property
    def codes(self) -> list[int]:
        return [request.code for request in self.requests]

    def body(self, position: int = -1) -> RegisterBrokerBody:
        return RegisterBrokerBody.decode(self.requests[position].body)


@pytest.fixture
def memory(nursery: trio.Nursery) -> MemoryNetwork:
    """A network that a virtual clock waits for."""
    return MemoryNetwork(nursery)


def wrapper(*names: str, counter: int = 1) -> TopicConfigSerializeWrapper:
    topics = {name: TopicConfig(name, 4, 4, order=True) for name in names}
    return TopicConfigSerializeWrapper(topics, DataVersion(1, counter))


def registration(namesrv: str, network: Network = TCP, **settings: object) -> Registration:
    config = BrokerConfig(broker_name="broker-a", namesrv_addr=namesrv, **settings)  # type: ignore[arg-type]
    return Registration(lambda: config, "127.0.0.1:10911", lambda: wrapper("T", "U"), network=network)


async def launch(nursery: trio.Nursery, broker: Registration) -> None:
    """Starts a registration as a broker does."""
    await nursery.start(broker.peers.run)
    await broker.register()
    nursery.start_soon(broker.run)


@pytest.mark.parametrize("compressed", [False, True])
async def test_a_broker_registers_at_every_name_server_before_it_has_started(
    nursery: trio.Nursery, compressed: bool
) -> None:
    async with open_name_server(NO_FILES, port=0) as one, open_name_server(NO_FILES, port=0) as two:
        await one.state.kv.put("ORDER_TOPIC_CONFIG", "T", "broker-a:4")
        heard: list[Mapping[str, str]] = []
        config = BrokerConfig(
            broker_name="broker-a",
            namesrv_addr=f"{one.address};{two.address}",
            compressed_register=compressed,
        )
        broker = Registration(lambda: config, "127.0.0.1:10911", lambda: wrapper("T", "U"), heard.append)
        await launch(nursery, broker)
        for server in (one, two):
            route = server.state.routes.route("T")
            assert route is not None
            assert route.broker_datas[0].broker_addrs == {0: "127.0.0.1:10911"}
        assert heard == [{"T": "broker-a:4"}]
        await broker.register(wrapper("New", counter=2))
        assert set(one.state.routes.topics()) == {"T", "U", "New"}
        await broker.unregister()
        assert one.state.routes.topics() == two.state.routes.topics() == []


@pytest.mark.parametrize(("role", "broker_id"), [("ASYNC_MASTER", 0), ("SYNC_MASTER", 0), ("SLAVE", 7)])
async def test_a_master_registers_with_id_0(nursery: trio.Nursery, role: str, broker_id: int) -> None:
    async with open_name_server(NO_FILES, port=0) as server:
        broker = registration(server.address, broker_role=role, broker_id=7)
        await launch(nursery, broker)
        assert server.state.routes.member_group("broker-a") == {broker_id: "127.0.0.1:10911"}
        await broker.unregister()
        assert server.state.routes.member_group("broker-a") == {}


async def test_it_registers_at_each_period_within_bounds(
    nursery: trio.Nursery, memory: MemoryNetwork, autojump_clock: trio.abc.Clock
) -> None:
    recorder, hasty, lazy = Recorder(), Recorder(), Recorder()
    for port, (server, period) in enumerate([(recorder, 30_000), (hasty, 3000), (lazy, 90_000)], 9876):
        await server.start(nursery, memory, port)
        await launch(nursery, registration(server.address, memory, register_name_server_period=period))
    await trio.sleep(95)
    assert recorder.codes == [REGISTER] * 4
    assert len(hasty.codes) == 10
    await trio.sleep(30)
    assert len(lazy.codes) == 3
    header = recorder.requests[0].ext_fields or {}
    assert header["haServerAddr"] == "127.0.0.1:10912"
    assert header["brokerId"] == "0"


async def test_a_slave_soon_asks_again_for_a_master_that_is_not_known(
    nursery: trio.Nursery, memory: MemoryNetwork, autojump_clock: trio.abc.Clock
) -> None:
    recorder = Recorder()
    await recorder.start(nursery, memory, 9876)
    slave = registration(recorder.address, memory, broker_role="SLAVE", broker_id=1)
    told: list[str | None] = []
    slave.on_master = lambda header: told.append(header.master_addr)
    await launch(nursery, slave)
    for seconds, count in ((1.5, 2), (2, 3), (4, 4), (8, 5), (16, 6), (30, 7)):
        await trio.sleep(seconds)
        assert len(told) == count
    recorder.master = "127.0.0.1:10911"
    await trio.sleep(60)
    assert len(told) == 9 and told[-1] == recorder.master
    recorder.master = None
    await trio.sleep(30)
    assert len(told) == 10
    await trio.sleep(4)
    assert len(told) == 12


async def test_a_changed_period_counts_after_the_current_one(autojump_clock: trio.abc.Clock) -> None:
    seconds: list[float] = []

    async def note(_address: str, command: RemotingCommand) -> None:
        if command.code == REGISTER:
            seconds.append(round(trio.current_time()))

    async with embedded_in_memory(on_request=note, register_name_server_period=60_000) as cluster:
        start = seconds[0]
        host, port = split_address(cluster.broker_address)
        client = Client(await cluster.surroundings.network.open_stream(host, port))
        change = RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, body=b"registerNameServerPeriod=10000\n")
        assert (await client.ask(change)).code == 0
        await trio.sleep(95)
        assert [at - start for at in seconds] == [0, 60, 70, 80, 90]


async def test_an_ipv6_address_for_slaves_has_brackets(
    nursery: trio.Nursery, memory: MemoryNetwork, autojump_clock: trio.abc.Clock
) -> None:
    recorder = Recorder()
    await recorder.start(nursery, memory, 9876)
    await launch(nursery, registration(recorder.address, memory, broker_ip2="2001:db8::7"))
    assert (recorder.requests[0].ext_fields or {})["haServerAddr"] == "[2001:db8::7]:10912"


async def test_a_changed_topic_is_not_the_first_that_a_name_server_learns(
    nursery: trio.Nursery, memory: MemoryNetwork
) -> None:
    recorder = Recorder()
    await recorder.start(nursery, memory, 9876)
    broker = registration(recorder.address, memory)
    await nursery.start(broker.peers.run)

    async def told() -> set[str]:
        await broker.register(wrapper("U"))
        return set(recorder.body().topic_config_serialize_wrapper.topic_config_table)

    assert await told() == {"T", "U"}
    assert await told() == {"U"}
    recorder.code = 1
    await told()
    recorder.code = 0
    assert await told() == {"T", "U"}


async def test_without_force_it_registers_only_changes(
    nursery: trio.Nursery, memory: MemoryNetwork, autojump_clock: trio.abc.Clock
) -> None:
    recorder = Recorder()
    await recorder.start(nursery, memory, 9876)
    await launch(nursery, registration(recorder.address, memory, force_register=False))
    await trio.sleep(65)
    assert recorder.codes == [REGISTER, QUERY, QUERY]
    recorder.changed = "true"
    await trio.sleep(30)
    assert recorder.codes[3:] == [QUERY, REGISTER]
    assert bytes(recorder.requests[3].body) == b'{"counter":1,"timestamp":1}'


async def test_the_permission_of_a_broker_limits_every_topic(nursery: trio.Nursery) -> None:
    recorder = Recorder()
    await recorder.start(nursery)
    await launch(nursery, registration(recorder.address, broker_permission=4))
    topics = recorder.body().topic_config_serialize_wrapper.topic_config_table
    assert {name: (topic.perm, topic.order) for name, topic in topics.items()} == {
        "T": (4, False),
        "U": (4, False),
    }


async def test_a_name_server_that_is_down_is_logged_once_and_retried(
    nursery: trio.Nursery,
    memory: MemoryNetwork,
    autojump_clock: trio.abc.Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rmqcli.broker.services.registration")
    up, late = Recorder(), Recorder()
    await up.start(nursery, memory, 9876)
    await launch(nursery, registration(f"{HOST}:9877;{up.address};not-an-address", memory))
    await trio.sleep(65)
    assert up.codes == [REGISTER] * 3
    assert caplog.text.count(f"{HOST}:9877: cannot connect") == 1
    assert caplog.text.count("not-an-address") >= 1
    await late.start(nursery, memory, 9877)
    await trio.sleep(30)
    assert late.codes == [QUERY, REGISTER]
    assert "registered again" in caplog.text


async def test_a_name_server_that_appears_knows_the_broker_within_a_second(
    nursery: trio.Nursery, memory: MemoryNetwork, autojump_clock: trio.abc.Clock
) -> None:
    there, late = Recorder(), Recorder()
    late.changed = "true"
    await there.start(nursery, memory, 9876)
    await launch(nursery, registration(f"{there.address};{HOST}:9877", memory))
    await trio.sleep(7.5)
    await late.start(nursery, memory, 9877)
    await trio.sleep(1)
    assert late.codes == [QUERY, REGISTER]
    await trio.sleep(30)
    assert late.codes == [QUERY, REGISTER, REGISTER] and there.codes == [REGISTER, REGISTER]


@pytest.mark.parametrize("code", [1, None])
async def test_a_name_server_that_refuses_or_is_silent_does_not_stop_the_broker(
    nursery: trio.Nursery,
    memory: MemoryNetwork,
    autojump_clock: trio.abc.Clock,
    caplog: pytest.LogCaptureFixture,
    code: int | None,
) -> None:
    recorder = Recorder(code)
    await recorder.start(nursery, memory, 9876)
    start = trio.current_time()
    await launch(nursery, registration(recorder.address, memory))
    assert trio.current_time() - start == pytest.approx(0 if code else 6, abs=0.5)
    assert ("told so" if code else "did not answer") in caplog.text


async def test_nothing_happens_before_it_runs() -> None:
    broker = registration("127.0.0.1:1")
    await broker.register()
    await broker.unregister()


async def test_a_lost_connection_is_opened_again(nursery: trio.Nursery) -> None:
    recorder = Recorder()
    sessions: list[Session] = []
    listener = TCP.listen("127.0.0.1", 0)
    address = join_address(*listener.address)

    def handle(session: Session, request: RemotingCommand) -> RemotingCommand | None:
        sessions.append(session)
        if len(sessions) == 2:
            session.close()
            return None
        return recorder.handle(session, request)

    await nursery.start(Server({REGISTER: handle}).serve, listener.sockets)
    peers = Peers("test")
    with pytest.raises(RemoteClosed):
        await peers.request(address, RemotingCommand(REGISTER), PATIENCE)
    await nursery.start(peers.run)
    ask = RemotingCommand(REGISTER)
    assert (await peers.request(address, ask, PATIENCE)).code == 0
    with pytest.raises(RemoteClosed):
        await peers.request(address, ask, PATIENCE)
    assert (await peers.request(address, ask, PATIENCE)).code == 0
    assert len({session.id for session in sessions}) == 2


async def test_a_request_that_fails_leaves_no_waiter(
    nursery: trio.Nursery, memory: MemoryNetwork, autojump_clock: trio.abc.Clock
) -> None:
    recorder = Recorder(code=None)
    await recorder.start(nursery, memory, 9876)
    peers = Peers("test", network=memory)
    server = await nursery.start(peers.run)
    for _ in range(5):
        with pytest.raises(RemoteTimeout):
            await peers.request(recorder.address, RemotingCommand(REGISTER), 1)
    for _ in range(5):
        with trio.move_on_after(1):
            await peers.request(recorder.address, RemotingCommand(REGISTER), 10)
    (session,) = server.sessions
    for _ in range(5):
        with pytest.raises(RemoteTimeout):
            await session.request(RemotingCommand(REGISTER), 1)
    assert len(recorder.requests) == 15
    assert len(session.connection.waiting) == 0
