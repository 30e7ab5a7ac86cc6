"""Whether a model gives the answers that are known of its samples; and the outputs of an evaluation as arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...enums import Precision
from ...errors import InvalidArgumentError, WinMLError
from ..base.agreement import HALF_TOLERANCE, as_numpy
from ..base.arrays import Array
from ..evaluation.evaluation import LearningModelBinding
from ..features.descriptors import ShapedDescriptor
from ..features.tensor_classes import TENSOR_CLASSES
from ..model.known_answers import AnswerCheck, KnownAnswer, ModelCheck, read_answers
from ..model.model import LearningModel
from ..runtime.device import LearningModelDevice
from .options import LearningModelSessionOptions
from .session import LearningModelSession


def check_model(
    model: LearningModel, device: LearningModelDevice | None = None, engine: str | None = None
) -> ModelCheck:
    """What `LearningModel.check` does, and raises."""
    options = LearningModelSessionOptions()
    options.engine = engine
    options.batch_size_override = 0  # an array of a sample may be a batch
    answers = require_answers(model)
    with LearningModelSession(model, device, options) as session:
        return check_session(session, answers)


def require_answers(model: LearningModel) -> tuple[KnownAnswer, ...]:
    """The samples that a model carries.

    Raises:
        InvalidArgumentError: it carries none, or they cannot be read.
    """
    answers = read_answers(model.metadata)
    if not answers:
        raise InvalidArgumentError(
            "The model carries no samples whose answers are known.",
            hint="Write some: winml-py contract MODEL --sample PICTURE --output NEW.",
        )
    return answers


def check_session(session: LearningModelSession, answers: Sequence[KnownAnswer]) -> ModelCheck:
    """Evaluates samples with a session, and says what differs."""
    checks = tuple(_check(session, known) for known in answers)
    return ModelCheck(session.device.name, session.engine, session.precision, checks)


def _check(session: LearningModelSession, known: KnownAnswer) -> AnswerCheck:
    """Evaluates a sample with a session. Half precision has a tolerance of its own, which is larger."""
    sample, names = str(known), {feature.name for feature in session.model.input_features}
    if names != known.inputs.keys():
        told = f"the sample was taken of a model with the inputs {', '.join(known.inputs)}"
        return AnswerCheck(sample, (told,), math.inf)
    try:
        came = outputs_as_arrays(session, {name: value.value() for name, value in known.inputs.items()})
    except WinMLError as error:
        return AnswerCheck(sample, (f"it cannot be evaluated: {error}",), math.inf)
    floor = HALF_TOLERANCE if session.precision is Precision.HALF else 0.0
    problems, notes, largest = list[str](), list[str](), 0.0
    for output in known.outputs:
        if output.name in came:
            difference, told = output.compare(came[output.name], floor)
            notes += filter(None, [] if told else [output.note(came[output.name], floor)])
        else:
            difference, told = math.inf, f"there is no output {output.name} any more"
        largest = max(largest, difference)
        problems += [told] if told else []
    return AnswerCheck(sample, tuple(problems), largest, tuple(notes))


def outputs_as_arrays(session: LearningModelSession, inputs: Mapping[str, object]) -> dict[str, Array]:
    """Evaluates once. Outputs that are lists and maps become an array for each place in them."""
    return {name: array for key, value in evaluate_by(session, inputs).items() for name, array in _arrays(key, value)}


def evaluate_by(session: LearningModelSession, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluates a session once.

    Args:
        session: with what.
        inputs: a value for each input, by name; batches of any size.

    Returns:
        The outputs by name: arrays of their own, also where an output is a picture, and lists and dicts of what other
        outputs hold.
    """
    binding = LearningModelBinding(session)
    for name, value in inputs.items():
        binding.bind(name, value)
    for feature in session.model.output_features:
        # As a picture, an output would be rounded to bytes, which hides small differences.
        if feature.name in inputs or not isinstance(feature, ShapedDescriptor):  # an input may be an output, too
            continue
        if feature.tensor_kind in TENSOR_CLASSES:
            binding.bind(feature.name, TENSOR_CLASSES[feature.tensor_kind].create())
    return {name: as_numpy(value) for name, value in session.evaluate(binding).outputs.items()}


KEYS = ", keys"
"""What follows a map's name in the name of its keys."""


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Array]]:
    if isinstance(value, list):
        for index, element in enumerate(value):
            yield from _arrays(f"{name}[{index}]", element)
    elif isinstance(value, Mapping):
        keys = sorted(value)
        yield name, np.array([value[key] for key in keys])
        yield f"{name}{KEYS}", np.array(keys, object)
    else:
        yield name, np.asarray(value)
