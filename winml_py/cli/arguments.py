"""Arguments that several commands take."""

from __future__ import annotations

import click

from ..tools.input_files import read_array


def _split(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals:
            raise click.BadParameter(f"{text}: write NAME=FILE.npy.")
        pairs.append((name, path))
    return pairs


named_arrays_option = click.option(
    "--input", "inputs", multiple=True, metavar="NAME=FILE.npy", help="Values to check with.", callback=_split
)


def read_named(pairs: list[tuple[str, str]]) -> dict[str, object]:
    """The arrays of what `named_arrays_option` found."""
    return {name: read_array(path) for name, path in pairs}
