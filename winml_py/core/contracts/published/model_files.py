"""The files that a model consists of, which an output must not replace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from glob import glob

from ....errors import InvalidArgumentError, WinMLError
from ...base.atomic_files import is_same_file
from ...onnx_file.source import FileSource
from .folder import SeveralModelsError, find_model
from .layouts import STATED_FILES


def find_model_files(source: str | os.PathLike[str]) -> Iterator[str]:
    """The model's file, those with its weights, and those in a published folder that state something of the model.

    Of a folder of several models, all models and their weights; of another file or folder, only its path.
    """
    path = os.fsdecode(source)
    models = [path]
    if os.path.isdir(path):
        try:
            models = [find_model(path)]
            yield from (os.path.join(path, name) for files in STATED_FILES for name in glob(files, root_dir=path))
        except SeveralModelsError:
            models = [os.path.join(path, name) for name in glob("*.onnx", root_dir=path)]
        except WinMLError:  # a folder of pictures
            pass
    for model in models:
        yield model
        if os.path.isfile(model):  # a pipe would wait for its writer
            with suppress(WinMLError):  # no ONNX model
                opened = FileSource.open(model)[0]
                yield from (os.path.join(opened.folder, name) for name in opened.list_data_files())


def require_another_file(destination: str | os.PathLike[str], *sources: str | os.PathLike[str]) -> None:
    """Raises InvalidArgumentError if a new file would replace one that it is made from, by whatever path or link."""
    if os.path.exists(destination) and any(
        is_same_file(destination, file) for source in sources for file in find_model_files(source)
    ):
        raise InvalidArgumentError(
            f"{os.fspath(destination)}: The new file is made from this one, and would replace it.",
            hint="Use another file, or pass force=True to replace it.",
        )
