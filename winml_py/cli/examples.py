"""`winml-py examples`: copy the models, pictures and programs of the documentation's examples."""

from __future__ import annotations

import os
from pathlib import Path

import click

from .._examples import find_examples
from ..core.base.atomic_files import translate_write_errors, write_atomically
from ..core.base.messages import Facts
from ..errors import StorageExistsError
from .arguments import json_option
from .style import emit, print_line

_PATTERNS = (
    "models/*.onnx",
    "models/*.txt",
    "samples/*.py",
    "samples/browser/*.html",
    "samples/browser/*.mjs",
    "samples/javascript/*.mjs",
    "samples/pictures/*.jpg",
    "samples/pictures/*.md",
    "samples/pictures/*.png",
)
"""The example files; `pyproject.toml` puts the same ones into the wheel."""


@click.command()
@click.argument("folder", type=click.Path(), default=".")
@json_option
def examples(folder: str, as_json: bool) -> None:
    """Copy the models, programs and pictures from the documentation.

    Models go to FOLDER/models. Programs and pictures go to FOLDER/samples. The default FOLDER is the current one. If it
    does not exist, the command creates it. If one of your own files has the name of an example, the command copies
    nothing.
    """
    emit({"folder": folder, "files": copy_examples(folder)}, as_json, _print_copies)


def _print_copies(facts: Facts) -> None:
    folder = facts["folder"]
    print_line(f"{folder}: {len(facts['files'])} files in models and samples")
    print_line("Try:" if folder == "." else f"Try in {os.path.normpath(folder)}:")
    print_line(
        "    winml-py run models/digits.onnx samples/pictures/seven.png --labels models/digits.labels.txt --top-k 3"
    )


def copy_examples(folder: str | os.PathLike[str]) -> list[str]:
    """Copies the examples into a folder, which is created if it is missing.

    If a file with other content is in the way, nothing is written; a file with the same content stays as it is.

    Returns:
        The paths of the copies relative to `folder`, with `/` as separator, in order.

    Raises:
        StorageExistsError: a file with other content has the name of an example.
        StorageAccessError: a file or a folder cannot be written.
        StorageNotFoundError: this installation has no examples.
    """
    root, target = find_examples(), Path(folder)
    files = {path.relative_to(root): path.read_bytes() for pattern in _PATTERNS for path in root.glob(pattern)}
    missing = []
    for path in sorted(files):
        with translate_write_errors(target / path):
            if not (target / path).exists():
                missing.append(path)
            elif (target / path).read_bytes() != files[path]:
                raise StorageExistsError(
                    f"{target / path}: This file exists and differs from the example of the same name.",
                    hint="Specify another folder, or move the file.",
                )
    for path in missing:
        with translate_write_errors(target / path):
            (target / path).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target / path, files[path])
    return [path.as_posix() for path in sorted(files)]
