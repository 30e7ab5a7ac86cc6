"""The `onnx.backend` interface. ONNX's conformance suite judges it in tests/winml/test_winml_sessions.py."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from helpers.paths import MODELS
from winml_py import backend


def test_the_four_functions() -> None:
    path = MODELS / "digits.onnx"
    image = np.zeros((1, 1, 28, 28), np.float32)
    expected = backend.prepare(onnx.load(path)).run([image])[0]
    for inputs in (image, {"image": image}, [image]):
        np.testing.assert_array_equal(backend.run_model(str(path), inputs).probabilities, expected)
    node = helper.make_node("Add", ["a", "b"], ["c"])
    np.testing.assert_array_equal(backend.run_node(node, [np.float32([1, 2]), np.float32([3, 4])]).c, [4, 6])
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA:1")


def test_pictures_come_out_as_tensors() -> None:
    image = np.random.default_rng(0).random((1, 3, 5, 6), np.float32) * 255
    result = backend.run_model(str(MODELS / "invert.onnx"), [image]).result
    np.testing.assert_allclose(result, 255 - image, rtol=1e-5, atol=1e-4)
