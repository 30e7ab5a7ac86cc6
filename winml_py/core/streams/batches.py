"""Batches: the values of several items as one, and each item's part of the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...errors import E_FAIL, EvaluationError, InvalidArgumentError, InvalidBindingError
from ..base.type_names import type_name
from ..features.containers import as_tensor
from ..features.conversion import as_picture
from ..features.descriptors import FeatureDescriptor, ImageFeatureDescriptor, TensorFeatureDescriptor
from ..features.pictures import ImageFeatureValue
from ..features.tensor import Tensor, over
from ..imaging.frame import VideoFrame


def joined(values: Sequence[Any]) -> Any:
    """The values of several items as one: pictures in a list, tensors end to end.

    Raises:
        InvalidBindingError: one is neither.
    """
    pictures = [as_picture(value) for value in values]
    if all(picture is not None for picture in pictures):
        return [frame for picture in pictures if picture is not None for frame in picture.video_frames]
    return np.concatenate([_array(value) for value in values])


def _array(value: Any) -> np.ndarray[Any, Any]:
    tensor = as_tensor(value)
    if tensor is None:
        raise InvalidBindingError(f"{type_name(value)} cannot be part of a batch.", hint="Bind arrays or pictures.")
    return tensor.to_numpy()


def count(value: Any) -> int:
    """How many entries of a batch a value is."""
    picture = as_picture(value)
    return len(picture.sizes) if picture is not None else len(_array(value))


def split(name: str, value: Any, counts: Sequence[int]) -> list[Any]:
    """Each item's part of an output.

    Raises:
        EvaluationError: it has no entry for each of a batch.
    """
    starts = np.cumsum([0, *counts])
    if isinstance(value, list) and all(isinstance(frame, VideoFrame) for frame in value) and len(value) == starts[-1]:
        return [ImageFeatureValue(value[start:end]) for start, end in pairwise(starts)]
    if isinstance(value, Tensor) and value.shape and value.shape[0] == starts[-1]:
        array, kind = value.to_numpy(), type(value)
        return [over(kind, array[start:end]) for start, end in pairwise(starts)]
    raise EvaluationError(
        f"The output {name} cannot be told apart by items.", hint="Evaluate without batch.", hresult=E_FAIL
    )


def require_free_batch(feature: FeatureDescriptor) -> None:
    """Refuses a model that takes or gives batches of one size.

    Raises:
        InvalidArgumentError: the first size of the feature is not free.
    """
    shape = feature.shape if isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor)) else ()
    if not shape or shape[0] != -1:
        raise InvalidArgumentError(
            f"Items cannot be batched: the first size of {feature.name} ({feature.expects()}) is not free.",
            hint="Leave batch out, or export the model with a free batch dimension.",
        )
