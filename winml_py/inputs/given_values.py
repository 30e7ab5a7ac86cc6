"""Values for a check: what the user gives for a model's inputs, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.features.bind_properties import BindProperties
from ..core.features.descriptors import FeatureDescriptor
from ..core.features.pictures import ImageFeatureValue, bitmaps_of
from ..core.features.resolve import PictureFit, Pictures
from ..core.features.tensor_classes import TENSOR_CLASSES
from ..core.imaging.tensorize import BatchTensorizer
from ..core.model.missing_contracts import MissingContracts
from ..core.model.model import LearningModel
from .files import WrongInputsError, jobs, read

_PROPERTIES = BindProperties()


def given_values(model: LearningModel, inputs: Sequence[str]) -> dict[str, Any]:
    """The values of one evaluation, by the names of the inputs; pictures as the model's tensors.

    Args:
        model: whose inputs they are; contracts that are attached to it count.
        inputs: files, as `winml-py run` takes them; of several inputs, some may be missing.

    Raises:
        WrongInputsError: the files do not match the model's inputs, or are for several evaluations.
        WinMLError: a file cannot be used.
    """
    found = list(jobs(model, inputs, is_complete=False)) if inputs else []
    if len(found) > 1:
        raise WrongInputsError(f"Results are checked on one evaluation, and {len(found)} inputs came.")
    features = {feature.name: feature for feature in model.input_features}
    values = read(model, found[0][1]) if found else {}
    return {name: _array(features[name], value) for name, value in values.items()}


def _array(feature: FeatureDescriptor, value: Any) -> Any:
    """A picture as the tensor that bind makes of it; other values as they are."""
    if not isinstance(value, ImageFeatureValue):
        return value
    fit = PictureFit(value, feature, _PROPERTIES)
    MissingContracts(is_silent=False).tell(Pictures(value, fit), _PROPERTIES)
    tensor = np.zeros(fit.shape, TENSOR_CLASSES[fit.descriptor.tensor_kind].dtype)
    BatchTensorizer().write(bitmaps_of(value, 1), fit.contract, tensor, fit.placements)
    return tensor
