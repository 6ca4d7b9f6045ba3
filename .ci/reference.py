"""Write the reference of the public names with pdoc: python .ci/reference.py FOLDER."""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from pathlib import Path

import pdoc

MODULES = (
    "rmqcli.client",
    "rmqcli.client.group.allocation",
    "rmqcli.broker",
    "rmqcli.export.spark_source",
    "rmqcli.testing",
)


def read(name: str) -> pdoc.doc.Module:
    """Return a public module with all its names."""
    module = importlib.import_module(name)
    for public in module.__all__:
        getattr(module, public)  # pdoc reads the dictionary, to which first use adds a lazy name
    page = pdoc.doc.Module(module)
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for home, public in [(node.module or "", alias.name) for node in imports for alias in node.names]:
        # pdoc reads the docstring of a variable from the module of the page, not from the one that defines it.
        if isinstance(shown := page.get(public), pdoc.doc.Variable) and public in module.__all__:
            own = pdoc.doc.Module(importlib.import_module(home)).get(public)
            shown.docstring = own.docstring if own else ""
    return page


def write(folder: Path) -> None:
    """Write a page for each public module, an index, and the search index."""
    # Types that are imported only for type checkers are shown as written.
    warnings.filterwarnings("ignore", "Error parsing type annotation", UserWarning)
    pdoc.render.configure(docformat="markdown", show_source=False)
    pages = {name: read(name) for name in MODULES}
    for name, page in pages.items():
        path = folder / f"{name.replace('.', '/')}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pdoc.render.html_module(page, pages), encoding="utf-8")
    (folder / "index.html").write_text(pdoc.render.html_index(pages), encoding="utf-8")
    (folder / "search.js").write_text(pdoc.render.search_index(pages), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
