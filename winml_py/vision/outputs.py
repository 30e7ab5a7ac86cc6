"""What the readers of answers share: the arrays of a result, its labels, and the placement of its picture."""

from __future__ import annotations

import numpy as np

from ..core.base.arguments import Labels, require_type, require_whole_number
from ..core.base.arrays import Array
from ..core.contracts.labels import require_labels
from ..core.imaging.picture_placement import PicturePlacement
from ..core.session.result import LearningModelEvaluationResult, read_numbers
from ..errors import EvaluationError, InvalidArgumentError


def choose_labels(result: LearningModelEvaluationResult, labels: Labels) -> tuple[str, ...]:
    """The caller's labels, or else the model's."""
    return require_labels(labels) or result.labels


def read_arrays(result: LearningModelEvaluationResult, output: str | None = None) -> dict[str, Array]:
    """The outputs that are arrays of numbers, or the one with a name, by name: views. Refuses an unknown name."""
    outputs = result.outputs
    if output is not None and output not in outputs:
        raise InvalidArgumentError(f"The model has no output {output!r}.", hint=f"Its outputs: {', '.join(outputs)}.")
    arrays = {name: read_numbers(result, name) for name in (outputs if output is None else (output,))}
    return {name: array for name, array in arrays.items() if array is not None and array.dtype.kind in "fiub"}


def read_floats(result: LearningModelEvaluationResult) -> dict[str, Array]:
    """Those of `read_arrays` that are tensors of floats, as float32: views where they are float32 already."""
    arrays = read_arrays(result)
    return {name: np.asarray(array, np.float32) for name, array in arrays.items() if array.dtype.kind == "f"}


def require_finite(array: Array) -> None:
    """Refuses numbers that are NaN or infinite: EvaluationError."""
    if not np.isfinite(array).all():
        raise EvaluationError("The model returned values that are not finite.", hint="Check the picture's contract.")


def find_placement(
    result: LearningModelEvaluationResult, picture: int, placement: PicturePlacement | None
) -> PicturePlacement:
    """Where a picture of the batch lay in the tensor."""
    require_type(result, LearningModelEvaluationResult, "Pass the result of session.evaluate(binding).")
    require_whole_number(picture, "The index of the picture")
    if placement is not None:
        return placement
    placements = result.placements
    if len(placements) != 1:
        what = "No picture was bound" if not placements else f"Pictures were bound to {', '.join(placements)}"
        raise InvalidArgumentError(
            f"{what}, so the position of the picture in the tensor is unknown.",
            hint="Bind a picture, or pass placement=..., such as binding.placements[name][0].",
        )
    batch = next(iter(placements.values()))
    if not 0 <= picture < len(batch):
        raise InvalidArgumentError(f"Index {picture} is out of range: the batch has {len(batch)} pictures.")
    return batch[picture]


def select_picture(array: Array, picture: int) -> Array:
    """An output's values for one picture of a batch: a view."""
    if not 0 <= picture < len(array):
        raise InvalidArgumentError(f"Index {picture} is out of range: the batch has {len(array)} pictures.")
    return np.asarray(array[picture])
