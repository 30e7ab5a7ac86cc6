"""A session's results on seeded inputs, beside raw ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from helpers import reference
from helpers.models import TENSOR_CLASSES
from helpers.sessions import bind_all
from winml_py import ImageFeatureDescriptor, LearningModel, TensorFeatureDescriptor

SIDES = {"PP-OCRv6_det_small": 64, "PP-OCRv6_rec_small": 48, "ch_ppocr_mobile_v2.0_cls_mobile": 48}


def make_inputs(loaded: LearningModel, free: int) -> dict[str, Any]:
    """Seeded inputs for a model; free sides, except the batch, become `free`."""
    rng = np.random.default_rng(0)
    values = {}
    for feature in loaded.input_features:
        assert isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor))
        shape = [size if size >= 0 else (1 if axis == 0 else free) for axis, size in enumerate(feature.shape)]
        dtype = TENSOR_CLASSES[feature.tensor_kind].dtype
        floats = dtype.kind == "f"
        values[feature.name] = (rng.random(shape) if floats else rng.integers(0, 200, shape)).astype(dtype)
    return values


def require_raw_results(path: Path) -> None:
    """Evaluates a model, and compares its outputs with raw ONNX Runtime's to the last bit."""
    loaded = LearningModel.load(path)
    inputs = make_inputs(loaded, SIDES.get(path.stem, 16))
    expected = reference.run_raw(str(path), inputs)
    outputs = {  # as tensors, also where they are pictures
        feature.name: TENSOR_CLASSES[feature.tensor_kind].create()
        for feature in loaded.output_features
        if isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor))
    }
    session, binding = bind_all(path, **inputs, **outputs)
    found = session.evaluate(binding).outputs
    assert list(found) == list(expected)
    for name, value in expected.items():
        if isinstance(value, list):
            assert found[name] == value
        else:
            np.testing.assert_array_equal(np.asarray(found[name]), value, strict=True)
