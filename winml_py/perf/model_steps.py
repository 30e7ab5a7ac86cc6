"""Steps that make another model of one before its options are searched, and writing the model they led to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..core.base.atomic_files import written_to, written_whole


class ModelStep(NamedTuple):
    """A way to make another model of one, with the same inputs and outputs.

    Attributes:
        words: what it is called.
        make: is given the path of the old model, the path to write to, and values of the inputs as arrays, by name. It
            raises a `WinMLError` where that cannot be done.
        is_half: whether the new model computes in float16.
    """

    words: str
    make: Callable[[str, str, Mapping[str, object]], object]
    is_half: bool = False


def write_model(source: str, destination: str) -> None:
    """Copies a model and the weights beside it, if any; each file whole, or not at all.

    Raises:
        StorageAccessError: it cannot be written.
    """
    for ending in (".data", ""):  # the weights first: a model without them would be seen by other programs
        if os.path.exists(source + ending):
            with (
                written_to(destination),
                open(source + ending, "rb") as old,
                written_whole(destination + ending) as new,
            ):
                shutil.copyfileobj(old, new)
