"""Steps that make another model of one before its options are searched, and writing the model they led to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..core.base.atomic_files import write_whole, written_to, written_whole

NOTE_KEY = "winml_py.tuned"
"""The entry of a model's metadata that names the steps it went."""


class ModelStep(NamedTuple):
    """A way to make another model of one, with the same inputs and outputs.

    Attributes:
        words: what it is called.
        make: writes the new model: is given the path of the old one, the path to write to, and values of the inputs as
            arrays, by name. It raises a `WinMLError` where that cannot be done.
        is_half: whether the new model computes in float16.
    """

    words: str
    make: Callable[[str, str, Mapping[str, object]], object]
    is_half: bool = False


def write_model(source: str, destination: str, steps: Sequence[str] = ()) -> None:
    """Writes a model, with a note of the steps, if any, in its metadata; whole, or not at all.

    Args:
        source: its path. Weights that lie in a file beside it have the name that they have beside the destination.
        destination: the path to write to.
        steps: what was done to it.

    Raises:
        StorageAccessError: it cannot be written.
    """
    import onnx

    model = onnx.load(source, load_external_data=False)
    if steps:
        metadata = {entry.key: entry.value for entry in model.metadata_props} | {NOTE_KEY: ", ".join(steps)}
        onnx.helper.set_model_props(model, metadata)
    beside = f"{source}.data"
    if os.path.exists(beside):  # first: a model without its weights would be seen by other programs
        with (
            written_to(destination),
            open(beside, "rb") as weights,
            written_whole(f"{os.fspath(destination)}.data") as file,
        ):
            shutil.copyfileobj(weights, file)
    write_whole(destination, model.SerializeToString())
