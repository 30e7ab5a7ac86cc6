"""`winml-py cache`: what is kept about models from one process to the next."""

from __future__ import annotations

import os
from typing import Any

import click

from ..cache import answers, folders
from .style import emit, json_option, say, show


@click.command()
@click.option("--clear", is_flag=True, help="Forget everything.")
@json_option
def cache(clear: bool, as_json: bool) -> None:
    """List what is kept about models, or forget it: verdicts of `engine = "auto"` and of half precision, and large
    models as ONNX Runtime wants them, optimised, for sessions to map.

    The folder is the user's cache folder, or what WINML_PY_CACHE names; empty, nothing is kept.
    """
    folder = answers.folder()
    if clear:
        optimized, count = folders.clear(), answers.clear()
        facts: dict[str, Any] = {"schema_version": 1, "cleared": count, "optimized_cleared": optimized}
        text = f"{count} verdicts forgotten, {optimized} optimised models removed"
        emit(facts) if as_json else say(text)
        return
    found = [{"path": str(entry.path), "size": entry.size} | entry.facts for entry in answers.entries()]
    if as_json:
        kept = [folder._asdict() | {"path": str(folder.path)} for folder in folders.entries()]
        facts = {"schema_version": 1, "folder": str(folder or ""), "entries": found, "optimized": kept}
        emit(facts)
    else:
        _print(str(folder or ""), found)
        _print_optimized(folders.entries())


def _print(folder: str, found: list[dict[str, Any]]) -> None:
    where = folder or "nothing is kept: WINML_PY_CACHE is empty"
    say(f"{len(found)} verdicts, {sum(entry['size'] for entry in found):,} bytes in {where}")
    columns = ["model", "engine", "precision", "reason"]
    rows = [[str(entry.get(key, "damaged")) for key in columns] for entry in found]
    if rows:
        show(columns, [[row[0].rpartition("/")[2], *row[1:]] for row in rows], left=4)


def _print_optimized(found: list[folders.CachedFolder]) -> None:
    if found:
        total = sum(folder.size for folder in found)
        say(f"\n{len(found)} optimised models, {total:,} of {folders.limit():,} bytes")
        show(["model", "bytes"], [[os.path.basename(folder.model), f"{folder.size:,}"] for folder in found])
