"""Local files and folders, as a path or as a `file:` URI."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rmqcli.grammar.errors import GrammarError

_SCHEMES = frozenset(
    """abfs abfss az azure delta ftp gcs gs hdfs http https iceberg oss s3 s3a s3n sftp wasb wasbs
    """.split()  # noqa: SIM905
)
"""Schemes that are refused without `//`, too. Other texts with a colon, `copy:1` say, are names of files."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//)?")


def local_path(text: str) -> Path:
    """Return the path of a file or folder on this machine; raise GrammarError for a URI of another place."""
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    if scheme == "file":
        uri = urlsplit(text)
        if uri.netloc in ("", "localhost") and uri.path and "\0" not in unquote(uri.path):
            return Path(unquote(uri.path))
        raise GrammarError(f"{text}: expected file:///PATH, a file or folder of this machine")
    if found and (found[2] or scheme in _SCHEMES):
        raise GrammarError(
            f"{text}: expected a path of this machine, or a file: URI; mount or copy what lies elsewhere"
        )
    return Path(text)
