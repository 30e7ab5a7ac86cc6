"""The files that `winml-py run --output` writes."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ..core.base.atomic_files import require_folder, written_whole
from ..core.base.numpy_values import as_numpy
from ..core.features.pictures import ImageFeatureValue
from .failures import OUTPUT, Failure, failures
from .output_files import require_no_input
from .style import say
from .tensor_pictures import tensor_picture

if TYPE_CHECKING:
    from PIL.Image import Image


def folders_of(output: str | None, models: Sequence[str]) -> list[str | None]:
    """Where the outputs of each model go: of several models, each has a folder of its name in the folder."""
    if output is None or len(models) == 1:
        return [output] * len(models)
    if not _is_folder(output):
        raise _not_one_file(output, len(models), "models")
    return [os.path.join(output, stem, "") for stem in _stems(models, "models")]


def targets_of(output: str | None, labels: Sequence[str]) -> list[str]:
    """Where the outputs of each input go, or "". A file in a folder is named when it is known what it holds."""
    if output is None:
        return [""] * len(labels)
    if not _is_folder(output):
        if len(labels) > 1:
            raise _not_one_file(output, len(labels), "inputs")
        with failures(OUTPUT):
            require_folder(output)
        return [output]
    stems = _stems(labels, "inputs")
    with failures(OUTPUT):
        os.makedirs(output, exist_ok=True)
    return [os.path.join(output, f"{stem}.*") for stem in stems]


def _not_one_file(output: str, count: int, kind: str) -> click.UsageError:
    folder = os.path.splitext(output)[0]
    return click.UsageError(f"{output}: There are {count} {kind}, so --output takes a folder: {folder}/")


def _is_folder(path: str) -> bool:
    return path.endswith(("/", os.sep)) or os.path.isdir(path)


def _stems(paths: Sequence[str], kind: str) -> list[str]:
    """The names of the files without their endings; no two are the same."""
    stems = [os.path.splitext(os.path.basename(path))[0] for path in paths]
    twice = next((stem for stem in stems if stems.count(stem) > 1), None)
    if twice is not None:
        raise click.UsageError(f"Two {kind} are named {twice}, so their outputs would be one file.")
    return stems


def write(target: str, outputs: Mapping[str, Any], draw: Callable[[], Image] | None, inputs: Iterable[str]) -> str:
    """Writes what was found on the picture, the first picture that was given, or all arrays.

    Args:
        target: the path of a file, or `FOLDER/NAME.*`.
        outputs: what the model gave.
        draw: draws what was found; None where nothing can be drawn.
        inputs: files that must not be overwritten.

    Returns:
        The path of the file.
    """
    pictures = [value for value in outputs.values() if isinstance(value, ImageFeatureValue)]
    ending = "png" if pictures or draw else "npz"
    path = target.removesuffix("*") + ending if target.endswith(".*") else target
    require_no_input(path, inputs)
    with failures(OUTPUT):
        if path.endswith(".npz"):
            _save_arrays(path, {name: as_numpy(value) for name, value in outputs.items()})
        elif draw:
            ImageFeatureValue.from_pil(draw()).save(path)
        elif pictures:
            pictures[0].save(path)
        else:
            _save_tensor(path, outputs)
    return path


def _save_tensor(path: str, outputs: Mapping[str, Any]) -> None:
    """Writes an output that is a picture as a plain tensor, and says what its numbers were taken for."""
    found = tensor_picture(outputs)
    if found is None:
        raise Failure(f"{path}: The model gives no picture that could be written here. Use a .npz file.", OUTPUT)
    found.bitmap.save(path)
    words = found.contract.describe()
    say(f"{path}: The output {found.name} is a tensor, and was written as a picture: {words}.", is_error=True)


def _save_arrays(path: str, outputs: Mapping[str, Any]) -> None:
    """Writes what `numpy.load` reads. `numpy.savez` would refuse an output that is named like its parameters."""
    with written_whole(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in outputs.items():
            if isinstance(array, np.ndarray):
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    words = array.astype(str) if array.dtype == object else array
                    np.lib.format.write_array(member, words, allow_pickle=False)
