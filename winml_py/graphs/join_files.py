"""Joining two model files, with a check of the results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..core.base.agreement import FLOAT_TOLERANCE, compare_outputs
from ..core.base.atomic_files import require_folder
from ..core.features.example_inputs import example_inputs
from ..core.model.model import LearningModel
from ..errors import ConversionError
from ..inputs.files import given_values
from ..inputs.model import evaluated
from .join import LearningModelJoinOptions, joined
from .model_file import save_model


@dataclass(frozen=True)
class JoinReport:
    """What a join made.

    Attributes:
        inputs: the names of the joined model's inputs.
        outputs: those of its outputs.
        error: the largest difference of an output from what the two models give one after the other, over the largest
            magnitude of its channel.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    error: float

    def to_json(self) -> dict[str, Any]:
        """The figures."""
        return asdict(self)

    def __str__(self) -> str:
        names = f"{', '.join(self.inputs)} -> {', '.join(self.outputs)}"
        return f"{names}; the results of the two models differ from it by {self.error:.1e}"


def join_files(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    out: str | os.PathLike[str],
    options: LearningModelJoinOptions,
    *,
    inputs: Sequence[str] = (),
    tolerance: float = FLOAT_TOLERANCE,
) -> JoinReport:
    """Writes a model that evaluates two, one after the other, once its results were compared with theirs.

    Args:
        first: the path of the model that comes first.
        second: the path of the model that comes after it.
        out: the path to write to; above 2 GB, the weights go to a file beside it.
        options: which outputs become inputs.
        inputs: files to compare with, as `winml-py run` takes them, by the names of the joined model's inputs; floats
            and pictures that are not given get example values.
        tolerance: the largest difference in an output, over its largest magnitude.

    Returns:
        What it takes and gives, and how far its results are from those of the two models.

    Raises:
        ConversionError: the results differ by more than the tolerance.
        InvalidArgumentError: a link names what is not there, or an input whose values cannot be made up.
        NotSupportedError: the operator sets or contracts cannot be brought together.
        WinMLError: a model cannot be used, or the file cannot be written.
    """
    require_folder(out)
    models = LearningModel.load_from_file_path(first), LearningModel.load_from_file_path(second)
    reports: list[JoinReport] = []
    save_model(
        joined(*models, options),
        out,
        lambda made: reports.append(_compared(*models, made, options, inputs, tolerance)),
    )
    return reports[0]


def _compared(
    first: LearningModel,
    second: LearningModel,
    made: LearningModel,
    options: LearningModelJoinOptions,
    inputs: Sequence[str],
    tolerance: float,
) -> JoinReport:
    values, _ = example_inputs(made.input_features, given_values(made, inputs))
    came = evaluated(made, values)
    in_order = [values[feature.name] for feature in made.input_features]
    expected = _one_after_the_other(first, second, options, in_order)
    agreement = compare_outputs(dict(zip(came, expected, strict=True)), came, tolerance)
    if not agreement.is_good:
        raise ConversionError(
            f"The joined model does not give what the two models give: {agreement}; nothing was written.",
            hint="Give inputs that the first model is meant for: NAME=FILE.npy.",
        )
    return JoinReport(tuple(feature.name for feature in made.input_features), tuple(came), agreement.error)


def _one_after_the_other(
    first: LearningModel, second: LearningModel, options: LearningModelJoinOptions, given: Sequence[Any]
) -> list[Any]:
    """The outputs of the joined model, in its order, from the two models; its inputs are in the order of theirs."""
    own = [feature.name for feature in first.input_features]
    outputs = evaluated(first, dict(zip(own, given, strict=False)))
    unlinked = [feature.name for feature in second.input_features if feature.name not in options.links]
    linked = {target: outputs[source] for target, source in options.links.items()}
    results = evaluated(second, dict(zip(unlinked, given[len(own) :], strict=True)) | linked)
    kept = [value for name, value in outputs.items() if name not in options.links.values()]
    return [*(kept if options.promote_unlinked_outputs_to_fused_outputs else []), *results.values()]
