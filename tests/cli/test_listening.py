"""Where servers listen: this machine only, unless an option or a property says otherwise."""

from __future__ import annotations

import pytest

from rmqcli.broker.config import BrokerConfig, NamesrvConfig
from rmqcli.cli.exit_codes import CommandError
from rmqcli.commands.common.configuration import Configuration
from rmqcli.commands.common.listening import BrokerListening, Listening, warn_of_open_server


@pytest.mark.parametrize(
    ("host", "properties", "bound"),
    [
        (None, [], "127.0.0.1"),
        (None, ["brokerIP1=192.168.1.20"], "0.0.0.0"),
        (None, ["brokerIP1=broker.example"], "0.0.0.0"),
        (None, ["brokerIP1=127.0.0.1"], "127.0.0.1"),
        (None, ["brokerIP1=192.168.1.20", "bindAddress=192.168.1.20"], "192.168.1.20"),
        (None, ["bindAddress=::1"], "::1"),
        ("10.0.0.5", ["brokerIP1=192.168.1.20", "bindAddress=::1"], "10.0.0.5"),
    ],
)
def test_the_address_of_a_broker(host: str | None, properties: list[str], bound: str) -> None:
    config = Listening(host, 0).configure(Configuration(properties=properties), BrokerConfig)
    assert (config.bind_address, config.listen_port) == (bound, 0)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("192.168.1.20", "192.168.1.20", 0),
        ("192.168.1.20:20911", "192.168.1.20", 20911),
        (" broker.example:1 ", "broker.example", 1),
        ("127.0.0.1", "127.0.0.1", 0),
        ("2001:db8::5", "2001:db8::5", 0),
        ("[2001:db8::5]", "2001:db8::5", 0),
        ("[2001:db8::5]:20911", "2001:db8::5", 20911),
    ],
)
def test_what_clients_are_told(text: str, host: str, port: int) -> None:
    given = Configuration(properties=["brokerIP1=10.0.0.1", "advertisedPort=7"])
    config = BrokerListening(advertise=text).configure(given, BrokerConfig)
    assert (config.broker_ip1, config.advertised_port) == (host, port)
    assert (config.bind_address, config.listen_port) == ("0.0.0.0", 10911)
    assert (
        BrokerListening("10.0.0.5", advertise=text).configure(given, BrokerConfig).bind_address == "10.0.0.5"
    )


@pytest.mark.parametrize(
    "text", ["", ":1", "a:", "a:0", "a:70000", "a:b", "a:1:2", "[a]:1", "0.0.0.0", "[::]:1"]
)
def test_what_nobody_can_connect_to(text: str) -> None:
    with pytest.raises(CommandError, match=r"^--advertise .*: expected "):
        BrokerListening(advertise=text).configure(Configuration(), BrokerConfig)


def test_the_address_of_a_name_server() -> None:
    config = Listening(None, None).configure(Configuration(), NamesrvConfig)
    assert (config.bind_address, config.listen_port) == ("127.0.0.1", 9876)
    config = Listening("0.0.0.0", 19876).configure(Configuration(properties=["listenPort=1"]), NamesrvConfig)
    assert (config.bind_address, config.listen_port) == ("0.0.0.0", 19876)


@pytest.mark.parametrize(
    ("host", "warned"), [("127.0.0.1", False), ("::1", False), ("0.0.0.0", True), ("10.0.0.5", True)]
)
def test_who_listens_for_others_says_so(capsys: pytest.CaptureFixture[str], host: str, warned: bool) -> None:
    warn_of_open_server(host, 9876, 10911)
    err = capsys.readouterr().err
    assert err.startswith(f"rmq: listening on {host} without access control: ") is warned
    assert ("port 9876 and 10911" in err) is warned
