"""`winml-py cache`: what is remembered about which engine is the fastest."""

from __future__ import annotations

import json
from typing import Any

import click

from .. import cache as memory


@click.command()
@click.option("--clear", is_flag=True, help="Forget everything.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def cache(clear: bool, as_json: bool) -> None:
    """List what `engine = "auto"` and half precision found out about models, or forget it.

    The folder is the user's cache folder, or what WINML_PY_CACHE names; empty, nothing is kept.
    """
    place = memory.folder()
    if clear:
        count = memory.clear()
        click.echo(json.dumps({"schema_version": 1, "cleared": count}) if as_json else f"{count} verdicts forgotten")
        return
    found = [{"path": str(entry.path), "size": entry.size} | entry.facts for entry in memory.entries()]
    if as_json:
        facts = {"schema_version": 1, "folder": str(place or ""), "entries": found}
        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        _print(str(place or ""), found)


def _print(place: str, found: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    where = escape(place) if place else "nothing is kept: WINML_PY_CACHE is empty"
    console.print(f"{len(found)} verdicts, {sum(entry['size'] for entry in found):,} bytes in {where}", soft_wrap=True)
    if not found:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("model", "engine", "precision", "reason"):
        table.add_column(column, overflow="fold")
    for entry in found:
        cells = [str(entry.get(key, "damaged")) for key in ("model", "engine", "precision", "reason")]
        cells[0] = cells[0].rpartition("/")[2]
        table.add_row(*map(escape, cells))
    console.print(table)
