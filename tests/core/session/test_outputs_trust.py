"""Outputs that would be wrong in silence: bound to one memory, or of an element type that has no tensor class."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from helpers.models import data, tensor, unary
from winml_py import (
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    NotSupportedError,
    TensorFloat,
)


def three_outputs() -> LearningModelSession:
    nodes = [
        helper.make_node(operator, ["x"], [name]) for operator, name in (("Neg", "a"), ("Abs", "b"), ("Sqrt", "c"))
    ]
    return LearningModelSession(
        LearningModel.load(data(nodes, [tensor("x", [2])], [tensor(name, [2]) for name in "abc"]))
    )


@pytest.mark.parametrize("is_view", [False, True])
def test_two_outputs_of_one_memory_are_refused(is_view: bool) -> None:
    session = three_outputs()
    binding = LearningModelBinding(session)
    binding.bind("x", np.float32([1, 4]))
    memory = np.zeros(3, np.float32)
    binding.bind("a", memory[:2])
    binding.bind("b", memory[1:] if is_view else memory[:2])
    with pytest.raises(InvalidBindingError, match="outputs a and b are bound to the same memory"):
        session.evaluate(binding)
    assert memory.tolist() == [0, 0, 0]
    binding.bind("b", np.zeros(2, np.float32))
    outputs = session.evaluate(binding).outputs
    assert [outputs[name].tolist() if name in "ab" else outputs[name].to_numpy().tolist() for name in "abc"] == [
        [-1, -4],
        [1, 4],
        [1, 2],
    ]


BUFFER, LIST, EMPTY = bytearray(8), [], TensorFloat.create()


@pytest.mark.parametrize(
    "both", [([BUFFER], [BUFFER]), (np.frombuffer(BUFFER, np.float32), [BUFFER]), (LIST, LIST), (EMPTY, EMPTY)]
)
def test_two_outputs_of_one_buffer_list_or_tensor_are_refused(both: tuple[object, object]) -> None:
    binding = LearningModelBinding(three_outputs())
    for name, value in zip("xab", (np.float32([1, 4]), *both), strict=True):
        binding.bind(name, value)
    with pytest.raises(InvalidBindingError, match="outputs a and b are bound to the same memory"):
        binding._session.evaluate(binding)


def test_a_bind_that_fails_hides_no_memory() -> None:
    """What was bound before is still written, and still counts."""
    session = three_outputs()
    binding = LearningModelBinding(session)
    binding.bind("x", np.float32([1, 4]))
    memory = np.zeros(2, np.float32)
    binding.bind("a", memory)
    with pytest.raises(InvalidBindingError):
        binding.bind("a", np.zeros(2, np.int64))
    binding.bind("b", memory)
    with pytest.raises(InvalidBindingError, match="same memory"):
        session.evaluate(binding)


def test_outputs_may_swap_their_arrays() -> None:
    session = three_outputs()
    binding = LearningModelBinding(session)
    binding.bind("x", np.float32([1, 4]))
    one, other = np.zeros(2, np.float32), np.zeros(2, np.float32)
    for first, second in ((one, other), (other, one)):
        binding.bind("a", first)
        binding.bind("b", second)
        session.evaluate(binding)
        assert (first.tolist(), second.tolist()) == ([-1, -4], [1, 4])


def test_an_array_that_is_unbound_again_is_no_obstacle() -> None:
    session = three_outputs()
    binding = LearningModelBinding(session)
    binding.bind("x", np.float32([1, 4]))
    memory = np.zeros(2, np.float32)
    binding.bind("a", memory)
    session.evaluate(binding)
    binding.bind("a", TensorFloat.create())
    binding.bind("b", memory)
    session.evaluate(binding)
    assert memory.tolist() == [1, 4]


@pytest.mark.parametrize(
    "kind", [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.BFLOAT16, TensorProto.INT4]
)
def test_an_output_that_numpy_lacks_is_refused_and_not_given_as_bytes(kind: int) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=kind)
    y = helper.make_tensor_value_info("y", kind, [2])
    session = LearningModelSession(LearningModel.load(data([node], [tensor("x", [2])], [y], opset=21)))
    with pytest.raises(
        NotSupportedError, match=r"output y has an element type.* float32|No corresponding Numpy type.* float32"
    ):
        session.evaluate_features({"x": np.float32([1, 4])})


@pytest.mark.parametrize(
    ("operator", "kind"), [("Relu", TensorProto.BFLOAT16), ("GlobalAveragePool", TensorProto.DOUBLE)]
)
def test_an_element_type_without_a_kernel_says_what_to_do(operator: str, kind: int) -> None:
    model = LearningModel.load(unary(operator, [1, 1, 2], kind))
    with pytest.raises(NotSupportedError, match=rf"implementation for {operator}.* cast to float32 in the model"):
        LearningModelSession(model)
