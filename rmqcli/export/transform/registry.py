"""A schema registry with Confluent's API: schemas by the number in each body.

A schema never changes, so it is requested once. Temporary failures (no connection, a timeout, a response of
429 or 5xx) are retried with growing pauses; a number that the registry does not know is an error of the body.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from rmqcli.export.errors import RegistryDenied, RegistryError, RegistryUnreachable, SchemaError
from rmqcli.export.transform.decoder import Undecodable

TRIES = 4
FIRST_WAIT = 0.5  # seconds
TIMEOUT = 10.0  # seconds
MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_REFERENCES = 256
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
PROTOBUF = "PROTOBUF"
_SERIALIZED = "?format=serialized"
"""For a descriptor in base64 instead of the source text, which only protoc can read."""
_PASSING = (429, 500, 502, 503, 504)
_HEADER = re.compile(r"[\x21-\x7e]+( [\x21-\x7e]+)*")


class Schema(NamedTuple):
    """A schema of the registry. `files` are those that it refers to, by the name that it uses for them."""

    kind: str
    text: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Registry:
    """The registry at `url`; `authorization` is the header of every request, or empty."""

    url: str
    authorization: str = field(default="", repr=False)

    def schema(self, number: int) -> Schema:
        """Return a schema, with protobuf descriptors in base64.

        Raises Undecodable for an unknown number, RegistryError, and RegistryUnreachable after TRIES attempts.
        """
        path = f"schemas/ids/{number}"
        found = self._asked(path)
        kind = str((found or {}).get("schemaType") or "AVRO").upper()
        if kind == PROTOBUF:
            found = self._asked(path + _SERIALIZED)
        if found is None:
            raise Undecodable(f"schema {number} is not in the registry")
        files: dict[str, str] = {}
        self._add_files(found, _SERIALIZED if kind == PROTOBUF else "", files)
        return Schema(kind, str(found.get("schema")), files)

    def _add_files(self, document: Mapping[str, Any], form: str, files: dict[str, str]) -> None:
        for one in document.get("references") or ():
            name = str(one["name"])
            if name in files:
                continue
            if len(files) >= MAX_REFERENCES:
                raise RegistryError(f"{self.url}: a schema refers to more than {MAX_REFERENCES} others")
            subject = quote(str(one["subject"]), safe="")
            found = self._asked(f"subjects/{subject}/versions/{int(one['version'])}{form}")
            if found is None:
                raise Undecodable(f"its schema refers to {name}, which is not in the registry")
            files[name] = str(found.get("schema"))
            self._add_files(found, form, files)

    def _asked(self, path: str) -> Mapping[str, Any] | None:
        """Return a response, None if the object does not exist."""
        wait = FIRST_WAIT
        for _ in range(TRIES - 1):
            try:
                return self._once(path)
            except RegistryUnreachable:
                time.sleep(wait)
                wait *= 2
        return self._once(path)

    def _once(self, path: str) -> Mapping[str, Any] | None:
        headers = {"Accept": _ACCEPT, "User-Agent": "rmq"}
        if self.authorization:
            headers["Authorization"] = self.authorization
        try:
            with urlopen(Request(f"{self.url}/{path}", headers=headers), timeout=TIMEOUT) as answer:
                content = answer.read(MAX_ANSWER_BYTES + 1)
            found = json.loads(content) if len(content) <= MAX_ANSWER_BYTES else None
        except HTTPError as error:
            self._refuse(error)
            return None
        except (URLError, HTTPException, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise RegistryUnreachable(f"registry {self.url} does not respond: {reason}") from None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise RegistryError(f"registry {self.url}: what answers is no schema registry")
        return found

    def _refuse(self, error: HTTPError) -> None:
        """Raise RegistryError unless the registry reports that the object does not exist."""
        with error:
            said = error.read(MAX_ANSWER_BYTES)
        if error.code == 404:
            if b"error_code" in said:  # a document of the registry, and not a wrong path
                return
            raise RegistryError(f"registry {self.url}: HTTP 404: is this the address of a schema registry?")
        if error.code in (401, 403):
            raise RegistryDenied(
                f"registry {self.url} refuses access (HTTP {error.code}): check --registry-auth"
            )
        kind = RegistryUnreachable if error.code in _PASSING else RegistryError
        raise kind(f"registry {self.url}: HTTP {error.code} {error.reason}")


def registry_of(url: str, auth: Path | None) -> Registry:
    """Return the registry of an address, and a file with USER:PASSWORD, or a bearer token.

    Raises SchemaError.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise SchemaError(f"--registry {url}: expected http://HOST:PORT or https://HOST")
    if "@" in parts.netloc:
        raise SchemaError("--registry: user and password belong in the file of --registry-auth")
    return Registry(url.rstrip("/"), "" if auth is None else _authorization(auth))


def _authorization(file: Path) -> str:
    lines = file.read_text().splitlines()
    secret = lines[0].strip() if lines else ""
    if not _HEADER.fullmatch(secret):
        raise SchemaError(f"--registry-auth {file}: expected USER:PASSWORD, or a token, in the first line")
    if ":" in secret:
        return f"Basic {base64.b64encode(secret.encode()).decode()}"
    return f"Bearer {secret}"
