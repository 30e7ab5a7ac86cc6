"""`winml-py cache`: what is kept about models from one process to the next."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from .. import artefacts
from .. import cache as memory


@click.command()
@click.option("--clear", is_flag=True, help="Forget everything.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def cache(clear: bool, as_json: bool) -> None:
    """List what is kept about models, or forget it: verdicts of `engine = "auto"` and of half precision, and large
    models as ONNX Runtime wants them, optimised, for sessions to map.

    The folder is the user's cache folder, or what WINML_PY_CACHE names; empty, nothing is kept.
    """
    place = memory.folder()
    if clear:
        optimized, count = artefacts.clear(), memory.clear()
        facts: dict[str, Any] = {"schema_version": 1, "cleared": count, "optimized_cleared": optimized}
        text = f"{count} verdicts forgotten, {optimized} optimised models removed"
        click.echo(json.dumps(facts) if as_json else text)
        return
    found = [{"path": str(entry.path), "size": entry.size} | entry.facts for entry in memory.entries()]
    if as_json:
        kept = [artefact._asdict() | {"path": str(artefact.path)} for artefact in artefacts.entries()]
        facts = {"schema_version": 1, "folder": str(place or ""), "entries": found, "optimized": kept}
        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        _print(str(place or ""), found)
        _print_optimized(artefacts.entries())


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


def _print_optimized(found: list[artefacts.Artefact]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    if not found:
        return
    console = Console(highlight=False)
    total = sum(artefact.size for artefact in found)
    console.print(f"\n{len(found)} optimised models, {total:,} of {artefacts.limit():,} bytes", soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("model", overflow="fold")
    table.add_column("bytes", justify="right")
    for artefact in found:
        table.add_row(escape(os.path.basename(artefact.model)), f"{artefact.size:,}")
    console.print(table)
