"""Each run reads what its inputs hold by then, on every provider, whether it has the device's memory or the host's.

No card was here: the runtime's session is a substitute that copies an input when it is bound, as runtimes do for a
device that has memory; see `helpers/providers.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper
from PIL import Image

from helpers.models import FLOAT, data, tensor, unary
from helpers.providers import PROVIDERS, Runtime, make_device, runtime
from helpers.sessions import open_session
from winml_py import LearningModelBinding, TensorFloat

__all__ = ["runtime"]  # a fixture

SHAPE = [1, 3, 4, 4]
NEGATED = data([helper.make_node("Neg", ["x"], ["y"])], [tensor("x", SHAPE, FLOAT, "IMAGE")], [tensor("y", SHAPE)])
"""A model of a picture whose output is numbers."""

by_provider = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)


def write_array() -> tuple[Any, Callable[[float], object]]:
    array = np.zeros(3, np.float32)
    return array, array.fill


def write_tensor() -> tuple[Any, Callable[[float], object]]:
    bound = TensorFloat.create((3,))
    return bound, bound.to_numpy().fill


@by_provider
@pytest.mark.parametrize("make", [write_array, write_tensor])
@pytest.mark.parametrize("has_output", [False, True])
def test_what_was_written_since_the_run_before(
    runtime: Runtime, provider: Any, make: Callable[[], tuple[Any, Callable[[float], object]]], has_output: bool
) -> None:
    session = open_session(unary("Neg", [3]), make_device(provider))
    binding, output = LearningModelBinding(session), np.zeros(3, np.float32)
    value, write = make()
    write(0)
    binding.bind("x", value)
    if has_output:
        binding.bind("y", output)
    for number in range(1, 4):
        write(number)
        result = session.evaluate(binding).outputs["y"]
        assert np.asarray(output if has_output else result.to_numpy()).tolist() == [-number] * 3


@by_provider
def test_another_picture_of_the_same_size(runtime: Runtime, provider: Any) -> None:
    session = open_session(NEGATED, make_device(provider))
    binding, output = LearningModelBinding(session), np.zeros(SHAPE, np.float32)
    binding.bind("y", output)
    for level in (10, 20, 30):
        binding.bind("x", Image.new("RGB", (4, 4), (level, level, level)))
        session.evaluate(binding)
        assert output.tolist() == np.full(SHAPE, -level, np.float32).tolist()
