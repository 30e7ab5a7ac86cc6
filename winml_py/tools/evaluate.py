"""Evaluating a model for a comparison: every output as the numbers that the model gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.numpy_values import as_numpy
from ..features.descriptors import ImageFeatureDescriptor, TensorFeatureDescriptor
from ..features.tensor_classes import TENSOR_CLASSES
from ..session.binding import LearningModelBinding
from ..session.model import LearningModel
from ..session.session import LearningModelSession


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


def evaluated_by(session: LearningModelSession, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluates a session once; takes and returns what `evaluated` does."""
    binding = LearningModelBinding(session)
    for name, value in inputs.items():
        binding.bind(name, value)
    for feature in session.model.output_features:
        if feature.name not in inputs and isinstance(feature, TensorFeatureDescriptor | ImageFeatureDescriptor):
            binding.bind(feature.name, TENSOR_CLASSES[feature.tensor_kind].create())
    return {name: as_numpy(value) for name, value in session.evaluate(binding).outputs.items()}
