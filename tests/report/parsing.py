"""Reads a page back: its tables and texts, and whether it is whole, safe and alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset(("meta", "br", "link", "img", "input", "hr"))
ALLOWED = frozenset(
    [
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "header",
        "main",
        "footer",
        "nav",
        "section",
        "article",
        "h1",
        "h2",
        "h3",
        "p",
        "ul",
        "ol",
        "li",
        "a",
        "b",
        "i",
        "span",
        "small",
        "div",
        "dl",
        "dt",
        "dd",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "figure",
        "figcaption",
        "svg",
        "g",
        "path",
        "rect",
        "text",
        "title",
    ]
)
ADDRESSES = frozenset(("src", "href", "xlink:href", "action", "data", "poster", "srcset"))


@dataclass
class Document(HTMLParser):
    """`tables` are by the title of their section, rows of cells; `titles` are what is shown on pointing."""

    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    titles: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    section: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), attrs
        assert not [name for name in names if name.startswith("on")], attrs
        values = dict(attrs)
        for name in ADDRESSES & values.keys():
            assert name == "href" and (values[name] or "").startswith("#"), attrs
        self.anchors += [(values["href"] or "")[1:]] if "href" in values else []
        self.ids += [values["id"] or ""] if "id" in values else []
        self.titles += [values["title"] or ""] if "title" in values else []
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.tables.setdefault(self.section, []).append([])
        elif tag in ("td", "th"):
            self.tables[self.section][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.open and self.open[-1] == "h2":
            self.section = data
        if self.open and {"td", "th"} & set(self.open):
            self.tables[self.section][-1][-1] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def read(page: str) -> Document:
    """Return what the page says. It is whole, has no script, and refers to nothing outside."""
    found = Document()
    found.feed(page)
    found.close()
    assert page.startswith("<!DOCTYPE html>")
    assert not found.open
    assert "default-src 'none'" in page
    assert "@import" not in page
    assert "url(" not in page
    assert len(found.ids) == len(set(found.ids))
    assert set(found.anchors) <= set(found.ids)
    assert not [one for one in page if one < " " and one != "\n"]
    return found
