"""Registers functions as commands.

A command is a function with annotated parameters, some of which may be groups of options. A parameter
`settings` receives the global options, which are accepted before and after the name of a subcommand (`rmq -n
X topic list --json`); the last one takes precedence.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from rmqcli.cli import row_options
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.help import GLOBAL_PANEL, write_group_help, write_help
from rmqcli.cli.options import OPTIONAL_PORT, OPTIONAL_SECONDS, expand, gather, keyword
from rmqcli.cli.plain_values import install, plain_values, skip_when_absent
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Given, Settings

_WHOLE = 500
# Patterns as texts, which re compiles when one is first used: most commands use none of them.
_BRACES = r"\{(.*)\}"
_DOUBLED = r"\[(\[[^]]*\])(?:\.\.\.)?\]"
_LEFT_OUT = {OPTIONAL_SECONDS: "2", OPTIONAL_PORT: "8081"}
"""The value of an option that is given without one, by metavar: `--watch` is `--watch=2`, `--grpc` is
`--grpc=8081`."""


def _option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=GLOBAL_PANEL, **settings)


_NAMESRV_HELP = (
    "Name servers, separated by ';'; default: RMQ_NAMESRV, NAMESRV_ADDR, the profile, 127.0.0.1:9876."
)
_COLOR_HELP = "Color: auto (on a terminal without NO_COLOR), always or never."
_GLOBALS: dict[str, tuple[Any, Any]] = {
    "namesrv": (str | None, _option("--namesrv", "-n", metavar="HOST:PORT", help=_NAMESRV_HELP)),
    "profile": (str | None, _option("--profile", metavar="NAME", help="Named cluster, see `rmq profile`.")),
    "json": (bool | None, _option("--json", help="Output JSON: one document, or one line per message.")),
    "color": (str | None, _option("--color", metavar="WHEN", help=_COLOR_HELP)),
    "verbose": (bool | None, _option("--verbose", "-v", help="Show details and logs on standard error.")),
    "quiet": (bool | None, _option("--quiet", help="Show no progress and no notes on standard error.")),
    "timeout": (
        float | None,
        _option("--timeout", metavar="SECONDS", min=0.001, help="Timeout per request."),
    ),
    "map": (
        list[str] | None,
        _option("--map", metavar="FROM=TO", help="Connect to HOST:PORT instead of HOST:PORT; repeatable."),
    ),
    "access_key": (
        str | None,
        _option("--access-key", metavar="KEY", help="Account that signs requests, see `rmq help account`."),
    ),
    "secret_key_file": (
        str | None,
        _option("--secret-key-file", metavar="FILE", help="File with its secret key, or a key file of Java."),
    ),
    "secret_command": (
        str | None,
        _option(
            "--secret-command", metavar="COMMAND", help="Command that prints its secret key, e.g. 'pass rmq'."
        ),
    ),
    "confirm": (
        str | None,
        _option("--confirm", metavar="NAME", help="Confirm a change of the protected cluster NAME."),
    ),
    "tls": (
        bool | None,
        _option("--tls/--no-tls", show_default=False, help="Connect over TLS; see `rmq help tls`."),
    ),
    "tls_ca": (
        str | None,
        _option(
            "--tls-ca", metavar="FILE", help="PEM file of the CAs of servers, or 'system'; implies --tls."
        ),
    ),
    "tls_cert": (
        str | None,
        _option("--tls-cert", metavar="FILE", help="PEM certificate of this client; implies --tls."),
    ),
    "tls_key": (str | None, _option("--tls-key", metavar="FILE", help="PEM key of that certificate.")),
    "tls_insecure": (
        bool | None,
        _option("--tls-insecure", help="Accept every server without a check; implies --tls."),
    ),
    "tls_config": (
        str | None,
        _option("--tls-config", metavar="FILE", help="Java's tls.properties, for servers and clients."),
    ),
}

_PARAMETERS = {
    name: keyword(name, Annotated[kind, option], None)
    for name, (kind, option) in (_GLOBALS | row_options.OPTIONS).items()
}


GIVEN = "rmq.given"
"""The key of the global options in `meta`, the values that all Click contexts of a command line share."""


def global_options(function: Callable[..., None], prints: Rows | None = None) -> Callable[..., None]:
    """Add the global options to a command, and the options of rows if it `prints` rows; pass them as
    `settings: Settings` if it has such a parameter.
    """
    signature = inspect.signature(function, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "settings"]
    names = _GLOBALS if prints is None else _PARAMETERS
    added = [name for name in names if name not in signature.parameters]

    @functools.wraps(function)
    def wrapper(rmq_context: Any, **values: Any) -> None:
        given = rmq_context.obj if isinstance(rmq_context.obj, Given) else Given()
        rmq_context.obj = given.overlaid({name: _frozen(values.pop(name)) for name in added})
        row_options.check(prints, rmq_context.obj)
        rmq_context.meta[GIVEN] = rmq_context.obj
        extra = {"settings": Settings(rmq_context.obj)} if "settings" in signature.parameters else {}
        if not rmq_context.obj.quiet:
            function(**gather(own, values), **extra)
            return
        from rmqcli.render.progress import QUIET

        before = QUIET.set(True)
        try:
            function(**gather(own, values), **extra)
        finally:
            QUIET.reset(before)

    parameters = [keyword("rmq_context", typer.Context), *expand(own)]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    parameters += [_PARAMETERS[name] for name in added]
    # typer reads the signature and the annotations.
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    wrapper.plain_values = plain_values(parameters)  # type: ignore[attr-defined]
    return wrapper


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class _Quick:
    """Mixin of Click's commands: converts plain values without typer's validator."""

    params: Any
    callback: Any

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        install(self.params, getattr(self.callback, "plain_values", {}))

    def make_parser(self, ctx: Any) -> Any:
        parser = super().make_parser(ctx)  # type: ignore[misc]
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            values, left, order = parse(args)
            if not ctx.resilient_parsing:
                _refuse_repeated(ctx, order)
            return values, left, order

        parser.parse_args = parse_args
        return parser

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        skip_when_absent(option)
        return option


def _refuse_repeated(context: Any, order: Iterable[Any]) -> None:
    """Raise a usage error if an option that holds one value was given twice: Click would drop the first.

    `order` lists a parameter once for each time it was given on the command line; defaults are not in it.
    Plain flags may be repeated; flags with an opposite (--tls/--no-tls) may not.
    """
    counts = Counter(one for one in order if one.param_type_name == "option")
    for option, times in counts.items():
        holds_one = not (option.multiple or option.count or (option.is_flag and not option.secondary_opts))
        if times > 1 and holds_one:
            names = "/".join([*option.opts[:1], *option.secondary_opts[:1]])
            raise typer.BadParameter(
                f"given {times} times, but it takes one value" if not option.is_flag else "given twice",
                ctx=context,
                param_hint=names,
            )


class SectionedCommand(_Quick, TyperCommand):
    """A command whose help shows the common options first."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        # typer writes {TOPIC} for a required argument, and [[TOPIC]] for an optional one named [TOPIC]
        pieces = (
            re.sub(_DOUBLED, r"\1", re.sub(_BRACES, r"\1", one)) for one in super().collect_usage_pieces(ctx)
        )
        return [piece.replace("......", "...") for piece in pieces]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, list(_completed(args, self.params)))
        except Exception as error:
            if type(error).__name__ == "NoSuchOption":
                # Only after this error are all commands of the noun imported, which takes some milliseconds.
                import_parts(importlib.import_module(self.callback.__module__.rpartition(".")[0]))
                _name_owners(error, getattr(self.callback, "application", None))
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        write_help(self, ctx, formatter)


def import_parts(module: ModuleType, verb: str | None = None) -> Sequence[str]:
    """Import the modules of a noun, up to the one with a verb. Return the names of all modules, in the order
    of help.

    A package with several modules lists them in MODULES. Importing one takes 5 to 10 ms, because all its
    commands are created.
    """
    parts: Sequence[str] = getattr(module, "MODULES", ())
    for part in parts:
        importlib.import_module(f"{module.__name__}.{part}")
        if verb is not None and any(one.name == verb for one in module.app.registered_commands):
            break
    return parts


def _completed(words: Sequence[str], parameters: Iterable[Any]) -> Iterator[str]:
    """Yield the words, adding the value of each option whose value is omitted."""
    values = {
        name: _LEFT_OUT[one.metavar] for one in parameters if one.metavar in _LEFT_OUT for name in one.opts
    }
    # The added "-" makes a `--watch` at the end one without a value. Without any words, the second list
    # is longer than the first.
    for word, following in zip(words, [*words[1:], "-"], strict=bool(words)):
        yield f"{word}={values[word]}" if word in values and following.startswith("-") else word


def _name_owners(error: Any, application: typer.Typer | None) -> None:
    """Name the other commands of the group that have the option."""
    commands = getattr(typer.main.get_command(application), "commands", {}) if application else {}
    names = [
        name
        for name, command in commands.items()
        if any(error.option_name in parameter.opts for parameter in command.params)
    ]
    if names:
        from rmqcli.render.text import listed

        verb = "has" if len(names) == 1 else "have"
        error.message = f"{error.message.rstrip('.')}; {listed(names)} {verb} it"


class SectionedGroup(_Quick, TyperGroup):
    """A group whose help lists its commands first."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        # typer would cut the sentences at the width of the terminal
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, entry.get_short_help_str(limit=_WHOLE)) for name, entry in found if entry is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        write_group_help(self, ctx, formatter)


def command(
    app: typer.Typer,
    name: str,
    *,
    example: str,
    rows: Rows | None = None,
    panels: Mapping[str, str] = {},
    usage_code: int = ExitCode.USAGE,
    **settings: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command of `app`.

    `example` holds the lines of its examples; `rows` is given if it prints rows; `panels` maps titles of
    panels in the help to its rarer options, separated by spaces; all other options are shown first, together.
    `usage_code` is the exit code for an invalid command line.
    """
    lines = "\n".join(f"  {line}" for line in example.strip().splitlines())
    label = "Examples" if "\n" in example.strip() else "Example"

    def register(function: Callable[..., None]) -> Callable[..., None]:
        decorate = app.command(name, cls=SectionedCommand, epilog=f"\b\n{label}:\n{lines}", **settings)
        wrapped = global_options(function, rows)
        wrapped.panels = panels  # type: ignore[attr-defined]
        wrapped.application = app  # type: ignore[attr-defined]
        wrapped.usage_code = usage_code  # type: ignore[attr-defined]
        return decorate(wrapped)

    return register


def command_group(
    name: str, text: str, cls: type[SectionedGroup] = SectionedGroup, *, usage_code: int = ExitCode.USAGE
) -> typer.Typer:
    """Return a group of commands, `rmq NAME COMMAND`. `usage_code` is the exit code for an unknown command."""
    app = typer.Typer(name=name, cls=cls, add_completion=False, rich_markup_mode=None, help=text)
    action = global_options(_no_action)
    action.usage_code = usage_code  # type: ignore[attr-defined]
    app.callback(no_args_is_help=True, help=text)(action)
    return app


def single_command() -> typer.Typer:
    """Return an app that is one command, `rmq NAME`."""
    return typer.Typer(add_completion=False, rich_markup_mode=None)


def _no_action() -> None:
    """Do nothing: a group acts through its commands."""


# Groups that also take the options of one of their commands: `rmq broker --port 0` is `rmq broker run --port
# 0`.

BARE = "run"
"""The command of a command line that names none."""
_HELP = frozenset({"-h", "--help"})


class BareGroup(SectionedGroup):
    """A group whose command `run` may be omitted; `--help` without a command shows the help of the group."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if _names_a_command(args, self._valued(ctx)):
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, ["--help"] if asks_for_help(args) else [BARE, *args])

    def _valued(self, ctx: Any) -> set[str]:
        command: Any = self.get_command(ctx, BARE)
        parameters = [*self.params, *command.params] if command is not None else self.params
        return {name for one in parameters if not getattr(one, "is_flag", False) for name in one.opts}


def asks_for_help(words: Sequence[str]) -> bool:
    return not _HELP.isdisjoint(words)


def _names_a_command(words: Sequence[str], valued: Collection[str]) -> bool:
    """Return True if a word is neither an option nor the value of one of `valued`."""
    left = iter(words)
    for word in left:
        if word in valued:
            next(left, None)
        elif not word.startswith("-"):
            return True
    return False
