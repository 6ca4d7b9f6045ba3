"""The topics of `rmq help` that are not commands. Man pages show the same texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import NamedTuple

from rmqcli.cli.exit_codes import EXIT_TEXTS, usage_error

WIDTH = 80
_COLUMN = re.compile(r" {2,}")
VERBATIM = frozenset({"json-schema"})
"""Topics that programs read."""
ENVIRONMENT: Mapping[str, str] = {
    "RMQ_NAMESRV, NAMESRV_ADDR": (
        "Name servers if neither -n nor --profile is given; the first one set wins."
    ),
    "RMQ_PROFILE": "Profile to use if no name server is given otherwise; overrides `rmq profile use`.",
    "RMQ_ACCESS_KEY": "Account that signs requests if there is no --access-key: `rmq help account`.",
    "RMQ_SECRET_KEY, RMQ_SECRET_KEY_FILE": "Its secret key, or the file with it.",
    "RMQ_SECURITY_TOKEN": "Security token of a temporary account.",
    "RMQ_CONFIG_DIR": "Folder of profiles.toml; default: the user's configuration folder.",
    "RMQ_STATE_DIR": "Folder of undo files, plans of static topics, records of processed dead letters and known brokers; default: the user's state folder.",
    "RMQ_CACHE_DIR": "Folder of the names that completions offer; default: the user's cache folder.",
    "RMQ_TLS": "1 connects over TLS, 0 does not; `rmq help tls` explains the precedence.",
    "RMQ_TLS_CA, RMQ_TLS_CERT, RMQ_TLS_KEY, RMQ_TLS_INSECURE, RMQ_TLS_CONFIG": (
        "As --tls-ca, --tls-cert, --tls-key, --tls-insecure and --tls-config."
    ),
    "RMQ_TLS_KEY_PASSWORD": "Password of the key of this client's certificate.",
    "NO_COLOR": "Disables colors if set, unless `--color always` is given.",
}


JSON_PLACE = """JSON: `rmq help json-schema` describes the documents of --json, by command, with types and units; the
schema is also in the package (rmqcli/render/output.schema.json)."""


def formats() -> str:
    """Return the text on FORMAT, and the place where JSON is described."""
    from rmqcli.render import message_format

    return f"{_document(message_format.__doc__)}\n\n{JSON_PLACE}"


def ranges() -> str:
    """Return the text on RANGE."""
    from rmqcli.grammar import offset_range

    return _document(offset_range.__doc__)


def exit_codes() -> str:
    """Return a line for each exit code."""
    return "\n".join(f"{code.value:>3}  {text}" for code, text in EXIT_TEXTS.items())


def environment() -> str:
    """Return a paragraph for each environment variable."""
    return "\n\n".join(f"{name}\n    {text}" for name, text in ENVIRONMENT.items())


def account() -> str:
    """Return the text on the account that signs requests."""
    from rmqcli.cli import account as module

    return _document(module.__doc__)


def json_schema() -> str:
    """Return the JSON schema of documents."""
    from importlib.resources import files

    return files("rmqcli.render").joinpath("output.schema.json").read_text("utf-8").rstrip("\n")


def tls() -> str:
    """Return the text on TLS settings."""
    from rmqcli.cli import tls as settings

    return _document(settings.__doc__)


def fitted(text: str, width: int = WIDTH) -> str:
    """Return a text in lines of at most `width` characters, except for longer words.

    Paragraphs are filled; an indented line keeps its indent and continues below its last column.
    """
    import textwrap

    lines: list[str] = []
    for is_prose, group in groupby(text.splitlines(), lambda line: line[:1] not in ("", " ")):
        if is_prose:
            lines += textwrap.wrap(" ".join(group), width, break_long_words=False, break_on_hyphens=False)
            continue
        for line in group:
            column = max(
                (match.end() for match in _COLUMN.finditer(line) if match.end() <= width * 2 // 3), default=0
            )
            lines += textwrap.wrap(
                line, width, subsequent_indent=" " * column, break_long_words=False, break_on_hyphens=False
            ) or [""]
    return "\n".join(lines)


def _document(text: str | None) -> str:
    return (text or "").strip()


TOPICS: Mapping[str, Callable[[], str]] = {
    "formats": formats,
    "ranges": ranges,
    "tls": tls,
    "exit-codes": exit_codes,
    "environment": environment,
    "account": account,
    "json-schema": json_schema,
}


class Example(NamedTuple):
    """A command line and its description."""

    command: str
    text: str


class Subject(NamedTuple):
    """The examples of a subject, and their topic."""

    about: str
    examples: tuple[Example, ...]


def subjects() -> Mapping[str, Subject]:
    """Return all subjects by name, in the order of the file."""
    import tomllib
    from importlib.resources import files

    tables = tomllib.loads(files("rmqcli.cli").joinpath("cheat.toml").read_text("utf-8"))
    return {
        name: Subject(table["about"], tuple(Example(*pair) for pair in table["examples"]))
        for name, table in tables.items()
    }


def subject(name: str) -> Subject:
    """Return one subject. Raise a usage error that lists all of them if there is none of this name."""
    known = subjects()
    if name not in known:
        raise usage_error(f"no examples of {name!r}: expected {', '.join(known)}")
    return known[name]
