"""Object stores and HDFS: folders and objects of a URI such as `s3://lake/orders`, through the file systems
of pyarrow.

An object appears when its upload is complete, and a stream of pyarrow completes its upload even if an error
ends it. So nothing is written under a final name: an object is written under a temporary one and copied by
the store. Credentials are those of the environment, found by the store's own library.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from rmqcli.export.errors import StorageDenied, StorageError, StorageNotFound, StorageUnreachable
from rmqcli.grammar.values import GrammarError, local_path

UNFINISHED = ".tmp"
"""The suffix of objects until they have their final names."""
SCHEMES = ("s3", "gs", "abfss", "hdfs")
_OBJECT_STORES = ("s3", "gcs", "abfs")
"""Types of file systems that copy objects and have no folders to create; the others rename files."""
_OPTIONS = ("endpoint_override", "region", "scheme")
"""Options of S3 in the query of a URI, named as in URIs of pyarrow."""
CONNECT_SECONDS, REQUEST_SECONDS, ATTEMPTS = 5, 30, 3
"""Limits of a request to S3. The time limit of a request counts only while no byte is transferred."""
RETRY_SECONDS = 60
"""The time after which a request to Google's storage fails for good; its own default is 15 minutes."""


class Storage(NamedTuple):
    """A folder or an object of a storage; its content is `NAME` below it. Can be pickled."""

    uri: str

    def __str__(self) -> str:
        return self.uri.partition("?")[0]

    @property
    def shown(self) -> str:
        return str(self)

    @property
    def name(self) -> str:
        """The last part of the path; empty for a whole bucket."""
        return urlsplit(self.uri).path.rpartition("/")[2]

    def resolve(self) -> Storage:
        """Return the storage itself: unlike a path, it is always absolute."""
        return self

    @property
    def parent(self) -> Storage:
        uri = urlsplit(self.uri)
        return Storage(uri._replace(path=uri.path.rpartition("/")[0]).geturl())

    def __truediv__(self, name: str) -> Storage:
        uri = urlsplit(self.uri)
        return Storage(uri._replace(path=f"{uri.path}/{name}").geturl())

    @property
    def _opened(self) -> tuple[Any, str]:
        uri = urlsplit(self.uri)
        root, path = _file_system(uri.scheme, uri.netloc, uri.query)
        return root, f"{path}{uri.path}".strip("/") if path else uri.path

    def create(self, name: str) -> Any:
        """Open a stream that writes a new object below this folder. Closing it makes the object appear."""
        files, path = self._opened
        with explained(self):
            if files.type_name not in _OBJECT_STORES:
                files.create_dir(f"{path}/{name}".rpartition("/")[0])
            return files.open_output_stream(f"{path}/{name}")

    def open(self, name: str) -> Any:
        files, path = self._opened
        with explained(self):
            return files.open_input_file(f"{path}/{name}")

    def size(self, name: str) -> int:
        """Return the bytes of an object; -1 if there is none."""
        from pyarrow.fs import FileType

        files, path = self._opened
        with explained(self):
            found = files.get_file_info(f"{path}/{name}")
        return int(found.size) if found.type == FileType.File else -1

    def read(self, name: str) -> bytes | None:
        """Return the content of an object, None if there is none."""
        with suppress(StorageNotFound), self.open(name) as file:
            content: bytes = file.read()
            return content
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write an object so that it is complete or absent, even after an interruption."""
        with (self / name).replacing() as file:
            file.write(content)

    def copy(self, name: str, to: Storage) -> None:
        """Let the store copy an object to another name; HDFS, which cannot, renames it."""
        files, path = self._opened
        target = to._opened[1]
        with explained(self):
            if files.type_name not in _OBJECT_STORES:
                files.create_dir(target.rpartition("/")[0])
                with suppress(FileNotFoundError):
                    files.delete_file(target)
                files.move(f"{path}/{name}", target)
            else:
                files.copy_file(f"{path}/{name}", target)

    def names(self) -> list[str]:
        """Return the names directly below this folder; empty if there are none."""
        from pyarrow.fs import FileSelector

        files, path = self._opened
        with explained(self):
            found = files.get_file_info(FileSelector(path, allow_not_found=True))
        return [info.base_name for info in found if info.path.strip("/") != path.strip("/")]

    def files(self) -> list[str]:
        """Return the names of all objects below this folder, at any depth; empty if there is none."""
        from pyarrow.fs import FileSelector, FileType

        files, path = self._opened
        with explained(self):
            found = files.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        start = len(path.strip("/")) + 1
        return [info.path.strip("/")[start:] for info in found if info.type == FileType.File]

    def delete(self, name: str) -> None:
        """Remove an object, or everything below a folder; it may already be gone."""
        from pyarrow.fs import FileType

        files, path = self._opened
        with explained(self), suppress(FileNotFoundError):
            kind = files.get_file_info(f"{path}/{name}").type
            if kind == FileType.Directory:
                files.delete_dir(f"{path}/{name}")
            elif kind == FileType.File:
                files.delete_file(f"{path}/{name}")

    @contextmanager
    def replacing(self) -> Iterator[Any]:
        """Yield a stream of a temporary object, which replaces this one when the block ends without an error."""
        beside, name = self.parent, f"_{self.name}.{uuid.uuid4().hex}{UNFINISHED}"
        try:
            with explained(self):
                with beside.create(name) as file:
                    yield file
                beside.copy(name, self)
        finally:
            with suppress(StorageError):
                beside.delete(name)


Location: TypeAlias = Path | Storage
"""The location that an option such as `--out` names."""


def location(option: str, text: str) -> Location:
    """Return the path on this machine, also for a `file:` URI, or the storage. Raise GrammarError."""
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    if scheme not in SCHEMES:
        try:
            return local_path(text)
        except GrammarError as error:
            if scheme in ("", "file"):
                raise GrammarError(f"{option} {error}") from None
            raise GrammarError(
                f"{option} {text}: expected a path of this machine, or a URI of {', '.join(SCHEMES)} or file"
            ) from None
    uri = urlsplit(text)
    uri = uri._replace(scheme=scheme, path=uri.path.rstrip("/"))
    if "@" in uri.netloc and scheme != "abfss":
        raise GrammarError(f"{option} {scheme}://…: credentials come from the environment, not from a URI")
    if not uri.netloc or not uri.path.strip("/") or "//" in uri.path or uri.fragment:
        raise GrammarError(f"{option} {text}: expected {scheme}://{_WHERE[scheme]}/FOLDER")
    wrong = next(
        (name for name, _ in parse_qsl(uri.query, keep_blank_values=True) if name not in _OPTIONS), None
    )
    if wrong is not None or (uri.query and scheme != "s3"):
        raise GrammarError(f"{option} {text}: expected no option after ?, except {', '.join(_OPTIONS)} of s3")
    return Storage(uri.geturl())


_WHERE = {
    "s3": "BUCKET",
    "gs": "BUCKET",
    "abfss": "CONTAINER@ACCOUNT.dfs.core.windows.net",
    "hdfs": "HOST:PORT",
}


@lru_cache(maxsize=16)
def _file_system(scheme: str, authority: str, query: str) -> tuple[Any, str]:
    """Return the file system of a URI, and the part of it that its paths begin with."""
    from pyarrow import fs

    with explained(f"{scheme}://{authority}"):
        if scheme == "s3":
            return _s3(authority, dict(parse_qsl(query))), authority
        if scheme == "gs":
            return fs.GcsFileSystem(retry_time_limit=timedelta(seconds=RETRY_SECONDS)), authority
        found, path = fs.FileSystem.from_uri(f"{scheme}://{authority}/")
        return found, path.strip("/")


def s3_endpoint() -> str | None:
    """Return the S3 endpoint in the environment; None: that of AWS."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def _s3(bucket: str, options: Mapping[str, str]) -> Any:
    from pyarrow import fs

    environment = os.environ
    endpoint = options.get("endpoint_override") or s3_endpoint()
    region = options.get("region") or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if not region and not endpoint:
        region = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        endpoint_override=endpoint,
        region=region,
        connect_timeout=CONNECT_SECONDS,
        request_timeout=REQUEST_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        **({"scheme": options["scheme"]} if "scheme" in options else {}),
    )


_AWS = re.compile(r"AWS Error (\w+) during (\w+) operation: (.*)", re.DOTALL)
_REQUEST_ID = re.compile(r" \(Request ID: .*?\)")
# The first pattern that fits counts: S3's text for an unknown access key also names the bucket and says that
# the key does not exist.
_KINDS: tuple[tuple[re.Pattern[str], type[StorageError], str], ...] = tuple(
    (re.compile(pattern), kind, remedy)
    for pattern, kind, remedy in (
        (
            r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT_TOKEN|EXPIRED_TOKEN|"
            r"MISSING_AUTHENTICATION|UNRECOGNIZED_CLIENT|InvalidAccessKeyId|AccessDenied|HTTP Status 40[13]|"
            r"[Uu]nauthenticated|PERMISSION_DENIED|UNAUTHENTICATED|AuthenticationException|"
            r"loading credentials",
            StorageDenied,
            "check the credentials in the environment and their permissions",
        ),
        (
            r"NO_SUCH_BUCKET|NoSuchBucket|[Bb]ucket .*not (?:exist|found)",
            StorageNotFound,
            "check its name, or create the bucket first",
        ),
        (
            r"NETWORK_CONNECTION|REQUEST_TIMEOUT|SLOW_DOWN|SERVICE_UNAVAILABLE|UNAVAILABLE|"
            r"DEADLINE_EXCEEDED|[Cc]ould not resolve|Connection refused|TransportException|"
            r"error sending request|error trying to connect",
            StorageUnreachable,
            "check the network, and the address (AWS_ENDPOINT_URL for S3)",
        ),
    )
)


def storage_error(shown: object, error: Exception) -> StorageError:
    """Return the error as one line, with a remedy if its reason is known."""
    text = str(error)
    found = _AWS.search(text)
    if found:
        text = f"{found[3]} ({found[1]} of {found[2]})"
    line = _REQUEST_ID.sub("", next(iter(text.splitlines()), "") or type(error).__name__)
    if isinstance(error, FileNotFoundError):
        return StorageNotFound(f"{shown}: {line}")
    kind, remedy = kind_of(str(error))
    return kind(f"{shown}: {line}{remedy}")


def kind_of(text: str) -> tuple[type[StorageError], str]:
    """Return the kind of an error by its text, and the remedy to add; empty if its reason is unknown."""
    for pattern, kind, remedy in _KINDS:
        if pattern.search(text):
            return kind, f"; {remedy}"
    return StorageError, ""


@contextmanager
def explained(shown: object) -> Iterator[None]:
    """Turn errors of pyarrow's file systems, which have no number, into StorageError."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError as error:
        raise storage_error(shown, error) from error
    except (OSError, pa.ArrowException, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise storage_error(shown, error) from error
