"""`winml-py cache`: what is kept about models from one process to the next."""

from __future__ import annotations

import os
from functools import partial

import click

from ..core.base.messages import Facts
from ..core.cache.folders import clear_all, kept
from .arguments import json_option
from .style import emit, say, show, size_of


@click.command()
@click.option("--clear", is_flag=True, help="Remove all of it.")
@json_option
def cache(clear: bool, as_json: bool) -> None:
    """List or remove what is kept about models.

    These are choices (which engine and precision suit a model best), large models that ONNX Runtime has optimised, and
    models that OpenVINO, TensorRT and other providers have compiled.

    They lie in the user's cache folder, or in the folder that WINML_PY_CACHE names. Where WINML_PY_CACHE is empty,
    nothing is kept.
    """
    if clear:
        count, optimized = clear_all()
        line = f"{count} remembered choices and {optimized} optimised models removed"
        emit({"cleared": count, "optimized_cleared": optimized}, as_json, lambda _: say(line))
        return
    found = kept()
    facts = {
        "folder": str(found.folder or ""),
        "entries": [entry.facts | {"path": str(entry.path), "size": entry.size} for entry in found.answers],
        "optimized": [folder._asdict() | {"path": str(folder.path)} for folder in found.models],
    }
    emit(facts, as_json, partial(_print, limit=found.limit))


def _print(facts: Facts, limit: int) -> None:
    entries, optimized = facts["entries"], facts["optimized"]
    folder = facts["folder"] or "no folder: WINML_PY_CACHE is empty, and nothing is kept"
    say(f"{len(entries)} remembered choices, {size_of(_size(entries))} in {folder}")
    if entries:
        columns = ["model", "engine", "precision", "reason"]
        rows = [[str(entry.get(key, "damaged")) for key in columns] for entry in entries]
        show([[os.path.basename(row[0]), *row[1:]] for row in rows], columns)
    if optimized:
        say(f"\n{len(optimized)} optimised models, {size_of(_size(optimized))} of {size_of(limit)}")
        show([[os.path.basename(one["model"]), size_of(one["size"])] for one in optimized], ["model", "size"], "lr")


def _size(kept: list[Facts]) -> int:
    return sum(entry["size"] for entry in kept)
