"""Evaluating a model for a comparison: every output as the numbers that the model gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.base.numpy_values import as_numpy
from ..core.evaluation.binding import LearningModelBinding
from ..core.features.descriptors import ImageFeatureDescriptor, TensorFeatureDescriptor
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.model.model import LearningModel
from ..core.model.operators import ModelOperators, Operators
from ..core.session.session import LearningModelSession
from . import trial


def evaluated(model: LearningModel, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluates a model once, on the CPU.

    Args:
        model: what to evaluate.
        inputs: a value for each input, by name; batches of any size.

    Returns:
        The outputs by name: arrays of their own, also where an output is a picture, and lists and dicts of what other
        outputs hold.
    """
    with LearningModelSession(model) as session:
        return evaluated_by(session, inputs)


def evaluated_apart(source: bytes | str, operators: ModelOperators, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluates a model that nobody has compiled before, in a process of its own.

    Args:
        source: the model's bytes, or its path.
        operators: of the program's own. With functions among them, which another process may not have, it is evaluated
            here.
        inputs: as for `evaluated`.

    Raises:
        ProcessEndedError: the runtime ended that process.
    """
    if operators.functions:
        return _evaluated_source(source, operators.given, inputs)
    return trial.call(_evaluated_source, source, operators.libraries, dict(inputs))


def _evaluated_source(source: bytes | str, operators: Operators, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return evaluated(LearningModel.load(source, operators=operators), inputs)


def evaluated_by(session: LearningModelSession, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluates a session once; takes and returns what `evaluated` does."""
    binding = LearningModelBinding(session)
    for name, value in inputs.items():
        binding.bind(name, value)
    for feature in session.model.output_features:
        if feature.name not in inputs and isinstance(feature, TensorFeatureDescriptor | ImageFeatureDescriptor):
            binding.bind(feature.name, TENSOR_CLASSES[feature.tensor_kind].create())
    return {name: as_numpy(value) for name, value in session.evaluate(binding).outputs.items()}
