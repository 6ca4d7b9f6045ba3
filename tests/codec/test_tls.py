"""Both ends of TLS without I/O: bytes in any pieces, and what a hostile peer can do to either end."""

from __future__ import annotations

import socket
import ssl
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from rmqcli.client import Tls
from rmqcli.codec.errors import TlsError
from rmqcli.codec.remoting import tls
from rmqcli.codec.remoting.tls import HANDSHAKE_BYTES, RECORD_BYTES, UNSENT_BYTES, TlsConnection
from tests.certificates import Certificates, make_certificates

ENDS = ("client", "server")
DATA, ALERT, HANDSHAKE = 23, 21, 22
UPDATE_REQUESTED = b"\x18\0\0\1\1"
CLOSE_NOTIFY = b"\1\0"
CHUNK = 64 * 1024


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"))


class Peers:
    """A client and a server that have not talked yet."""

    def __init__(
        self,
        certificates: Certificates,
        version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        keys: Path | None = None,
    ) -> None:
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        serving.load_cert_chain(*certificates.pair("server"))
        serving.maximum_version = version
        serving.num_tickets = 0  # a ticket would be the first record of the traffic key
        if keys is not None:
            serving.keylog_filename = str(keys)
        self.ends = {
            "client": TlsConnection(certificates.client(), "127.0.0.1"),
            "server": TlsConnection(serving),
        }

    def shake(self, size: int = CHUNK) -> None:
        """Do the handshake in pieces of `size` bytes."""
        done = {"client": self.ends["client"].shake(), "server": False}
        while not all(done.values()):
            for sender, receiver in (ENDS, ENDS[::-1]):
                for piece in pieces(self.ends[sender].to_send(), size):
                    done[receiver] = self.ends[receiver].shake(piece)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


class Forger:
    """Writes records of any content as one end of TLS 1.3 does, with its key."""

    def __init__(self, keys: Path, end: str) -> None:
        name = f"{end.upper()}_TRAFFIC_SECRET_0"
        (line,) = [line for line in keys.read_text().splitlines() if line.startswith(name)]
        self._use(bytes.fromhex(line.split()[2]))

    def record(self, kind: int, content: bytes) -> bytes:
        """One encrypted record, whose real type is `kind`."""
        head = struct.pack(">BHH", DATA, 0x0303, len(content) + 17)
        nonce = (int.from_bytes(self._iv) ^ self._number).to_bytes(12)
        self._number += 1
        return head + AESGCM(self._key).encrypt(nonce, content + bytes((kind,)), head)

    def update(self) -> bytes:
        """A change of the key that asks the other end for one."""
        record = self.record(HANDSHAKE, UPDATE_REQUESTED)
        self._use(expanded(self._secret, "traffic upd", 48))
        return record

    def _use(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._key, self._iv = expanded(secret, "key", 32), expanded(secret, "iv", 12)


def expanded(secret: bytes, label: str, size: int) -> bytes:
    """HKDF-Expand-Label of RFC 8446, for TLS_AES_256_GCM_SHA384."""
    name = b"tls13 " + label.encode()
    info = struct.pack(">HB", size, len(name)) + name + b"\0"
    return HKDFExpand(hashes.SHA384(), size, info).derive(secret)


@pytest.fixture(params=ENDS)
def attacked(
    request: pytest.FixtureRequest, certificates: Certificates, tmp_path: Path
) -> tuple[TlsConnection, Forger]:
    """One end after the handshake, and a forger of the other end's records."""
    peers = Peers(certificates, keys=tmp_path / "keys")
    peers.shake()
    return peers.ends[request.param], Forger(tmp_path / "keys", *set(ENDS) - {request.param})


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size", [1, 1000, CHUNK])
def test_bytes_arrive_in_order_in_pieces_of_any_size(
    certificates: Certificates, version: ssl.TLSVersion, size: int
) -> None:
    peers = Peers(certificates, version)
    peers.shake(size)
    plain = bytes(range(256)) * 300
    for sender, receiver in (ENDS, ENDS[::-1]):
        encrypted = peers.ends[sender].encrypt(plain)
        received = [peers.ends[receiver].receive(piece) for piece in pieces(encrypted, size)]
        assert b"".join(filter(None, received)) == plain
        assert b"" not in received
    last = peers.ends["client"].close()
    assert peers.ends["server"].receive(last) == peers.ends["server"].receive(b"more") == b""


def test_bytes_that_arrive_with_the_end_of_the_handshake(certificates: Certificates) -> None:
    peers = Peers(certificates)
    client, server = peers.ends.values()
    client.shake()
    server.shake(client.to_send())
    assert client.shake(server.to_send())
    assert server.shake(client.encrypt(b"early"))
    assert server.receive() == b"early"
    assert server.receive() is None
    assert server.receive(b"") == b""


HOSTILE: dict[str, tuple[Callable[[Forger], bytes], str]] = {
    "not a record": (
        lambda _: b"GET / HTTP/1.1\r\n\r\n",
        "wrong version number|record layer failure|http request",
    ),
    "a forged record": (lambda _: b"\x17\x03\x03\0\x20" + bytes(32), "decryption failed"),
    "a record that is too long": (lambda _: b"\x17\x03\x03\x7f\xff" + bytes(0x7FFF), "length too long"),
    "too many plain bytes": (
        lambda forger: forger.record(DATA, bytes(RECORD_BYTES + 1)),
        "data length too long",
    ),
    "a record of no type": (lambda forger: forger.record(0, b""), "bad record type"),
    "a fatal alert": (lambda forger: forger.record(ALERT, b"\2\x28"), "handshake failure"),
    "half an alert": (lambda forger: forger.record(ALERT, b"\2"), "bad alert|invalid alert"),
    "a second handshake": (
        lambda forger: forger.record(HANDSHAKE, b"\1\0\0\0"),
        "unexpected|not allowed|renegot",
    ),
    "a message without an end": (
        lambda forger: forger.record(HANDSHAKE, b"\x18\xff\xff\xff"),
        "excessive message",
    ),
}


@pytest.mark.parametrize(("made", "said"), HOSTILE.values(), ids=HOSTILE.keys())
def test_what_arrived_before_hostile_bytes_is_read_and_then_the_error(
    attacked: tuple[TlsConnection, Forger], made: Callable[[Forger], bytes], said: str
) -> None:
    victim, forger = attacked
    good = forger.record(DATA, b"good")
    assert victim.receive(good + made(forger)) == b"good"
    for data in (None, b"more", b""):
        with pytest.raises(TlsError, match=f"^TLS: .*({said})"):
            victim.receive(data)


@pytest.mark.parametrize("cut", [1, 5, 6, 100])
def test_half_a_record_waits_for_its_rest(attacked: tuple[TlsConnection, Forger], cut: int) -> None:
    victim, forger = attacked
    record = forger.record(DATA, b"x" * 1000)
    assert victim.receive(record[:cut]) is victim.receive() is None
    assert victim.receive(record[cut:]) == b"x" * 1000
    assert victim.receive(record[:cut]) is None
    assert victim.receive(b"") == b""


def test_nothing_is_kept_after_the_closing_alert(attacked: tuple[TlsConnection, Forger]) -> None:
    victim, forger = attacked
    data = forger.record(DATA, b"last") + forger.record(ALERT, CLOSE_NOTIFY) + forger.record(DATA, b"more")
    assert victim.receive(data) == b"last"
    before = victim._incoming.pending
    for _ in range(3):
        assert victim.receive(bytes(CHUNK)) == b""
    assert victim._incoming.pending == before < 100


def test_answers_that_nobody_reads_are_bounded(
    attacked: tuple[TlsConnection, Forger], monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = UNSENT_BYTES // 16
    monkeypatch.setattr(tls, "UNSENT_BYTES", limit)
    victim, forger = attacked
    updates = 0
    with pytest.raises(TlsError, match="does not read the answers"):
        while updates < limit:
            assert victim.receive(b"".join(forger.update() for _ in range(100))) is None
            updates += 100
    assert limit < victim.pending < 2 * limit
    with pytest.raises(TlsError, match="does not read the answers"):
        victim.receive(forger.update())


def test_answers_leave_before_the_next_bytes(attacked: tuple[TlsConnection, Forger]) -> None:
    victim, forger = attacked
    usual = len(victim.encrypt(b"x"))
    assert victim.receive(forger.update()) is None
    assert victim.receive(forger.record(DATA, b"after the update")) == b"after the update"
    assert len(victim.encrypt(b"x")) > usual
    assert victim.pending == 0


ENDLESS = {
    "messages that TLS ignores": b"\x16\x03\x03\x40\0" + bytes(RECORD_BYTES),
    "empty records": b"\x16\x03\x03\0\0",
    "warnings": b"\x15\x03\x03\0\2\1\x5a",
    "half a certificate": b"\x16\x03\x03\x40\0" + b"\x0b\x01\xff\xff" + bytes(RECORD_BYTES - 4),
    "half a record": b"\x16\x03\x03\x40\0\1",
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("record", ENDLESS.values(), ids=ENDLESS.keys())
def test_a_handshake_without_an_end_is_bounded(certificates: Certificates, end: str, record: bytes) -> None:
    victim = Peers(certificates).ends[end]
    if end == "client":
        victim.shake()
    sent = 0
    with pytest.raises(TlsError):
        while sent <= HANDSHAKE_BYTES:
            assert not victim.shake(record)
            sent += len(record)
    assert victim._incoming.pending <= HANDSHAKE_BYTES
    assert victim.pending < CHUNK


@pytest.mark.parametrize("end", ENDS)
def test_a_peer_that_leaves_during_the_handshake(certificates: Certificates, end: str) -> None:
    peers = Peers(certificates)
    peers.ends["client"].shake()
    with pytest.raises(TlsError, match=r"^it ended the TLS handshake$"):
        peers.ends[end].shake(b"")


def test_each_end_learns_why_the_other_refused_it(certificates: Certificates) -> None:
    server = Peers(certificates).ends["server"]
    client = TlsConnection(ssl.create_default_context(), "127.0.0.1")
    client.shake()
    server.shake(client.to_send())
    with pytest.raises(TlsError, match=r"^TLS handshake failed: unable to get local issuer certificate$"):
        client.shake(server.to_send())
    with pytest.raises(TlsError, match=r"^TLS handshake failed: .*unknown ca$"):
        server.shake(client.to_send())


def test_a_server_that_renegotiates_gets_no_handshake(certificates: Certificates) -> None:
    """Python has no call to ask for one, openssl has."""
    certificate, key = certificates.pair("server")
    command = ["openssl", "s_server", "-accept", "127.0.0.1:0", "-tls1_2"]
    command += ["-cert", str(certificate), "-key", str(key)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as server:
        try:
            answer = renegotiated(server, TlsConnection(Tls(ca=certificates.ca).context(), "127.0.0.1"))
        finally:
            server.kill()
    assert 0 < answer < 100  # an alert; the first message of a handshake is longer


def renegotiated(server: subprocess.Popen[str], client: TlsConnection) -> int:
    """The size of the client's answer when the server asks for another handshake."""
    assert server.stdin is not None and server.stdout is not None
    line = next(line for line in server.stdout if line.startswith("ACCEPT"))
    with socket.create_connection(("127.0.0.1", int(line.rpartition(":")[2]))) as connection:
        is_done = client.shake()
        while not is_done:
            connection.sendall(client.to_send())
            is_done = client.shake(connection.recv(CHUNK))
        connection.sendall(client.to_send())
        server.stdin.write("r\n")
        server.stdin.flush()
        assert client.receive(connection.recv(CHUNK)) is None
        return client.pending
