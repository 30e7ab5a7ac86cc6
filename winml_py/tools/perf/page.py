"""A profile as one HTML file that needs nothing else: no server, no network."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from html import escape

from ...errors import MissingPackageError
from .profile import OUTSIDE, Profile

_STYLE = """
:root { color-scheme: light dark; --line: #d8d8d8; --soft: #666; --background: #fff; --text: #1d1d1f; --bar: #4477aa; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a3a3c; --soft: #a0a0a6; --background: #161618; --text: #ececee; --bar: #77aadd; }
}
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1.5rem;
  background: var(--background); color: var(--text); }
h1 { font-size: 1.5rem; margin-bottom: 0; }
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
@media (max-width: 50rem) { .columns { grid-template-columns: 1fr; } }
"""
_COLORS = ("#4477aa", "#cc6677", "#228833", "#aa8822", "#66aabb", "#aa3377", "#777777", "#887755")
"""Colours that people with any common colour blindness can tell apart: Paul Tol's, darkened for white text."""

_OUTSIDE_COLOR, _TRANSPARENT = "#8a8a8a", "rgba(0,0,0,0)"

_HEAD = '<tr><th>node</th><th>operator</th><th>provider</th><th class="number">time</th><th></th><th></th></tr>'

SLOWEST = 30


def page(profile: Profile) -> str:
    """The HTML of a profile.

    Raises:
        MissingPackageError: plotly, which draws the map, is not installed.
    """
    name = escape(os.path.basename(profile.model))
    about = f"{profile.engine} on {profile.device}, mean of {profile.evaluations} evaluations"
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
<style>{_STYLE}</style>
</head>
<body>
<h1>{name}: {_spell(profile.total)} an evaluation</h1>
<p class="about">{escape(about)}</p>
{_map(profile, sums)}
<div class="columns">
<section><h2>Operators</h2>{_table(operators, profile.total)}</section>
<section><h2>Providers</h2>{_table(providers, profile.total)}</section>
</div>
<h2>The slowest nodes</h2>
{_table(profile.rows(SLOWEST), profile.total, _HEAD)}
<p class="about">{overlap}</p>
</body>
</html>
"""


def _map(profile: Profile, operators: dict[str, float]) -> str:
    """All of an evaluation, the operators in it, and their nodes; each has the time of all that is in it."""
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise MissingPackageError(
            "The page's map is drawn by plotly, which is not installed.",
            hint="Install it: pip install 'winml-py[tools]'.",
        ) from None
    colors = dict(zip(operators, itertools.cycle(_COLORS))) | {OUTSIDE: _OUTSIDE_COLOR}
    tiles = [("all", "", "", sum(operators.values()), _TRANSPARENT)]
    tiles += [(f"operator {name}", name, "all", time, colors[name]) for name, time in operators.items()]
    tiles += [
        (f"node {index}", node.name, f"operator {node.operator}", node.time, colors[node.operator])
        for index, node in enumerate(profile.nodes)
    ]
    ids, labels, parents, times, tile_colors = zip(*tiles, strict=True)
    treemap = go.Treemap(
        ids=ids,
        labels=labels,
        parents=parents,
        values=times,
        branchvalues="total",
        marker={
            "colors": tile_colors,
            "line": {"width": [0, *([1] * (len(ids) - 1))], "color": "rgba(255,255,255,0.5)"},
        },
        text=[_spell(time) for time in times],
        texttemplate="%{label}<br>%{text}",
        hovertemplate="%{label}<br>%{text}, %{percentRoot:.1%}<extra></extra>",
        textfont={"color": "#ffffff"},
        tiling={"pad": 2},
        pathbar={"visible": False},
    )
    margin = dict.fromkeys("tlrb", 0)
    layout = {"margin": margin, "height": 460, "paper_bgcolor": _TRANSPARENT, "font": {"size": 13}}
    html: str = go.Figure(treemap, layout).to_html(
        full_html=False, include_plotlyjs=True, config={"displayModeBar": False, "responsive": True}
    )
    return html


def _table(rows: Iterable[tuple[tuple[str, ...], float]], total: float, head: str = "") -> str:
    """A table of words, a time, and its share of the total."""
    return f"<table>{head}{''.join(_row(words, time, total) for words, time in rows)}</table>"


def _row(words: tuple[str, ...], time: float, total: float) -> str:
    name, *others = map(escape, words)
    share = 100 * time / total if total else 0
    return (
        f'<tr><td class="name">{name}</td>{"".join(f"<td>{word}</td>" for word in others)}'
        f'<td class="number">{_spell(time)}</td><td class="number">{share:.1f} %</td>'
        f'<td class="share"><span style="width:{min(max(share, 0), 100):.1f}%"></span></td></tr>'
    )


def _spell(microseconds: float) -> str:
    return f"{microseconds:,.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:,.2f} ms"
