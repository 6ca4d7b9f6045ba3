"""The README and the addresses of a distribution, as a metadata hook of hatchling.

A page of an index has no files beside it. With an `address` of the repository in pyproject.toml, relative links and
pictures become absolute and lead to the tag of the version; without one, links become text and pictures are removed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # in a checkout without the build tools
    MetadataHookInterface = object

RELATIVE = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#|mailto:)(?P<path>[^)\s]+)\)")


def absolute(text: str, address: str, version: str) -> str:
    """Return a Markdown page without relative links, which would be broken on an index."""

    def replace(link: re.Match[str]) -> str:
        if not address:
            return "" if link["picture"] else link["text"]
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}[{link['text']}]({address}/{kind}/v{version}/{link['path']})"

    return RELATIVE.sub(replace, text)


def urls(address: str, version: str) -> dict[str, str]:
    """Return the Project-URLs of a distribution."""
    if not address:
        return {}
    files = f"{address}/blob/v{version}"
    return {
        "Homepage": address,
        "Documentation": f"{files}/docs/README.md",
        "Changelog": f"{files}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }


class ReadmeHook(MetadataHookInterface):  # type: ignore[misc, valid-type]
    """Sets the README and the URLs."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both to the metadata of the project."""
        address = self.config["address"].rstrip("/")
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, address, metadata["version"]),
        }
        metadata["urls"] = urls(address, metadata["version"])
