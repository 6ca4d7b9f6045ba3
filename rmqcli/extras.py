"""Packages of optional extras: the error if one is not installed, and control of their output."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

INSTALLED_BY = {"hdrh": "hdrhistogram", "google.protobuf": "protobuf"}
"""The distribution of a module that has another name."""
GRPC = ("grpc", "hpack", "google.protobuf", "cryptography")
"""The extra that a front for gRPC clients requires, and its modules."""


class MissingPackage(Exception):
    """A package of an optional extra is not installed; the message names it and the command that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"package {package} is not installed: {install_command(extra)}")


def install_command(extra: str) -> str:
    """Return the command that adds an extra to the environment that rmq runs in."""
    environment = Path(sys.prefix)
    if (environment / "pipx_metadata.json").exists():
        return f"pipx inject rmqcli 'rmqcli[{extra}]'"
    # `uv tool install 'rmqcli[…]'` would drop the extras that are not named again.
    if (environment / "uv-receipt.toml").exists():
        return f"uv pip install --python '{environment}' 'rmqcli[{extra}]'"
    return f"pip install 'rmqcli[{extra}]'"


def require(extra: str, *modules: str) -> None:
    """Raise MissingPackage for the first of `modules` that is not installed; none is imported but the parents
    of a dotted name.
    """
    for module in modules:
        if not _is_installed(module):
            raise MissingPackage(INSTALLED_BY.get(module, module), extra)


def _is_installed(module: str) -> bool:
    # find_spec imports the parents, and raises if one is missing: google is a folder that several packages share.
    parents = [module[:end] for end, letter in enumerate(module) if letter == "."]
    return all(importlib.util.find_spec(name) is not None for name in [*parents, module])


def silence() -> None:
    """Keep the libraries of tables from writing to standard error: their exceptions contain everything that
    concerns the user.
    """
    import logging

    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    os.environ.setdefault("RUST_LOG", "error")
