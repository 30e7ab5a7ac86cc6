"""A profile as one HTML file that needs nothing else: no script, no server, no network."""

from __future__ import annotations

import os
from collections.abc import Iterable
from html import escape

from .profile import OUTSIDE, Profile

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1, td { overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid #8886; }
.number { text-align: right; white-space: nowrap; }
.share { width: 22%; }
.share span { display: block; height: .7rem; background: #5b8fc4; }
@media (max-width: 34rem) { .share { display: none; } }
"""

_HEAD = (
    '<tr><th>node</th><th>operator</th><th>provider</th><th class="number">time</th><th></th>'
    '<th class="share"></th></tr>'
)

SLOWEST = 200
"""Nodes in the table."""


def page(profile: Profile) -> str:
    """The HTML of a profile: the times of its operators, its providers and its slowest nodes."""
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
<style>{_STYLE}</style>
</head>
<body>
<h1>{name}: {_format_time(profile.total)} an evaluation</h1>
<p>{escape(about)}</p>
<h2>Operators</h2>
{_table(operators, profile.total)}
<h2>Providers</h2>
{_table(providers, profile.total)}
<h2>The slowest nodes</h2>
{_table(profile.rows(SLOWEST), profile.total, _HEAD)}
<p>{overlap} {escape(profile.caution)}</p>
</body>
</html>
"""


def _table(rows: Iterable[tuple[tuple[str, ...], float]], total: float, head: str = "") -> str:
    return f"<table>{head}{''.join(_row(words, time, total) for words, time in rows)}</table>"


def _row(words: tuple[str, ...], time: float, total: float) -> str:
    share = 100 * time / total if total else 0
    return (
        f"<tr>{''.join(f'<td>{escape(word)}</td>' for word in words)}"
        f'<td class="number">{_format_time(time)}</td><td class="number">{share:.1f} %</td>'
        f'<td class="share"><span style="width:{min(max(share, 0), 100):.1f}%"></span></td></tr>'
    )


def _format_time(microseconds: float) -> str:
    return f"{microseconds:,.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:,.2f} ms"
