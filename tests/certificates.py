"""Certificates for tests: an authority, a server at 127.0.0.1 and a client, as PEM files."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization as pem


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@dataclass(frozen=True, slots=True)
class Certificates:
    """A folder with ca.pem, server.pem, server.key, client.pem and client.key."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def pair(self, name: str) -> tuple[Path, Path]:
        """Certificate and key."""
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"

    def issue(self, name: str, *identities: str, by: trustme.CA | None = None) -> None:
        """Replaces certificate and key by new ones."""
        issued = (by or authority()).issue_cert(*identities)
        certificate, key = self.pair(name)
        certificate.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())

    def server(self, mode: str = "enforcing", **more: object) -> dict[str, str]:
        """The properties of a server with this certificate; `more` are names of `tls.server`."""
        certificate, key = self.pair("server")
        given = {"mode": mode, "certPath": certificate, "keyPath": key, **more}
        return {f"tls.server.{name.replace('_', '.')}": str(value) for name, value in given.items()}

    def client(self, *, with_certificate: bool = False) -> ssl.SSLContext:
        """The context of a client that checks the server."""
        context = ssl.create_default_context(cafile=self.ca)
        if with_certificate:
            context.load_cert_chain(*self.pair("client"))
        return context


def make_certificates(folder: Path, host: str = "127.0.0.1") -> Certificates:
    """Writes the files into a folder, which is made."""
    folder.mkdir(exist_ok=True)
    found = Certificates(folder)
    authority().cert_pem.write_to_path(str(found.ca))
    found.issue("server", host)
    found.issue("client", "client@example.org")
    return found


def rewrite_key(path: Path, form: pem.PrivateFormat, password: str | None = None) -> None:
    """Writes the key of a file in another form, encrypted with a password if there is one."""
    key = pem.load_pem_private_key(path.read_bytes(), None)
    protection = pem.BestAvailableEncryption(password.encode()) if password else pem.NoEncryption()
    path.write_bytes(key.private_bytes(pem.Encoding.PEM, form, protection))
