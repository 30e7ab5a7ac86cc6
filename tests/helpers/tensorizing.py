"""Pictures to tensors and back, in one call: by models whose answer is what they are given."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from onnx import helper

from helpers.models import data, tensor
from winml_py import (
    BitmapBounds,
    ImageContract,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    SoftwareBitmap,
    TensorKind,
)

Array = np.ndarray[Any, Any]


@cache
def open_identity(shape: tuple[int, ...], dtype: Any, output: ImageContract | None = None) -> LearningModelSession:
    """Opens a session of x -> y, which is a picture where it has a contract."""
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [tensor("x", shape, element)], [tensor("y", shape, element, "IMAGE" if output else "")]
    node = helper.make_node("Identity", ["x"], ["y"])
    return LearningModelSession(
        LearningModel.load(data([node], *ends, metadata=output.to_metadata() if output else {}))
    )


def tensorize(
    picture: SoftwareBitmap, contract: ImageContract, out: Array, bounds: BitmapBounds | None = None
) -> LearningModelBinding:
    """Writes the tensor of a picture into an array; gives the binding, which can take another picture."""
    session = open_identity((1, *out.shape), out.dtype)
    binding = LearningModelBinding(session)
    if out.dtype == np.uint8:
        contract = replace(contract, tensor_kind=TensorKind.UINT8)
    binding.bind("x", picture, {"ImageContract": contract, "BitmapBounds": bounds})
    binding.bind("y", out[None])
    session.evaluate(binding)
    return binding


def detensorize(numbers: Array, contract: ImageContract, picture: SoftwareBitmap) -> None:
    """Writes the picture of a tensor into a picture."""
    session = open_identity((1, *numbers.shape), numbers.dtype, contract)
    session.evaluate_features({"x": np.ascontiguousarray(numbers)[None], "y": picture})
