"""A profile as one HTML file that needs nothing else: no script, no server, no network."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from .profile import OUTSIDE, Profile

_STYLE = """
:root { color-scheme: light dark; --line: #d8d8d8; --soft: #666; --background: #fff; --text: #1d1d1f; --bar: #4477aa; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a3a3c; --soft: #a0a0a6; --background: #161618; --text: #ececee; --bar: #77aadd; }
}
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1.5rem;
  background: var(--background); color: var(--text); }
h1 { font-size: 1.5rem; margin-bottom: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p.about { color: var(--soft); margin: .2rem 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); }
td.number, th.number { text-align: right; white-space: nowrap; }
td.name { overflow-wrap: anywhere; }
td.share { width: 22%; padding-right: 0; }
td.share span { display: block; height: .7rem; background: var(--bar); border-radius: 2px; }
.columns { display: grid; grid-template-columns: 1fr 1fr; gap: 0 3rem; }
.map { position: relative; height: 30rem; font-size: 13px; line-height: 1.35; color: #fff; }
.map div { position: absolute; box-sizing: border-box; overflow: hidden; container-type: size;
  border: 1px solid var(--background); }
.map .inside { container-type: normal; border: 0; inset: 0; }
.map p { display: none; margin: 0; padding: .1em .35em 0; white-space: nowrap; }
.map b { display: block; flex: 0 1 auto; font-weight: 600; overflow: hidden; text-overflow: ellipsis; }
.map .node b { direction: rtl; text-align: left; }
.map span { display: none; }
.map .head { gap: .35em; }
@container (min-width: 5ch) and (min-height: 1.5em) { .map .node { display: block; } }
@container (min-width: 5ch) and (min-height: 3.2em) { .map .head { display: flex; } .map .inside { top: 1.5em; } }
@media (max-width: 50rem) { .columns { grid-template-columns: 1fr; } }
@media (max-width: 34rem) {
  body { padding: 0 .9rem; margin-top: 1rem; font-size: 14px; }
  .map { font-size: 11px; }
  td.share, th.share { display: none; }
  th, td { padding-right: .5rem; }
  .nodes td:nth-child(2) { overflow-wrap: anywhere; }
  .nodes :is(td, th):nth-child(3) { display: none; }
}
"""
_COLORS = ("#4477aa", "#b85566", "#228833", "#8d701c", "#2f7f95", "#aa3377", "#6b6b6b", "#7c6a45")
"""Colours that people with any common colour blindness can tell apart: Paul Tol's, darkened for white text."""

_OUTSIDE_COLOR = "#737373"

_SIDES = (2.0, 1.0)
"""Width and height of the map; only their ratio counts."""

_HEAD = (
    '<tr><th>node</th><th>operator</th><th>provider</th><th class="number">time</th><th></th>'
    '<th class="share"></th></tr>'
)

SLOWEST = 30
"""Nodes in the table."""

TILES = 600
"""Nodes with a tile of their own; the others of an operator share one."""

_WIDTHS = (6, 8, 10, 12, 15, 18, 22, 27, 34)
"""Characters: a time is shown where its tile is as wide as the next of these. Names are cut instead."""

_LONGEST = 60
"""Characters of a name on a tile."""


class Tile(NamedTuple):
    """A tile of the map: its whole name, and microseconds."""

    name: str
    time: float


def page(profile: Profile) -> str:
    """The HTML of a profile."""
    name = escape(os.path.basename(profile.model))  # all names are a stranger's, and stand in HTML
    where = f"{profile.engine} on {profile.device}, " if profile.engine else ""
    about = f"{where}mean of {profile.evaluations} evaluation{'s' * (profile.evaluations > 1)}"
    sums = profile.sums(lambda node: node.operator) | {OUTSIDE: max(profile.outside, 0.0)}
    operators = [((operator,), time) for operator, time in sums.items()]
    providers = [((provider,), time) for provider, time in profile.sums(lambda node: node.provider).items()]
    overlap = (
        "Nodes ran at the same time: together they take longer than the evaluation." if profile.outside < 0 else ""
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{name}: profile</title>
<style>{_STYLE}{_labels_style()}</style>
</head>
<body>
<h1>{name}: {_format_time(profile.total)} an evaluation</h1>
<p class="about">{escape(about)}</p>
<div class="map">
{_map(profile)}
</div>
<div class="columns">
<section><h2>Operators</h2>{_table(operators, profile.total)}</section>
<section><h2>Providers</h2>{_table(providers, profile.total)}</section>
</div>
<h2>The slowest nodes</h2>
{_table(profile.rows(SLOWEST), profile.total, _HEAD)}
<p class="about">{overlap} {escape(profile.caution)}</p>
</body>
</html>
"""


def _labels_style() -> str:
    """Rules that show a time where its tile has room for it: below a node's name, or beside an operator's."""
    return "\n".join(
        f"@container (min-width: {width}ch) and (min-height: {height}em) "
        f"{{ .map .{label} .w{width} {{ display: block }} }}"
        for width in _WIDTHS
        for label, height in {"node": 2.9, "head": 3.2}.items()
    )


def _map(profile: Profile) -> str:
    """The operators of an evaluation as tiles, and their nodes inside; the area of each is its time."""
    sums = profile.sums(lambda node: node.operator)
    colours = dict(zip(sums, itertools.cycle(_COLORS))) | {OUTSIDE: _OUTSIDE_COLOR}
    shown = [Tile(name, time) for name, time in (sums | {OUTSIDE: profile.outside}).items() if time > 0]
    shown.sort(key=lambda tile: -tile.time)
    total, nodes = sum(tile.time for tile in shown), _nodes_of_operators(profile)
    return "\n".join(
        _operator(tile, nodes.get(tile.name, []), place, colours[tile.name], total)
        for tile, place in zip(shown, squarify([tile.time for tile in shown], *_SIDES), strict=True)
    )


def _nodes_of_operators(profile: Profile) -> dict[str, list[Tile]]:
    """For each operator its nodes, the slowest first. Of all nodes only the slowest have tiles of their own."""
    nodes: dict[str, list[Tile]] = defaultdict(list)
    others: dict[str, list[float]] = defaultdict(list)
    for rank, node in enumerate(profile.nodes):
        if rank < TILES and node.busy > 0:
            nodes[node.operator].append(Tile(node.name, node.busy))
        elif node.busy > 0:
            others[node.operator].append(node.busy)
    for operator, times in others.items():
        nodes[operator].append(Tile(f"{len(times)} more", sum(times)))
    return {operator: sorted(tiles, key=lambda tile: -tile.time) for operator, tiles in nodes.items()}


def _operator(tile: Tile, nodes: list[Tile], place: Place, colour: str, total: float) -> str:
    inside = "".join(
        _tile(node, _css_position(where, place.width, place.height), total)
        for node, where in zip(nodes, _places(nodes, place), strict=True)
    )
    # The operator's name takes what its time leaves of the head, and a few characters of it say enough.
    time = _format_time(tile.time)
    head = _label("head", tile.name, time, _width_for(f"{tile.name[:6]} {time}"))
    spot = f"{_css_position(place, *_SIDES)};background:{colour}"
    return f'<div style="{spot}" title="{_title(tile, total)}">{head}<div class="inside">{inside}</div></div>'


def _places(nodes: list[Tile], place: Place) -> list[Place]:
    return squarify([node.time for node in nodes], place.width, place.height)


def _tile(tile: Tile, spot: str, total: float) -> str:
    # ONNX Runtime adds the same ending to all nodes that it lays out anew, and the end of a name is what is seen.
    name = (tile.name.rpartition("/")[2] or tile.name).removesuffix("_nchwc")
    time = _format_time(tile.time)
    label = _label("node", name, time, _width_for(time))
    return f'<div style="{spot}" title="{_title(tile, total)}">{label}</div>'


def _label(kind: str, name: str, time: str, width: str) -> str:
    """A name and a time. Of a name that is too long, an operator's tile shows the beginning, a node's the end."""
    # Nodes' names run from right to left, so that the beginning is cut off; `bdi` keeps the name's own order.
    shown = f'<b><bdi dir="ltr">{escape(_shorten(name, _LONGEST))}</bdi></b>'
    return f'<p class="{kind}">{shown}<span class="{width}">{time}</span></p>'


def _css_position(place: Place, width: float, height: float) -> str:
    """Where a tile lies in what holds it, in per cent."""
    sides = {"left": place.x / width, "top": place.y / height}
    sides |= {"width": place.width / width, "height": place.height / height}
    return ";".join(f"{side}:{100 * share:.3f}%" for side, share in sides.items())


def _title(tile: Tile, total: float) -> str:
    return escape(f"{_shorten(tile.name, 200)}: {_format_time(tile.time)}, {100 * tile.time / total:.1f} %")


def _width_for(label: str) -> str:
    """The class of labels that need as much room."""
    needed = 1.15 * len(label) + 1
    return f"w{next((width for width in _WIDTHS if needed <= width), _WIDTHS[-1])}"


def _shorten(name: str, length: int) -> str:
    """The end of a name, which tells nodes apart better than its beginning."""
    return name if len(name) <= length else f"…{name[1 - length :]}"


def _table(rows: Iterable[tuple[tuple[str, ...], float]], total: float, head: str = "") -> str:
    """A table of words, a time, and its share of the total."""
    kind = ' class="nodes"' if head else ""
    return f"<table{kind}>{head}{''.join(_row(words, time, total) for words, time in rows)}</table>"


def _row(words: tuple[str, ...], time: float, total: float) -> str:
    name, *others = map(escape, words)
    share = 100 * time / total if total else 0
    return (
        f'<tr><td class="name">{name}</td>{"".join(f"<td>{word}</td>" for word in others)}'
        f'<td class="number">{_format_time(time)}</td><td class="number">{share:.1f} %</td>'
        f'<td class="share"><span style="width:{min(max(share, 0), 100):.1f}%"></span></td></tr>'
    )


def _format_time(microseconds: float) -> str:
    return f"{microseconds:,.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:,.2f} ms"


# Where the tiles of a treemap lie: rectangles whose areas are the shares of numbers, as square as can be.


class Place(NamedTuple):
    """A rectangle: left, top, width and height."""

    x: float
    y: float
    width: float
    height: float


def squarify(numbers: Sequence[float], width: float, height: float) -> list[Place]:
    """A rectangle for each number inside one of this size, by the algorithm of Bruls, Huizing and van Wijk.

    Args:
        numbers: above 0, the largest first.
        width: of the whole.
        height: of the whole.
    """
    scale = width * height / sum(numbers) if numbers else 0
    areas = [number * scale for number in numbers]
    places: list[Place] = []
    free = Place(0, 0, width, height)
    while areas:
        count = _place_row(areas, min(free.width, free.height))
        row, areas = areas[:count], areas[count:]
        places += _lay_row(row, free)
        free = _remaining_place(free, sum(row))
    return places


def _place_row(areas: Sequence[float], side: float) -> int:
    """How many of the areas, laid along the side, give rectangles that are as square as can be."""
    count = 1
    while count < len(areas) and _worst_aspect_ratio(areas[: count + 1], side) <= _worst_aspect_ratio(
        areas[:count], side
    ):
        count += 1
    return count


def _worst_aspect_ratio(row: Sequence[float], side: float) -> float:
    """The longest side over the shortest, of the row's rectangles."""
    thickness = sum(row) / side
    return max(thickness**2 / row[-1], row[0] / thickness**2)


def _lay_row(row: Sequence[float], free: Place) -> list[Place]:
    """The row along the shorter side of what is left."""
    thickness = sum(row) / min(free.width, free.height)
    places, along = [], 0.0
    for area in row:
        length = area / thickness
        if free.width >= free.height:
            places.append(Place(free.x, free.y + along, thickness, length))
        else:
            places.append(Place(free.x + along, free.y, length, thickness))
        along += length
    return places


def _remaining_place(free: Place, area: float) -> Place:
    """What the row leaves."""
    x, y, width, height = free
    if width >= height:
        return Place(x + area / height, y, width - area / height, height)
    return Place(x, y + area / width, width, height - area / width)
