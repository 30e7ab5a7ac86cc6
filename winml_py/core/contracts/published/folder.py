"""A folder that somebody published: its model, and its files. Nothing outside is read, and nothing too large."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence, Set
from glob import glob
from itertools import pairwise
from pathlib import Path
from typing import Any

from ....errors import InvalidArgumentError, ModelNotFoundError
from ...base.arguments import suggest_path
from ...base.atomic_files import has_other_drive
from ...base.messages import find_similar
from ..config import Config, make_config_error, read_config
from ..labels import labels_of

MAX_BYTES = 1 << 24
"""The most bytes of a file that is read whole. The largest real ones hold the characters of a text reader: 200 kB."""

ANY_SIZE = 1 << 62
"""For files that are not read whole."""


class SeveralModelsError(ModelNotFoundError, InvalidArgumentError):
    """A folder has several models, and none is named."""

    hresult = InvalidArgumentError.hresult


class Folder:
    """The files of a folder. Its methods raise InvalidArgumentError for files that lead out of it or are too large.

    A snapshot in the cache of Hugging Face has links to the folder `blobs` beside all snapshots, which belongs to it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(path)
        root = Path(os.path.realpath(self.path))
        self._roots = [root, root.parent.parent / "blobs"] if root.parent.name == "snapshots" else [root]

    def find(self, name: str, largest: int = MAX_BYTES) -> str:
        """The path of a file; "" if there is none."""
        path = os.path.join(self.path, name.replace("\0", ""))
        leads_out = has_other_drive(name, self.path)
        if not leads_out:
            real = os.path.realpath(path)
            if not os.path.isfile(real):
                return ""
            leads_out = not any(Path(real).is_relative_to(root) for root in self._roots)
        if leads_out:
            raise InvalidArgumentError(f"{path}: It leads out of the folder.", hint="Copy the file into the folder.")
        if (size := os.path.getsize(path)) > largest:
            raise InvalidArgumentError(f"{path}: Expected at most {largest:,} bytes, got {size:,}.")
        return path

    def read_config(self, name: str) -> Config:
        """The path of a file, and its values if it is JSON or YAML; no values if there is no such file."""
        is_config = name.endswith((".json", ".yml", ".yaml"))
        path = self.find(name, MAX_BYTES if is_config else ANY_SIZE)
        return read_config(path) if path and is_config else Config(path, {})


_VARIANT = re.compile(r"(.+)[_.-](fp16|float16|half|q?u?int8\w*|q4\w*|q8|bnb4|quant(ized)?|qdq|optimized|O[1-4])")


def find_model(source: str | os.PathLike[str], file: str = "") -> str:
    """The path of the model in a folder; a path that is no folder as it is.

    The model is the only .onnx file of the folder, or else of its folder `onnx`. Files that are named after another
    one, such as model_fp16.onnx beside model.onnx, do not count.

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
        raise ModelNotFoundError(f"{path}: There is no such folder.", hint=suggest_path(path))
    names = sorted([file] if file else glob("*.onnx", root_dir=path) or glob("onnx/*.onnx", root_dir=path))
    stems = {name.removesuffix(".onnx") for name in names}
    plain = [stem for stem in stems if not _is_variant(stem, stems)]
    if len(plain) > 1:
        raise SeveralModelsError(
            f"{path}: Expected one model in this folder, got {', '.join(names)}.",
            hint=f'Choose one: {os.path.join(path, names[0])}, or LearningModel.load(folder, file="{names[0]}").',
        )
    model = Folder(path).find(file or f"{plain[0]}.onnx", ANY_SIZE) if plain else ""
    if not model:
        names = [*glob("*.onnx", root_dir=path), *glob("*/*.onnx", root_dir=path)]
        found = sorted(Path(name).as_posix() for name in names)
        message = f"no {file} in this folder" if file else "no .onnx file in this folder, nor in its folder onnx"
        hint = "Export the model to ONNX, or name another folder."
        if found:
            closest = find_similar(file, found)
            found.sort(key=lambda name: name != closest)
            hint = f'It has {", ".join(found[:5])}: LearningModel.load(folder, file="{found[0]}").'
        raise ModelNotFoundError(f"{path}: There is {message}.", hint=hint)
    return model


def _is_variant(stem: str, stems: Set[str]) -> bool:
    match = _VARIANT.fullmatch(stem)
    return match is not None and match[1] in stems


Parts = tuple[tuple[str, str, str, Callable[[Config, Folder], Any]], ...]
"""What the files of a layout may state. Each part is a name, a file in the folder, a key, and a function.

The names are "contract", "labels", "metadata" (keys that the model's file lacks) and "answers" (the paths of inputs and
of outputs, for each). A config without the key is of another layout. The function takes the config, whose name is the
file's path, and the folder. Any error means that the file does not state it.
"""


def read_labels(config: Config, _: Folder) -> tuple[str, ...]:
    """The class names in a file of text, or in a config of Hugging Face or timm."""
    return labels_of(config.name)


def require_order(config: Config, steps: Iterable[str], order: Sequence[str]) -> None:
    """Refuses steps that come twice or in another order, because a contract has each of them once."""
    for step, following in pairwise(step for step in steps if step in order):
        if order.index(following) <= order.index(step):
            raise make_config_error(config.name, f"no contract is known to match the step {following} after {step}")


def format_numbers(numbers: Iterable[float]) -> str:
    """Numbers in the words of metadata."""
    return ",".join(f"{number:.17g}" for number in numbers)
