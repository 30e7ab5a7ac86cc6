"""The `onnx.backend` interface, judged by ONNX's conformance suite."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from helpers.paths import MODELS
from tools import conformance
from winml_py import backend

pytestmark = pytest.mark.once


def test_what_passes_raw_passes_through_ours() -> None:
    total, raw, failures = conformance.judge()
    assert total > 1900
    assert len(raw) > 1300
    assert {name: failures[name] for name in raw if name in failures} == {}


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
