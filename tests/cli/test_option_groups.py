"""Groups of options in the signature of a command."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

from rmqcli.cli.options import OptionGroup, expand, gather

Text = Annotated[str, "a text"]


@dataclass(frozen=True, slots=True)
class Pair(OptionGroup):
    left: Text = "l"
    right: Annotated[int, "a number"] = 7


def command(before: int, pair: Pair, after: bool = False) -> None: ...


OWN = list(inspect.signature(command, eval_str=True).parameters.values())


def test_a_group_stands_where_its_parameter_stood() -> None:
    found = [(parameter.name, parameter.annotation, parameter.default) for parameter in expand(OWN)]
    assert found[1:3] == [("left", Text, "l"), ("right", Annotated[int, "a number"], 7)]
    assert [name for name, _, _ in found] == ["before", "left", "right", "after"]


def test_its_values_are_gathered_again() -> None:
    given = {"before": 1, "left": "x", "right": 2, "after": True}
    assert gather(OWN, given) == {"before": 1, "pair": Pair("x", 2), "after": True}
    assert len(given) == 4
