"""`winml-py examples`: copy the models, pictures and programs of the documentation's examples."""

from __future__ import annotations

import os

import click

from .._inputs.example_files import copy_examples
from ..core.base.messages import Facts
from .arguments import json_option
from .style import emit, say


@click.command()
@click.argument("folder", type=click.Path(), default=".")
@json_option
def examples(folder: str, as_json: bool) -> None:
    """Copy the files of the documentation's examples to FOLDER.

    Models go to FOLDER/models, programs and pictures to FOLDER/samples. FOLDER is the current folder by default, and is
    created if it is missing. If a file of yours has the name of an example, it stays, and nothing is copied.
    """
    emit({"folder": folder, "files": copy_examples(folder)}, as_json, _print)


def _print(facts: Facts) -> None:
    folder = facts["folder"]
    say(f"{folder}: {len(facts['files'])} files in models and samples")
    say("Try:" if folder == "." else f"Try in {os.path.normpath(folder)}:")
    say("    winml-py run models/digits.onnx samples/pictures/seven.png --labels models/digits.labels.txt --top-k 3")
