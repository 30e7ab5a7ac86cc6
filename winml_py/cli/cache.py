"""`winml-py cache`: what is kept about models from one process to the next."""

from __future__ import annotations

import os
from typing import Any

import click

from ..cache import answers as memory
from ..cache import folders as artefacts
from .style import emit, json_option, say, show


@click.command()
@click.option("--clear", is_flag=True, help="Forget everything.")
@json_option
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
        emit(facts) if as_json else say(text)
        return
    found = [{"path": str(entry.path), "size": entry.size} | entry.facts for entry in memory.entries()]
    if as_json:
        kept = [artefact._asdict() | {"path": str(artefact.path)} for artefact in artefacts.entries()]
        facts = {"schema_version": 1, "folder": str(place or ""), "entries": found, "optimized": kept}
        emit(facts)
    else:
        _print(str(place or ""), found)
        _print_optimized(artefacts.entries())


def _print(place: str, found: list[dict[str, Any]]) -> None:
    where = place or "nothing is kept: WINML_PY_CACHE is empty"
    say(f"{len(found)} verdicts, {sum(entry['size'] for entry in found):,} bytes in {where}")
    columns = ["model", "engine", "precision", "reason"]
    rows = [[str(entry.get(key, "damaged")) for key in columns] for entry in found]
    if rows:
        show(columns, [[row[0].rpartition("/")[2], *row[1:]] for row in rows], left=4)


def _print_optimized(found: list[artefacts.Artefact]) -> None:
    if found:
        total = sum(artefact.size for artefact in found)
        say(f"\n{len(found)} optimised models, {total:,} of {artefacts.limit():,} bytes")
        show(["model", "bytes"], [[os.path.basename(artefact.model), f"{artefact.size:,}"] for artefact in found])
