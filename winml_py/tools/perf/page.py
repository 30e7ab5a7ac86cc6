"""A profile as one HTML file that needs nothing else: no server, no network."""

from __future__ import annotations

import os
from html import escape

from ...errors import NotSupportedError
from .profile import OUTSIDE, Profile

_STYLE = """
:root { color-scheme: light dark; --line: #d8d8d8; --soft: #666; --ground: #fff; --text: #1d1d1f; --bar: #4477aa; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a3a3c; --soft: #a0a0a6; --ground: #161618; --text: #ececee; --bar: #77aadd; }
}
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1.5rem;
  background: var(--ground); color: var(--text); }
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
"""Told apart in all common kinds of colour blindness; after Paul Tol's notes, darkened for white text."""

SLOWEST = 30


def page(profile: Profile) -> str:
    """The HTML of a profile.

    Raises:
        NotSupportedError: plotly, which draws the map, is not installed.
    """
    name = escape(os.path.basename(profile.model))
    about = f"{profile.engine} on {profile.device}, mean of {profile.evaluations} evaluations"
    operators = profile.sums(lambda node: node.operator) | {OUTSIDE: max(profile.outside, 0.0)}
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
{_map(profile)}
<div class="columns">
<section><h2>Operators</h2>{_sums(operators, profile.total)}</section>
<section><h2>Providers</h2>{_sums(profile.sums(lambda node: node.provider), profile.total)}</section>
</div>
<h2>The slowest nodes</h2>
{_nodes(profile)}
<p class="about">{_remainder(profile)}</p>
</body>
</html>
"""


def _map(profile: Profile) -> str:
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise NotSupportedError(
            "The page's map is drawn by plotly, which is not installed.", hint="pip install 'winml-py[tools]'"
        ) from None
    operators = profile.sums(lambda node: node.operator)
    colors = {operator: _COLORS[index % len(_COLORS)] for index, operator in enumerate(operators)}
    ids, labels, parents, values, tiles = ["all"], [""], [""], [sum(operators.values())], ["rgba(0,0,0,0)"]
    for operator, time in operators.items():
        ids, labels, parents = [*ids, f"operator {operator}"], [*labels, operator], [*parents, "all"]
        values, tiles = [*values, time], [*tiles, colors[operator]]
    for index, node in enumerate(profile.nodes):
        ids.append(f"node {index}")
        labels.append(node.name)
        parents.append(f"operator {node.operator}")
        values.append(node.time)
        tiles.append(colors[node.operator])
    if profile.outside > 0:
        ids, labels, parents = [*ids, OUTSIDE], [*labels, OUTSIDE], [*parents, "all"]
        values, tiles = [values[0] + profile.outside, *values[1:], profile.outside], [*tiles, "#8a8a8a"]
    treemap = go.Treemap(
        ids=ids,
        labels=labels,
        parents=parents,
        values=values,
        branchvalues="total",
        marker={"colors": tiles, "line": {"width": [0, *([1] * (len(ids) - 1))], "color": "rgba(255,255,255,0.5)"}},
        text=[_spell(value) for value in values],
        texttemplate="%{label}<br>%{text}",
        hovertemplate="%{label}<br>%{text}, %{percentRoot:.1%}<extra></extra>",
        textfont={"color": "#ffffff"},
        tiling={"pad": 2},
        pathbar={"visible": False},
    )
    figure = go.Figure(treemap)
    figure.update_layout(
        margin={"t": 0, "l": 0, "r": 0, "b": 0}, height=460, paper_bgcolor="rgba(0,0,0,0)", font={"size": 13}
    )
    html: str = figure.to_html(
        full_html=False, include_plotlyjs=True, config={"displayModeBar": False, "responsive": True}
    )
    return html


def _sums(sums: dict[str, float], total: float) -> str:
    rows = "".join(
        f'<tr><td class="name">{escape(name)}</td><td class="number">{_spell(time)}</td>{_share(time, total)}</tr>'
        for name, time in sums.items()
    )
    return f"<table>{rows}</table>"


def _nodes(profile: Profile) -> str:
    rows = "".join(
        f'<tr><td class="name">{escape(node.name)}</td><td>{escape(node.operator)}</td>'
        f"<td>{escape(node.provider.removesuffix('ExecutionProvider'))}</td>"
        f'<td class="number">{_spell(node.time)}</td>{_share(node.time, profile.total)}</tr>'
        for node in profile.nodes[:SLOWEST]
    )
    head = '<tr><th>node</th><th>operator</th><th>provider</th><th class="number">time</th><th></th><th></th></tr>'
    return f"<table>{head}{rows}</table>"


def _share(time: float, total: float) -> str:
    share = 100 * time / total if total else 0
    return (
        f'<td class="number">{share:.1f} %</td>'
        f'<td class="share"><span style="width:{min(share, 100):.1f}%"></span></td>'
    )


def _remainder(profile: Profile) -> str:
    rest = profile.nodes[SLOWEST:]
    parts = [f"{len(rest)} more nodes take {_spell(sum(node.time for node in rest))}."] if rest else []
    if profile.outside < 0:
        parts.append("Nodes ran at the same time: together they take longer than the evaluation.")
    return " ".join(parts)


def _spell(microseconds: float) -> str:
    return f"{microseconds:,.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:,.2f} ms"
