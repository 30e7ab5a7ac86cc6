"""A folder that somebody published: its model, its files, and what they state. Nothing outside is read, and nothing too
large. The readers of its layouts are in `files.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from glob import glob
from typing import Any, NamedTuple

from ...errors import InvalidArgumentError, ModelNotFoundError, WinMLError
from ..base.arguments import suggest_path
from ..base.atomic_files import has_other_drive
from ..base.messages import find_similar
from .config import Config, read_config


class Published(NamedTuple):
    """What a folder states of its model.

    Attributes:
        folder: its path.
        parts: the value of each part.
        sources: the file that each part is from, by its path in the folder, and "model".
        refusal: why a file does not state the contract; None if none was tried in vain.
    """

    folder: str
    parts: Mapping[str, Any]
    sources: Mapping[str, str]
    refusal: WinMLError | None = None


NOTHING = Published("", {}, {})
"""Of a model that is not from a folder."""


MAX_BYTES = 1 << 24
"""The most bytes of a file that is read whole. The largest real ones hold the characters of a text reader: 200 kB."""

ANY_SIZE = 1 << 62
"""For files that are not read whole."""


class SeveralModelsError(ModelNotFoundError, InvalidArgumentError):
    """A folder has several models, and none is named."""

    hresult = InvalidArgumentError.hresult


class Folder:
    """The files of a folder. Its methods raise InvalidArgumentError for files that lead out of it or are too large.

    A snapshot in the cache of Hugging Face has links to the folder `blobs` next to all snapshots, which belongs to it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(path)
        root = os.path.realpath(self.path)
        above, parent = os.path.split(os.path.dirname(root))
        roots = [root, os.path.join(above, "blobs")] if parent == "snapshots" else [root]
        self._roots = tuple(os.path.normcase(os.path.join(root, "")) for root in roots)

    def find(self, name: str, largest: int = MAX_BYTES) -> str:
        """The path to a file; "" if there is none."""
        path = os.path.join(self.path, name.replace("\0", ""))
        leads_out = has_other_drive(name, self.path)
        if not leads_out:
            real = os.path.realpath(path)
            if not os.path.isfile(real):
                return ""
            leads_out = not os.path.normcase(real).startswith(self._roots)
        if leads_out:
            raise InvalidArgumentError(f"{path}: The file is outside the folder.", hint="Copy it into the folder.")
        if (size := os.path.getsize(path)) > largest:
            raise InvalidArgumentError(f"{path}: Expected at most {largest:,} bytes, got {size:,}.")
        return path

    def read_config(self, name: str) -> Config:
        """The path to a file, and its values if it is JSON or YAML; no values if there is no such file."""
        is_config = name.endswith((".json", ".yml", ".yaml"))
        path = self.find(name, MAX_BYTES if is_config else ANY_SIZE)
        return read_config(path) if path and is_config else Config(path, {})


_VARIANT = re.compile(r"(.+)[_.-](fp16|float16|half|q?u?int8\w*|q4\w*|q8|bnb4|quant(ized)?|qdq|optimized|O[1-4])")


def find_model(source: str | os.PathLike[str], file: str = "") -> str:
    """The path to the model in a folder; a path that is no folder as it is.

    The model is the only .onnx file of the folder, or else of its folder `onnx`. Files that are named after another
    one, such as model_fp16.onnx next to model.onnx, do not count.

    Raises:
        ModelNotFoundError: there is none.
        SeveralModelsError: there are several.
        InvalidArgumentError: the file is outside of the folder.
    """
    path = os.fsdecode(source)
    if not file and not os.path.isdir(path):
        return path
    if os.path.isfile(path):
        raise InvalidArgumentError(f"{path}: Expected a folder with {file}, got a file.", hint="Omit file=.")
    if not os.path.isdir(path):
        raise ModelNotFoundError(f"{path}: The folder does not exist.", hint=suggest_path(path))
    names = sorted([file] if file else glob("*.onnx", root_dir=path) or glob("onnx/*.onnx", root_dir=path))
    stems = {name.removesuffix(".onnx") for name in names}
    plain = [stem for stem in stems if not ((match := _VARIANT.fullmatch(stem)) and match[1] in stems)]
    if len(plain) > 1:
        raise SeveralModelsError(
            f"{path}: Expected one model in this folder, got {', '.join(names)}.",
            hint=f'Choose one: {os.path.join(path, names[0])}, or LearningModel.load(folder, file="{names[0]}").',
        )
    model = Folder(path).find(file or f"{plain[0]}.onnx", ANY_SIZE) if plain else ""
    if not model:
        names = [*glob("*.onnx", root_dir=path), *glob("*/*.onnx", root_dir=path)]
        found = sorted(name.replace(os.sep, "/") for name in names)
        message = f"no {file} in this folder" if file else "no .onnx file in this folder or in its onnx folder"
        hint = "Export the model to ONNX, or pass another folder."
        if found:
            closest = find_similar(file, found)
            found.sort(key=lambda name: name != closest)
            hint = f'It contains {", ".join(found[:5])}. To load one, pass its name, for example file="{found[0]}".'
        raise ModelNotFoundError(f"{path}: There is {message}.", hint=hint)
    return model
