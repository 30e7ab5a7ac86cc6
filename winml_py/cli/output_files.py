"""Where a command writes: never over what it reads, unless it is told to."""

from __future__ import annotations

import os
from collections.abc import Iterable

import click


def require_no_input(output: str | None, inputs: Iterable[str], force: bool = False, remedy: str = "--force") -> None:
    """Refuses an output that is one of the inputs, by whatever name or link.

    Args:
        output: the path to write; None where nothing is written.
        inputs: paths that the command reads, and other words.
        force: whether it is meant.
        remedy: the option that says so; "" where the command has none.

    Raises:
        click.UsageError: it is one.
    """
    if output is None or force:
        return
    for path in inputs:
        if is_same_file(output, path):
            hint = f", or add {remedy} to replace it" if remedy else ""
            raise click.UsageError(f"{output}: This is an input, and the output would replace it. Name another{hint}.")


def is_same_file(one: str, other: str) -> bool:
    """Whether two paths lead to one file that is there."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False
