"""Requests are signed if an account is named: brokers with access control require that.

The access key comes from the first of --access-key, RMQ_ACCESS_KEY and the profile in effect, or from the key
file. The secret key comes from the first of these that is set:

    --secret-key-file FILE     the first line of the file, or the keys in a key file of Java's clients
                               (AccessKey=…, SecretKey=…) or in tools.yml of mqadmin
    --secret-command COMMAND   the first line that COMMAND prints, for example 'pass rmq'
    RMQ_SECRET_KEY             the secret key itself
    RMQ_SECRET_KEY_FILE        a file, as above
    the profile                these options as stored by `rmq profile add`, `edit` or `import`
    the terminal               a prompt for the secret key

Secrets that belong to another access key are ignored. RMQ_SECURITY_TOKEN, or a key file, may add a security
token. No secret key is displayed, logged or put on a command line; a key file that others may read causes a
warning.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error

if TYPE_CHECKING:
    from rmqcli.cli.endpoints import Endpoint
    from rmqcli.cli.settings import Given
    from rmqcli.client.wire.credentials import Credentials, Keys

COMMAND_SECONDS = 60.0
"""Time limit of a command that prints a secret: it may prompt for a passphrase."""


class _Source(NamedTuple):
    """A source that may name an account. `secrets` get its keys, in order; each returns None if it names no
    secret.
    """

    name: str
    access_key: str | None = None
    secret_key: str | None = None
    file: str | None = None
    command: str | None = None
    token: str | None = None

    @property
    def has_secret(self) -> bool:
        return bool(self.secret_key or self.file or self.command)


_known: dict[tuple[_Source, ...], Credentials | None] = {}
"""Accounts by their sources, so that a process asks for a secret only once."""


def account(given: Given, endpoint: Endpoint) -> Credentials | None:
    """Return the account of a command line, None if none is named.

    Raise a usage error if the secret key, or the access key for it, is missing, and CommandError if a file or
    command does not provide one.
    """
    sources = tuple(_sources(given, endpoint))
    if sources not in _known:
        _known[sources] = _found(sources)
    return _known[sources]


def access_key(given: Given, endpoint: Endpoint) -> tuple[str | None, str | None]:
    """Return the access key in use and its source, as far as they are known without a secret."""
    sources = tuple(_sources(given, endpoint))
    named = next((one for one in sources if one.access_key), None)
    if named is not None:
        return named.access_key, named.name
    found = _known.get(sources)
    return (None, None) if found is None else (found.access_key, "the file of keys")


def kept(given: Given) -> dict[str, Any]:
    """Return the fields of a profile that the account options set. Keys in a file stay there."""
    fields: dict[str, Any] = {}
    if given.secret_key_file or given.secret_command:
        # A new source of the secret replaces all that the profile had.
        fields = dict.fromkeys(("secret_key", "secret_key_file", "secret_command", "security_token"))
    if given.secret_command:
        fields["secret_command"] = given.secret_command
    elif given.secret_key_file:
        path = Path(given.secret_key_file)
        keys = file_keys(str(path))
        fields |= {"access_key": keys.access_key} if keys.access_key else {}
        if path.is_file():
            fields["secret_key_file"] = str(path.absolute())
        else:  # a pipe, such as /dev/stdin
            fields |= {"secret_key": keys.secret_key, "security_token": keys.security_token}
    return fields | ({"access_key": given.access_key} if given.access_key else {})


def _sources(given: Given, endpoint: Endpoint) -> Iterator[_Source]:
    if given.secret_key_file and given.secret_command:
        raise usage_error("--secret-key-file and --secret-command cannot be combined")
    yield _Source(
        "the command line", given.access_key, None, given.secret_key_file, given.secret_command, None
    )
    variables = ("ACCESS_KEY", "SECRET_KEY", "SECRET_KEY_FILE", "SECURITY_TOKEN")
    access, secret, file, token = (os.environ.get(f"RMQ_{name}") or None for name in variables)
    found = [_Source("the environment", access, secret, None if secret else file, None, token)]
    if (profile := endpoint.profile) is not None:
        found.append(
            _Source(
                f"profile {endpoint.name}",
                profile.access_key,
                profile.secret_key,
                profile.secret_key_file,
                profile.secret_command,
                profile.security_token,
            )
        )
    yield from reversed(found) if given.profile_account else found


def _found(sources: tuple[_Source, ...]) -> Credentials | None:
    if not any(one.access_key or one.has_secret for one in sources):
        return None
    from rmqcli.client.errors import InvalidRequest
    from rmqcli.client.wire.credentials import Keys, credentials_of

    key = next((one.access_key for one in sources if one.access_key), None)
    fitting = [one for one in sources if key is None or one.access_key in (None, key)]
    source = next((one for one in fitting if one.has_secret), None)
    token = next((one.token for one in fitting if one.token), None)
    keys = Keys(secret_key=_asked(key)) if source is None else _keys(source)
    try:
        return credentials_of(key, keys, token)
    except InvalidRequest as error:
        hint = "" if key or keys.access_key else ": name it with --access-key, RMQ_ACCESS_KEY or in a profile"
        raise usage_error(f"{error}{hint}") from None


def _keys(source: _Source) -> Keys:
    from rmqcli.client.wire.credentials import Keys

    if source.file is not None:
        return file_keys(source.file)
    if source.command is not None:
        return Keys(secret_key=_printed(source.command))
    return Keys(secret_key=source.secret_key)


def file_keys(path: str) -> Keys:
    """Return the keys in a file, and warn if others may read it. Raise OSError, and a usage error for a file
    without keys.
    """
    from rmqcli.client.errors import InvalidRequest
    from rmqcli.client.wire.credentials import is_exposed, read_keys

    try:
        keys = read_keys(path)
    except InvalidRequest as error:
        raise usage_error(str(error)) from None
    if Path(path).is_file() and is_exposed(path):
        import shlex

        from rmqcli.render.output import warn

        warn(f"others may read {path}, which holds a secret key: chmod 600 {shlex.quote(path)}")
    return keys


def _printed(command: str) -> str:
    """Return the first line that a command prints; it may prompt for a passphrase on the terminal."""
    import shlex
    import subprocess

    try:
        words = shlex.split(command)
        done = subprocess.run(
            words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=COMMAND_SECONDS, check=False
        )
    except (ValueError, IndexError) as error:
        raise usage_error(f"--secret-command {command!r}: {error}") from None
    except subprocess.TimeoutExpired:
        text = f"--secret-command {command!r} did not end within {COMMAND_SECONDS:g} s"
        raise CommandError(text, ExitCode.TIMED_OUT) from None
    except OSError as error:
        raise CommandError(f"--secret-command {command!r}: {error.strerror}", ExitCode.USAGE) from None
    line = done.stdout.partition(b"\n")[0].decode("utf-8", "replace").rstrip("\r")
    if done.returncode or not line:
        why = f"ended with exit code {done.returncode}" if done.returncode else "printed nothing"
        raise CommandError(f"--secret-command {command!r} {why}", ExitCode.FAILED)
    return line


def _asked(key: str | None) -> str:
    from getpass import getpass

    if sys.stdin is None or not sys.stdin.isatty():
        raise usage_error(
            f"no secret key for {key}: give --secret-key-file, --secret-command or RMQ_SECRET_KEY "
            "(see: rmq help account)"
        )
    ask: Callable[[str], str] = getpass
    return ask(f"secret key of {key}: ")
