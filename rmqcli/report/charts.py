"""Plots as SVG, drawn by pygal: shapes and texts with classes, whose colors and fonts are in the style sheet.

Everything that pygal adds for its own scripts and styles is removed.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import pygal
from pygal.style import Style

from rmqcli.render.text import short_number
from rmqcli.report.cells import clean
from rmqcli.report.page import Plot, Series

_WIDE, _NARROW = (960, 230), (440, 180)
_STYLE = Style(font_family="sans-serif", label_font_size=13, major_label_font_size=13)
_FIXED = {
    "css": (),
    "js": (),
    "style": _STYLE,
    "margin": 4,
    "margin_right": 24,
    "spacing": 6,
    "show_legend": False,
    "show_minor_x_labels": False,
    "min_scale": 2,
    "max_scale": 5,
    "order_min": 0,
    "value_formatter": short_number,
    "truncate_label": -1,
}
_ATTRIBUTES = frozenset(("class", "d", "x", "y", "width", "height", "transform"))
_DROPPED = frozenset(("defs", "desc", "title"))
_NO_HEIGHT = frozenset(("0", "0.0"))
_LONG = re.compile(r"\d+\.\d{2,}")
_OVERLAYS = frozenset(("titles", "plot overlay", "plot text-overlay", "plot tooltip-overlay"))


def svg(plot: Plot) -> str:
    """Return the element `svg` of a plot; texts are escaped."""
    width, height = _NARROW if plot.narrow else _WIDE
    shown = set(plot.marks)
    # pygal chooses the major labels by text, so the text of the others must differ.
    labels = [clean(text) if place in shown else f"#{place}" for place, text in enumerate(plot.labels)]
    marked = [labels[place] for place in plot.marks]
    chart = pygal.StackedBar(width=width, height=height, x_labels_major=marked, **_FIXED)
    chart.x_labels = labels
    for series in plot.series:
        chart.add("", [_value(plot, series, place) for place in range(len(series.values))])
    return tostring(_plain(chart.render_tree(), plot), encoding="unicode")


def _value(plot: Plot, series: Series, place: int) -> dict[str, Any]:
    """Return a value with the tooltip of its bar."""
    named = ", ".join(filter(None, (series.name, plot.labels[place])))
    value = series.values[place]
    return {"value": value, "label": clean(f"{named}: {value:,} {plot.unit}")}


def _plain(tree: Element, plot: Plot) -> Element:
    """Return the tree with only shapes, classes and positions."""
    root = Element("svg", {"viewBox": tree.get("viewBox", ""), "role": "img"})
    SubElement(root, "title").text = clean(plot.title)
    for child in tree:
        _copy(child, root)
    return root


def _copy(node: Element, parent: Element) -> None:
    if node.tag in _DROPPED or not isinstance(node.tag, str) or node.get("class") in _OVERLAYS:
        return
    if node.get("height") in _NO_HEIGHT:
        return
    kept = {name: _short(value) for name, value in node.attrib.items() if name in _ATTRIBUTES}
    copied = SubElement(parent, node.tag, kept)
    copied.text = node.text
    label = node.find("desc[@class='label']")
    if label is not None:
        SubElement(copied, "title").text = label.text
    for child in node:
        _copy(child, copied)


def _short(value: str) -> str:
    """Return the text with its numbers rounded to one decimal digit."""
    return _LONG.sub(lambda match: f"{float(match[0]):.1f}", value)
