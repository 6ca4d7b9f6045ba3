"""TLS of commands: what turns it on, whom it trusts, and one line for each way in which it fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from rmqcli.broker.testing.embedded import Cluster, embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.profile_values import Profile
from rmqcli.cli.settings import Given
from rmqcli.cli.tls import resolved, tls_of, warn_unchecked
from tests.certificates import Certificates, make_certificates
from tests.cli.conftest import Run

UNCHECKED = "TLS does not check the server"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    found = make_certificates(tmp_path_factory.mktemp("tls"))
    trustme.CA().cert_pem.write_to_path(str(found.folder / "other.pem"))
    return found


@pytest.fixture(scope="module")
def secured(certificates: Certificates) -> Iterator[Cluster]:
    """Accepts only TLS."""
    with embedded_in_thread(tls=certificates.server()) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _warns_again() -> None:
    warn_unchecked.cache_clear()


def test_a_message_there_and_back(cli: Run, secured: Cluster, certificates: Certificates) -> None:
    options = ("-n", secured.namesrv, "--tls-ca", str(certificates.ca))
    sent = cli("send", "t", "hello", *options)
    assert (sent.code, sent.err) == (ExitCode.DONE, "")
    pulled = cli("pull", "t", *options)
    assert (pulled.code, pulled.lines[0][-1], pulled.err) == (ExitCode.DONE, "hello", "")


def test_without_a_ca_servers_are_not_checked_and_that_is_said_once(cli: Run, secured: Cluster) -> None:
    found = cli("topic", "list", "-n", secured.namesrv, "--tls")
    assert found.code == ExitCode.DONE
    assert found.err.count(UNCHECKED) == 1
    assert found.err.count("\n") == 1
    accepted = cli("topic", "list", "-n", secured.namesrv, "--tls-insecure")
    assert (accepted.code, accepted.err) == (ExitCode.DONE, "")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 5, "lost: closed by the peer; if it accepts only TLS, connect with --tls"),
        (
            ("--tls-ca", "{0}/other.pem"),
            5,
            "its certificate is refused: unable to get local issuer certificate; name ",
        ),
        (
            ("--tls-ca", "system"),
            5,
            "name the CA that signed it with --tls-ca FILE, or accept any server with",
        ),
        (("--tls-ca", "{0}/none.pem"), 4, "--tls-ca {0}/none.pem: No such file or directory"),
        (("--tls-ca", "{0}/server.key"), 2, "TLS CA {0}/server.key: PEM certificates are expected"),
        (("--tls-ca", "{0}/ca.pem", "--tls-insecure"), 2, "--tls-insecure and --tls-ca cannot be combined"),
        (("--tls", "--tls-key", "{0}/client.key"), 2, "TLS key {0}/client.key has no certificate"),
        (("--tls-cert", "{0}/client.pem", "--tls-key", "{0}/server.key"), 2, "they do not belong together"),
        (("--tls-config", "{0}/none"), 4, "--tls-config {0}/none: No such file or directory"),
    ],
)
def test_failures_are_one_line(
    cli: Run, secured: Cluster, certificates: Certificates, options: tuple[str, ...], code: int, said: str
) -> None:
    words = [option.format(certificates.folder) for option in options]
    found = cli("send", "t", "x", "-n", secured.namesrv, *words)
    assert found.code == code
    lines = [line for line in found.err.splitlines() if UNCHECKED not in line]
    assert len(lines) == 1
    assert said.format(certificates.folder) in lines[0]


def test_a_certificate_for_another_host(cli: Run, secured: Cluster, certificates: Certificates) -> None:
    address = secured.namesrv.replace("127.0.0.1", "localhost")
    found = cli("topic", "list", "-n", address, "--tls-ca", str(certificates.ca))
    assert found.code == ExitCode.NO_CONNECTION
    assert "certificate is not valid for 'localhost'; use an address that the certificate names" in found.err
    assert found.err.count("\n") == 1


def test_a_server_without_tls(cli: Run, cluster: Cluster) -> None:
    found = cli("topic", "list", "-n", cluster.namesrv, "--tls-insecure")
    assert found.code == ExitCode.NO_CONNECTION
    assert "if it accepts only plain connections, connect with --no-tls" in found.err
    assert found.err.count("\n") == 1


def test_a_server_that_wants_a_certificate(cli: Run, certificates: Certificates) -> None:
    entries = certificates.server(need_client_auth="require", trustCertPath=str(certificates.ca))
    own, key = certificates.pair("client")
    peers = {
        "tls.client.trustCertPath": str(certificates.ca),
        "tls.client.certPath": str(own),
        "tls.client.keyPath": str(key),
    }
    with embedded_in_thread(tls=entries | peers) as cluster:
        options = ("-n", cluster.namesrv, "--tls-ca", str(certificates.ca))
        refused = cli("send", "t", "x", *options)
        assert refused.code == ExitCode.NO_CONNECTION
        assert "; name a certificate that it accepts with --tls-cert FILE and --tls-key FILE" in refused.err
        assert refused.err.count("\n") == 1
        assert cli("send", "t", "x", *options, "--tls-cert", str(own), "--tls-key", str(key)).code == 0


def test_the_environment(
    cli: Run, secured: Cluster, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQ_NAMESRV", secured.namesrv)
    monkeypatch.setenv("RMQ_TLS_CA", str(certificates.ca))
    found = cli("topic", "list")
    assert (found.code, found.err) == (ExitCode.DONE, "")
    assert cli("topic", "list", "--no-tls").code == ExitCode.NO_CONNECTION
    monkeypatch.setenv("RMQ_TLS", "maybe")
    assert cli("topic", "list").err == "rmq: RMQ_TLS=maybe: expected 1 or 0\n"


def test_a_profile(cli: Run, secured: Cluster, certificates: Certificates) -> None:
    added = cli("profile", "add", "prod", secured.namesrv, "--tls-ca", str(certificates.ca))
    assert added.code == ExitCode.DONE
    found = cli("topic", "list", "--profile", "prod")
    assert (found.code, found.err) == (ExitCode.DONE, "")
    rows = cli("profile", "show", "prod", "--resolved").lines
    assert ["tls", f"--tls-ca {certificates.ca}", "profile prod"] in rows
    assert cli("profile", "edit", "prod", "--unset", "tls").code == ExitCode.DONE
    assert cli("topic", "list", "--profile", "prod").code == ExitCode.NO_CONNECTION


@pytest.mark.parametrize(
    ("more", "check"),
    [("", True), ("tls.client.authServer=false\n", False), ("tls.test.mode.enable=true\n", False)],
)
def test_javas_file(
    cli: Run, secured: Cluster, certificates: Certificates, tmp_path: Path, more: str, check: bool
) -> None:
    """Host names are not compared, as in Java."""
    file = tmp_path / "tls.properties"
    file.write_text(f"tls.client.trustCertPath = {certificates.ca}\n{more}")
    address = secured.namesrv.replace("127.0.0.1", "localhost")
    found = cli("topic", "list", "-n", address, "--tls-config", str(file))
    assert found.code == ExitCode.DONE
    assert (UNCHECKED in found.err) is not check


@pytest.mark.parametrize(
    ("given", "profile", "environment", "found"),
    [
        ({}, {}, {}, {}),
        ({"tls_ca": "a"}, {"tls_ca": "b"}, {"RMQ_TLS_CA": "c"}, {"tls_ca": "a"}),
        ({}, {"tls_ca": "b"}, {"RMQ_TLS_CA": "c"}, {"tls_ca": "b"}),
        ({"tls_ca": "a"}, {"tls_insecure": True}, {"RMQ_TLS": "0"}, {"tls_ca": "a"}),
        ({"tls_insecure": True}, {"tls_ca": "b"}, {}, {"tls_insecure": True, "tls_ca": "b"}),
        ({"tls": False}, {"tls_ca": "b"}, {}, {"tls": False, "tls_ca": "b"}),
    ],
)
def test_what_wins(
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    profile: dict[str, str],
    environment: dict[str, str],
    found: dict[str, str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert resolved(Given(**given), Profile("a:1", **profile)) == found  # type: ignore[arg-type]


def test_nothing_given_means_plain() -> None:
    assert tls_of(Given(), None) is None
    assert tls_of(Given(tls=False, tls_cert="a"), None) is None


@pytest.mark.parametrize("command", [("up", "--namesrv-port", "0"), ("broker", "run"), ("namesrv", "run")])
def test_servers_do_not_start_with_files_that_cannot_be_read(
    cli: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    file = tmp_path / "tls.properties"
    file.write_text(f"tls.server.certPath={tmp_path}/none.pem\ntls.server.keyPath={tmp_path}/none.key\n")
    found = cli(*command, "--port", "0", "--tls-config", str(file))
    assert found.code == ExitCode.USAGE
    assert f"rmq: tls.server.certPath={tmp_path}/none.pem: No such file or directory\n" in found.err
