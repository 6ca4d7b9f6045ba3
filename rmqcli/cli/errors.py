"""Maps every error to an exit code and one line on standard error.

Tracebacks are shown only with `-v`. Errors of other layers are looked up by module and class name, so that
the map needs no imports.
"""

from __future__ import annotations

import errno
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence

import typer

from rmqcli.cli.exit_codes import EXIT_TEXTS, CommandError, ExitCode
from rmqcli.cli.remedies import remedy
from rmqcli.cli.settings import Settings

# Classes of Click, or of typer's copy of Click, reached through a name that typer exports.
UsageError = typer.BadParameter.__mro__[1]
ClickException = UsageError.__mro__[1]

# Errors of the operating system about a file or an address.
_OS_CODES: Mapping[int, ExitCode] = {
    errno.ENOENT: ExitCode.NOT_FOUND,
    errno.EEXIST: ExitCode.USAGE,
    errno.EISDIR: ExitCode.USAGE,
    errno.ENOTDIR: ExitCode.NOT_FOUND,
    errno.EACCES: ExitCode.NOT_PERMITTED,
    errno.EPERM: ExitCode.NOT_PERMITTED,
    errno.ECONNREFUSED: ExitCode.NO_CONNECTION,
    errno.EHOSTUNREACH: ExitCode.NO_CONNECTION,
    errno.ENETUNREACH: ExitCode.NO_CONNECTION,
}

# Errors without a file name concern standard output, or open files.
_NAMELESS: Mapping[int, str] = dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EIO), "cannot write: ")

# Patterns as texts, which re compiles when one is first used: most commands use none of them.
_VALIDATOR = (
    (r"Input should be greater than or equal to (\S+)", r"expected at least \1"),
    (r"Input should be less than or equal to (\S+)", r"expected at most \1"),
    (r"Input should be a valid integer[^(]*", "expected a whole number "),
    (r"Input should be a valid number[^(]*", "expected a number "),
)

# The nearest base class decides. The module of an error that was raised is loaded.
LAYER_CODES: Mapping[str, Mapping[str, ExitCode]] = {
    "rmqcli.codec.errors": {
        "CorruptionError": ExitCode.CORRUPT,
        "SelectorError": ExitCode.USAGE,
        "CodecError": ExitCode.FAILED,
    },
    "rmqcli.client.errors": {
        "NotFound": ExitCode.NOT_FOUND,
        "ConnectionFailed": ExitCode.NO_CONNECTION,
        "ConnectionLost": ExitCode.NO_CONNECTION,
        "NotPermitted": ExitCode.NOT_PERMITTED,
        "CorruptReply": ExitCode.CORRUPT,
        "RequestTimeout": ExitCode.TIMED_OUT,
        "InvalidRequest": ExitCode.USAGE,
        "ClientError": ExitCode.FAILED,
    },
    "rmqcli.export.errors": {
        "OutputExists": ExitCode.USAGE,
        "ExportNotFound": ExitCode.NOT_FOUND,
        "LayoutError": ExitCode.USAGE,
        "SourceError": ExitCode.USAGE,
        "MasterError": ExitCode.USAGE,
        "SchemaError": ExitCode.USAGE,
        "DecodeError": ExitCode.CORRUPT,
        "PackageError": ExitCode.USAGE,
        "MaskError": ExitCode.USAGE,
        "TableMismatch": ExitCode.USAGE,
        "TableNotFound": ExitCode.NOT_FOUND,
        "RegistryDenied": ExitCode.NOT_PERMITTED,
        "RegistryUnreachable": ExitCode.NO_CONNECTION,
        "StorageNotFound": ExitCode.NOT_FOUND,
        "StorageDenied": ExitCode.NOT_PERMITTED,
        "StorageUnreachable": ExitCode.NO_CONNECTION,
        "ExportError": ExitCode.FAILED,
    },
    "rmqcli.sql.errors": {
        "InvalidQuery": ExitCode.USAGE,
        "UnknownTable": ExitCode.NOT_FOUND,
        "SqlError": ExitCode.FAILED,
    },
    "rmqcli.import_.rows": {
        "InputNotFound": ExitCode.NOT_FOUND,
        "InputError": ExitCode.USAGE,
        "InputDamaged": ExitCode.CORRUPT,
        "ImportFailed": ExitCode.FAILED,
    },
    "rmqcli.flows.errors": {
        "InvalidInput": ExitCode.USAGE,
        "QueueNotFound": ExitCode.NOT_FOUND,
        "QueueNotPermitted": ExitCode.NOT_PERMITTED,
        "FilterNotSupported": ExitCode.NOT_PERMITTED,
        "HalfInDoubt": ExitCode.TIMED_OUT,
        "FlowError": ExitCode.FAILED,
    },
    "rmqcli.dead_letters.letter": {
        "NoDeadLetters": ExitCode.NOT_FOUND,
        "NotReadable": ExitCode.NOT_PERMITTED,
        "JournalError": ExitCode.USAGE,
        "DeadLetterError": ExitCode.FAILED,
    },
    "rmqcli.copying.errors": {
        "QueuesDiffer": ExitCode.USAGE,
        "ProgressError": ExitCode.USAGE,
        "CopyError": ExitCode.FAILED,
    },
    "rmqcli.extras": {"MissingPackage": ExitCode.USAGE},
    "rmqcli.grammar.values": {"GrammarError": ExitCode.USAGE},
    "rmqcli.store.workers": {"WorkerKilled": ExitCode.FAILED},
    "rmqcli.broker.errors": {
        "StoreDamaged": ExitCode.CORRUPT,
        "StoreError": ExitCode.FAILED,
        "ConfigError": ExitCode.USAGE,
        "PeerUnreachable": ExitCode.NO_CONNECTION,
        "RemoteTimeout": ExitCode.TIMED_OUT,
        "BrokerError": ExitCode.FAILED,
    },
}


class Ended(typer.Exit):
    """The end of a command with an exit code and `reasons`, which are printed as lines, or with `--json` as
    the document of an error; `failures` are reasons by broker or client. `summary` is for the document of a
    command whose output or lines already contain everything; `names` are suggestions.
    """

    def __init__(
        self,
        code: ExitCode,
        reasons: Sequence[str] = (),
        failures: Mapping[str, str] = {},
        *,
        summary: str = "",
        names: Sequence[str] = (),
    ) -> None:
        super().__init__(code)
        self.code = code
        self.reasons = reasons
        self.failures = failures
        self._summary = summary
        self._names = names

    def document(self) -> str:
        """Return the JSON document of the error."""
        text = "; ".join(self.reasons) or self._summary or EXIT_TEXTS[self.code]
        return error_document(text, self.code, self._names, failures=self.failures)


class Judged(typer.Exit):
    """The end of a command whose exit code is its result, as for a monitoring plug-in; it is not an error."""


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors inside nested groups (nurseries of trio raise groups), in order."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def is_interrupt(error: BaseException) -> bool:
    """Return True for Ctrl-C, alone or in a group."""
    return any(map(_is_interrupt, leaves(error)))


def report(error: BaseException, settings: Settings | None = None) -> ExitCode:
    """Print the error on standard error, with `--json` as one document, and return the exit code."""
    settings = settings or Settings()
    found = list(leaves(error))
    if is_interrupt(error):
        if settings.json:
            text = "; ".join(_notes(error)) or EXIT_TEXTS[ExitCode.INTERRUPTED]
            _say(error_document(text, ExitCode.INTERRUPTED))
        return ExitCode.INTERRUPTED
    worst = _decisive(found)
    if isinstance(worst, (BrokenPipeError, typer.Exit, SystemExit)):
        return _end(worst, settings)
    _print(worst, settings, _notes(error))
    if settings.verbose and not isinstance(worst, ClickException):
        from rmqcli.render.text import printable

        _say(printable("".join(traceback.format_exception(error))).rstrip("\n"))
    return exit_code_of(worst)


def _is_interrupt(error: BaseException | None) -> bool:
    """Return True for Ctrl-C, and for errors raised while it was handled."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _decisive(found: list[BaseException]) -> BaseException:
    # A reader that has left ends the command without a message, regardless of other failures.
    quiet = [leaf for leaf in found if isinstance(leaf, BrokenPipeError)]
    return (quiet or found)[0]


def note_end(error: BaseException, lines: Sequence[str]) -> None:
    """Add lines about the work done before an error or Ctrl-C to its document. The caller then raises the
    error again.
    """
    for line in lines:
        error.add_note(line)


def _notes(error: BaseException) -> list[str]:
    """Return the notes that `note_end` added to an error, to the errors in its group, and to its causes,
    without repetitions.
    """
    # The context of an error can be the group that it is in.
    seen: dict[int, BaseException] = {}
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen[id(one)] = one
            inner = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
            waiting += [one.__context__, *reversed(inner)]
    return list(dict.fromkeys(note for one in seen.values() for note in getattr(one, "__notes__", ())))


def _end(error: BaseException, settings: Settings) -> ExitCode:
    """Print the lines or the document of an end, and return its exit code. Print nothing for a code that is a
    result.
    """
    code = _exit_status(error)
    if code is ExitCode.DONE or isinstance(error, (BrokenPipeError, Judged)):
        return code
    end = error if isinstance(error, Ended) else Ended(code)
    for line in [end.document()] if settings.json else [_lined(reason) for reason in end.reasons]:
        _say(line)
    return code


def _lined(reason: str) -> str:
    from rmqcli.render.text import one_line

    return f"rmq: {one_line(reason)}"


def _exit_status(error: BaseException) -> ExitCode:
    status = getattr(error, "exit_code", getattr(error, "code", 0))
    return ExitCode(status) if isinstance(status, int) and status in set(ExitCode) else ExitCode.DONE


def _print(error: BaseException, settings: Settings, notes: Sequence[str]) -> None:
    from rmqcli.render.text import one_line

    hint = remedy(error, settings)
    text = message_of(error) + one_line(hint.text)
    if settings.json:
        _say(error_document("; ".join([text, *map(one_line, notes)]), exit_code_of(error), hint.names))
    else:
        _say(f"rmq: {text}")


def _say(line: str) -> None:
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:  # standard error is closed
        return


def error_document(
    message: str, code: ExitCode, names: Sequence[str] = (), *, failures: Mapping[str, str] = {}
) -> str:
    """Return the JSON document of an error."""
    from rmqcli.render.output import JSON_VERSION, json_line

    facts = {"message": message, "kind": code.name.lower(), "exitCode": int(code)}
    more = {"didYouMean": list(names), "failures": dict(failures)}
    found = facts | {name: value for name, value in more.items() if value}
    return json_line({"error": found, "version": JSON_VERSION}).decode()


POSIX_ONLY = frozenset(("fcntl", "grp", "pwd", "resource", "termios"))
"""Python modules that Windows lacks; code that needs them imports them."""


def message_of(error: BaseException) -> str:
    """Return the message in one line; a usage error names the command whose help to read."""
    if isinstance(error, ModuleNotFoundError) and error.name in POSIX_ONLY:
        return f"this needs POSIX, such as Linux or macOS: there is no module {error.name} here"
    if isinstance(error, ClickException):
        return _click_message(error)
    if isinstance(error, typer.Abort):
        return "aborted: nothing was changed"
    if isinstance(error, OSError) and error.strerror:
        from rmqcli.render.text import one_line

        named = f"{error.filename}: " if error.filename else _NAMELESS.get(error.errno or 0, "")
        return one_line(f"{named}{error.strerror}")
    from rmqcli.render.text import printable

    text = printable(" ".join(str(error).split()))  # may contain names chosen by others
    if not _is_known(error):
        return f"internal error: {type(error).__name__}: {text} (use -v for details)"
    in_doubt = getattr(error, "maybe_stored", "")
    return f"outcome unknown, {in_doubt} may be stored: {text}" if in_doubt else text


def _click_message(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        return f"missing command\n\n{context.get_help()}"
    from rmqcli.render.text import printable

    text = _plain_words(printable(getattr(error, "format_message", error.__str__)()))
    hint = f" (see: {context.command_path} --help)" if context is not None else ""
    return f"{' '.join(text.split()).rstrip('.')}{hint}"


def _plain_words(text: str) -> str:
    """Return the text about an invalid value without the words of typer's validator."""
    for pattern, words in _VALIDATOR:
        text = re.sub(pattern, words, text)
    return text


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code of an error of any layer."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, ClickException):
        command = getattr(getattr(error, "ctx", None), "command", None)
        return ExitCode(getattr(getattr(command, "callback", None), "usage_code", ExitCode.USAGE))
    if getattr(error, "maybe_stored", ""):
        return ExitCode.TIMED_OUT
    code = _layer_code(error)
    if code is not None:
        return code
    # TimeoutError is a subclass of OSError.
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        return _OS_CODES.get(error.errno or 0, ExitCode.FAILED)
    return ExitCode.TIMED_OUT if isinstance(error, TimeoutError) else ExitCode.FAILED


def _layer_code(error: BaseException) -> ExitCode | None:
    table = {
        getattr(sys.modules[module], name): code
        for module, names in LAYER_CODES.items()
        if module in sys.modules
        for name, code in names.items()
    }
    return next((table[kind] for kind in type(error).__mro__ if kind in table), None)


def _is_known(error: BaseException) -> bool:
    return isinstance(error, (CommandError, OSError)) or _layer_code(error) is not None
