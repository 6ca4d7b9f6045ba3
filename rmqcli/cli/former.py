"""Former spellings, which work for one release with a warning on standard error.

`FORMER` names them by command. The words of a command line are rewritten before they are parsed, so that
neither commands nor help, man pages and completions know of them. A spelling that means something else by now
is never rewritten: the new meaning wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rmqcli.cli.help import command_path
from rmqcli.cli.letters import LETTERS


class Now(NamedTuple):
    """The present spelling of an option: option `name`, or the argument `name` at `position`.

    `values` maps former values of a present option to present ones. `words` makes words of a value that
    several options contain now.
    """

    name: str
    position: int | None = None
    values: Mapping[str, str] = {}
    words: Callable[[str], list[str]] | None = None


def _listen(value: str) -> list[str]:
    """Return `--host HOST --port PORT` for "[HOST:]PORT"; without a host a server listened on all addresses."""
    host, _, port = value.rpartition(":")
    return ["--host", host.removeprefix("[").removesuffix("]") or "0.0.0.0", "--port", port]


_TOPIC = {"-t": Now("--topic")}
_WHERE = {"--sql": Now("--where")}
_CONFIG = {"-c": Now("--config")}
_QUEUES = {"-q": Now("--queues")}
_OUT = {"-o": Now("--out")}
_GROUP_ARGUMENT = dict.fromkeys(("-g", "--group"), Now("GROUP", 0))
_TOPIC_ARGUMENT = dict.fromkeys(("-t", "--topic", "-T"), Now("TOPIC", 1))

FORMER: Mapping[str, Mapping[str, Now]] = {
    "pull": _WHERE,
    "tail": _WHERE,
    "consume": _WHERE | {"--from": Now("--from", values={"first": "start", "last": "end"})},
    "trace": {"--id": Now("ID", 0)},
    "topic create": _QUEUES,
    "topic update": _QUEUES,
    "group describe": _TOPIC,
    "group status": _TOPIC,
    "group deliver": _TOPIC,
    "offsets show": _GROUP_ARGUMENT | _TOPIC,
    "offsets reset": _GROUP_ARGUMENT | _TOPIC_ARGUMENT,
    "offsets clone": {
        "--from": Now("FROM", 0),
        "--to": Now("TO", 1),
        **dict.fromkeys(_TOPIC_ARGUMENT, Now("TOPIC", 2)),
    },
    "inspect rebuild": _OUT,
    "inspect salvage": _OUT,
    "import": _TOPIC,
    "up": _CONFIG,
    "broker run": _CONFIG,
    "namesrv run": _CONFIG | {"--listen": Now("--host and --port", words=_listen)},
}
EVERYWHERE: Mapping[str, str] = {"--no-color": "--color=never"}
"""Former flags of every command."""


def present_words(command: Any, context: Any, words: Sequence[str]) -> list[str]:
    """Return the words of a command line in their present spelling; warn of former ones."""
    former = FORMER.get(command_path(context), {})
    if not any(word.startswith((*former, *EVERYWHERE)) for word in words):
        return list(words)
    rewriting = _Rewriting(former, command)
    found = rewriting.rewrite(words)
    if not rewriting.notes:
        return list(words)
    from rmqcli.render.output import warn

    warn(f"{'; '.join(dict.fromkeys(rewriting.notes))} (the old spelling works in this release only)")
    return found


class _Rewriting:
    """Rewrites one command line; `notes` says what was rewritten."""

    def __init__(self, former: Mapping[str, Now], command: Any) -> None:
        options = [one for one in command.params if one.param_type_name == "option"]
        self._interspersed = command.allow_interspersed_args
        self._known = {name for one in options for name in (*one.opts, *one.secondary_opts)}
        flags = {name for one in options if one.is_flag for name in (*one.opts, *one.secondary_opts)}
        self._former = {name: now for name, now in former.items() if name not in self._known or now.values}
        self._valued = (self._known - flags) | set(self._former)
        self.notes: list[str] = []

    def rewrite(self, words: Sequence[str]) -> list[str]:
        options: list[str] = []
        arguments: list[str] = []
        placed: dict[int, str] = {}
        rest = iter(words)
        for word in rest:
            if word == "--" or not (self._interspersed or word.startswith("-")):
                arguments += rest if word == "--" else (word, *rest)
            elif word == "-" or not word.startswith("-"):
                arguments.append(word)
            else:
                self._option(word, rest, options, placed)
        for position in sorted(placed):
            arguments.insert(position, placed[position])
        return [*options, *(["--"] if self._interspersed else []), *arguments]

    def _option(self, word: str, rest: Iterator[str], options: list[str], placed: dict[int, str]) -> None:
        if word in EVERYWHERE:
            self.notes.append(f"{word} is now {EVERYWHERE[word]}")
            options.append(EVERYWHERE[word])
            return
        name, joined, value = self._parts(word)
        if name not in self._valued:
            options.append(word)
            return
        if not joined:
            value = next(rest, None)
        now = self._former.get(name)
        if now is None or value is None:
            options += [word] if joined or value is None else [word, value]
        elif now.values:
            options += [name, self._value(name, value, now.values)]
        elif now.position is None:
            self.notes.append(_note(name, now))
            options += [*self._before(word, name), *(now.words(value) if now.words else (now.name, value))]
        else:
            self.notes.append(_note(name, now))
            options += self._before(word, name)
            placed[now.position] = value

    def _parts(self, word: str) -> tuple[str, bool, str | None]:
        """Return the option of a word that takes a value, whether a value is joined to it, and that value.

        Of `-ac5`, where -a is a flag, this is ("-c", True, "5").
        """
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            return name, bool(equals), value
        for place, letter in enumerate(word[1:], 1):
            if f"-{letter}" in self._valued:
                return f"-{letter}", place + 1 < len(word), word[place + 1 :]
        return word, False, None

    @staticmethod
    def _before(word: str, name: str) -> list[str]:
        """Return the flags that stand before a letter in the same word."""
        flags = "" if word.startswith("--") else word[1:].partition(name[1])[0]
        return [f"-{flags}"] if flags else []

    def _value(self, name: str, value: str, values: Mapping[str, str]) -> str:
        if value in values:
            self.notes.append(f"{name} {value} is now {name} {values[value]}")
        return values.get(value, value)


def _note(name: str, now: Now) -> str:
    if now.position is not None:
        text = f"{name} is now the argument {now.name}"
    else:
        letter = next((f"{letter}/" for letter, option in LETTERS.items() if option == now.name), "")
        text = f"{name} is now {letter}{now.name}"
    meaning = LETTERS.get(name)
    return f"{text}; {name} means {meaning}" if meaning and not text.endswith(meaning) else text
