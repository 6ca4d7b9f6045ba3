"""What a person types: parse, call, render. One module for each command group; `rmqcli.cli.app` names them all."""

from __future__ import annotations

__all__: list[str] = []
