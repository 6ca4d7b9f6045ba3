"""One place that maps what went wrong to an exit code and one line on standard error.

Never a traceback; with `-v` the traceback follows the line as a debug log. Errors of other layers are looked up by type
only when such an error is in hand, so that nothing is imported for the map.
"""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Iterator, Mapping

import typer

from rmqcli.exit_codes import CommandError, ExitCode

__all__ = ["exit_code_of", "leaves", "message_of", "report"]

UsageError = typer.BadParameter.__mro__[1]
ClickException = UsageError.__mro__[1]

# What an operating system says about a file or an address.
_OS_CODES: Mapping[int, ExitCode] = {
    errno.ENOENT: ExitCode.NOT_FOUND,
    errno.EACCES: ExitCode.NOT_PERMITTED,
    errno.EPERM: ExitCode.NOT_PERMITTED,
    errno.ECONNREFUSED: ExitCode.NO_CONNECTION,
    errno.EHOSTUNREACH: ExitCode.NO_CONNECTION,
    errno.ENETUNREACH: ExitCode.NO_CONNECTION,
}


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside of nested groups (trio's nurseries raise groups), in order."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def report(error: BaseException, *, verbose: bool = False) -> ExitCode:
    """Says what happened on standard error and gives the exit code."""
    found = list(leaves(error))
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in found):
        return ExitCode.INTERRUPTED
    worst = _most_telling(found)
    if isinstance(worst, (BrokenPipeError, typer.Exit, SystemExit)):
        return _exit_status(worst)
    _say(worst)
    if verbose and not isinstance(worst, ClickException):
        traceback.print_exception(error, file=sys.stderr)
    return exit_code_of(worst)


def _most_telling(found: list[BaseException]) -> BaseException:
    quiet = [leaf for leaf in found if isinstance(leaf, BrokenPipeError)]
    return (quiet or found)[0]


def _exit_status(error: BaseException) -> ExitCode:
    status = getattr(error, "exit_code", getattr(error, "code", 0))
    return ExitCode(status) if isinstance(status, int) and status in set(ExitCode) else ExitCode.DONE


def _say(error: BaseException) -> None:
    try:
        print(f"rmq: {message_of(error)}", file=sys.stderr, flush=True)
    except OSError:  # standard error itself is gone: nobody to tell
        return


def message_of(error: BaseException) -> str:
    """One line; a usage error names the command whose help to read."""
    if isinstance(error, ClickException):
        return _click_message(error)
    if isinstance(error, typer.Abort):
        return "stopped: nothing was done"
    if isinstance(error, OSError) and error.strerror:
        named = f"{error.filename}: " if error.filename else ""
        return f"{named}{error.strerror}"
    text = " ".join(str(error).split())
    return text if _is_known(error) else f"internal error: {type(error).__name__}: {text} (-v shows where)"


def _click_message(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        return f"a command is missing\n\n{context.get_help()}"
    text = getattr(error, "format_message", error.__str__)()
    hint = f" (see: {context.command_path} --help)" if context is not None else ""
    return f"{' '.join(text.split())}{hint}"


def exit_code_of(error: BaseException) -> ExitCode:
    """The exit code of an error of any layer."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, ClickException):
        return ExitCode.USAGE
    code = _layer_code(error)
    if code is not None:
        return code
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        return _OS_CODES.get(error.errno or 0, ExitCode.FAILED)
    return ExitCode.TIMED_OUT if isinstance(error, TimeoutError) else ExitCode.FAILED


def _layer_code(error: BaseException) -> ExitCode | None:
    table = _layer_table()
    return next((table[kind] for kind in type(error).__mro__ if kind in table), None)


def _layer_table() -> Mapping[type, ExitCode]:
    table: dict[type, ExitCode] = {}
    if "codec.errors" in sys.modules:
        from codec import errors as codec_errors

        table[codec_errors.CorruptionError] = ExitCode.CORRUPT
        table[codec_errors.SelectorError] = ExitCode.USAGE
        table[codec_errors.CodecError] = ExitCode.FAILED
    if "rmqcli.client.errors" in sys.modules:
        from rmqcli.client import errors

        table |= {
            errors.NotFound: ExitCode.NOT_FOUND,
            errors.ConnectionFailed: ExitCode.NO_CONNECTION,
            errors.ConnectionLost: ExitCode.NO_CONNECTION,
            errors.NotPermitted: ExitCode.NOT_PERMITTED,
            errors.RequestTimeout: ExitCode.TIMED_OUT,
            errors.InvalidRequest: ExitCode.USAGE,
            errors.ClientError: ExitCode.FAILED,
        }
    return table


def _is_known(error: BaseException) -> bool:
    return isinstance(error, (CommandError, OSError)) or _layer_code(error) is not None
