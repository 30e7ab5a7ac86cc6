"""`evaluate_features` on arrays: the same results and errors as with a binding, and nothing is left."""

from __future__ import annotations

import gc
import logging
import weakref
from contextlib import nullcontext
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from helpers import reference
from helpers.models import FLOAT16, INT64, data, tensor, unary
from helpers.sessions import open_session
from winml_py import (
    EvaluationError,
    ImageContract,
    InvalidArgumentError,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    LearningModelSessionOptions,
    SizeMismatchError,
    WinMLError,
)
from winml_py.errors import MissingInputError

SHAPE = (1, 3, 4, 5)


def two_inputs() -> bytes:
    """a + b -> y, and what goes in as a comes out, too."""
    node = helper.make_node("Add", ["a", "b"], ["y"])
    ends = [tensor(name, ["n", 3]) for name in "aby"]
    return data([node], ends[:2], [ends[2], ends[0]])


@pytest.fixture
def native_bindings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Counts the native bindings that are made."""
    counted: list[str] = []
    original = onnxruntime.InferenceSession.io_binding

    def count(self: onnxruntime.InferenceSession) -> onnxruntime.IOBinding:
        counted.append("made")
        return original(self)

    monkeypatch.setattr(onnxruntime.InferenceSession, "io_binding", count)
    return counted


FITTING = [
    (unary("Neg", [2, 3]), np.float32([[1, 2, 3], [4, 5, np.nan]])),
    (unary("Neg", ["n", 3]), np.ones((5, 3), np.float32)),
    (unary("Neg", ["n", 3]), np.ones((0, 3), np.float32)),
    (unary("Neg", []), np.array(2, np.float32)),
    (unary("Neg", [2], FLOAT16), np.float16([1, 65504])),
    (unary("Neg", [2], INT64), np.int64([1, -(1 << 60)])),
    (unary("Not", [2], TensorProto.BOOL), np.array([True, False])),
    (unary("Identity", SHAPE, denotation="IMAGE"), np.ones(SHAPE, np.float32)),
]


@pytest.mark.parametrize(("model", "array"), FITTING)
def test_arrays_that_fit_need_no_native_binding(
    model: bytes, array: np.ndarray[Any, Any], native_bindings: list[str]
) -> None:
    if b"IMAGE" in model:  # its output is a picture
        model = unary("Identity", SHAPE)
        session = open_session(model)
        session.model.contracts["x"] = ImageContract()
    else:
        session = open_session(model)
    array.flags.writeable = False
    result = session.evaluate_features({"x": array}, "an id")
    assert native_bindings == []
    (expected,) = reference.run_raw(model, {"x": array}).values()
    np.testing.assert_array_equal(result.outputs["y"].to_numpy(), expected)
    assert (result.correlation_id, result.succeeded, result.placements) == ("an id", True, {})


def test_only_bound_outputs_need_a_native_binding(native_bindings: list[str]) -> None:
    session = open_session(unary("Neg", ["n"]))
    binding, x, y = LearningModelBinding(session), np.float32([1, 2]), np.zeros(2, np.float32)
    binding.bind("x", x)
    came = []
    for number in range(4):
        if number == 2:
            binding.bind("y", y)
        x[0] = number
        result = session.evaluate(binding).outputs["y"]
        came.append((np.asarray(result).tolist(), len(native_bindings)))
    assert came == [([-0.0, -2], 0), ([-1, -2], 0), ([-2, -2], 1), ([-3, -2], 1)]
    binding.bind("x", np.float32([1, 2])[::-1])
    assert session.evaluate(binding).outputs["y"] is y
    assert y.tolist() == [-2, -1]
    assert len(native_bindings) == 1


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"a": np.ones((2, 3), np.float32)}, MissingInputError),
        ({"a": np.ones((2, 3), np.float32), "b": np.ones((2, 4), np.float32)}, SizeMismatchError),
        ({"a": np.ones((2, 3), np.float32), "b": np.ones((2, 3))}, InvalidBindingError),
        ([("a", 1)], InvalidArgumentError),
    ],
)
def test_the_second_call_knows_nothing_of_the_first(wrong: Any, error: type[WinMLError]) -> None:
    """An input that is missing stays missing, and what was refused is refused again."""
    session = open_session(two_inputs())
    good = {"a": np.ones((2, 3), np.float32), "b": np.ones((2, 3), np.float32)}
    for _ in range(2):
        assert session.evaluate_features(good).outputs["y"].to_numpy().tolist() == [[2] * 3] * 2
        with pytest.raises(error):
            session.evaluate_features(wrong)


def test_results_share_no_memory() -> None:
    """Neither with each other nor with what went in, also where an input is an output as well."""
    session, rng = open_session(two_inputs()), np.random.default_rng(0)
    given = [{name: rng.random((2, 3), np.float32) for name in "ab"} for _ in range(50)]
    results = [session.evaluate_features(features).outputs for features in given]
    arrays = [array for outputs in results for array in (outputs["y"].to_numpy(), outputs["a"].to_numpy())]
    for features, outputs in zip(given, results, strict=True):
        np.testing.assert_array_equal(outputs["y"].to_numpy(), features["a"] + features["b"])
        np.testing.assert_array_equal(outputs["a"].to_numpy(), features["a"])
    for index, array in enumerate(arrays):
        others = [*arrays[:index], *(value for features in given for value in features.values())]
        assert not any(np.shares_memory(array, other) for other in others)
        array[:] = -1  # results are the caller's


def test_a_constant_output_is_the_callers_own() -> None:
    """Its memory is the model's in the engine: a result that is written to must not change the next one."""
    node = helper.make_node("Identity", ["c"], ["y"])
    session = open_session(data([node], [tensor("x", [2])], [tensor("y", [2])], {"c": np.float32([5, 6])}))
    for _ in range(3):
        array = session.evaluate_features({"x": np.zeros(2, np.float32)}).outputs["y"].to_numpy()
        assert array.tolist() == [5, 6]
        array[:] = 0


def test_what_went_in_is_let_go() -> None:
    session = open_session(unary("Neg", [2]))
    array = np.float32([1, 2])
    gone = weakref.ref(array)
    result = session.evaluate_features({"x": array})
    del array
    gc.collect()
    assert gone() is None
    assert result.outputs["y"].to_numpy().tolist() == [-1, -2]


def test_an_error_of_the_engine_keeps_no_engine(natives: list[weakref.ref[Any]]) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    model = data([node], [tensor("x", [2]), tensor("i", [1], INT64)], [tensor("y", [1])])
    session = open_session(model)
    features = {"x": np.float32([1, 2]), "i": np.int64([7])}
    (native,) = natives
    with pytest.raises(EvaluationError, match="out of data bounds") as info:
        session.evaluate_features(features)
    assert info.value.__cause__ is None
    session.close()
    assert native() is None


NUMBERS = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (NUMBERS.astype(">f4"), InvalidBindingError),
        (np.ascontiguousarray(NUMBERS.T).T, None),
        (np.repeat(NUMBERS, 2, 1)[:, ::2], None),
        (np.frombuffer(b"\0" + NUMBERS.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3), None),
        (NUMBERS.astype(np.float64), InvalidBindingError),
        (np.ones((2, 4), np.float32), SizeMismatchError),
        (NUMBERS.reshape(-1), SizeMismatchError),
    ],
)
def test_an_array_that_is_not_read_as_it_lies(array: np.ndarray[Any, Any], error: type[WinMLError] | None) -> None:
    session = open_session(unary("Neg", ["n", 3]))
    with pytest.raises(error) if error else nullcontext():
        np.testing.assert_array_equal(session.evaluate_features({"x": array}).outputs["y"], -NUMBERS)


def test_the_options_and_properties_hold(caplog: pytest.LogCaptureFixture) -> None:
    options = LearningModelSessionOptions()
    options.run_config = {"memory.enable_memory_arena_shrinkage": "cpu:0"}
    options.override_input_shape("x", (4,))
    session = LearningModelSession(LearningModel.load(unary("Neg", ["n"])), None, options)
    with pytest.raises(SizeMismatchError):
        session.evaluate_features({"x": np.zeros(3, np.float32)})
    assert session.evaluate_features({"x": np.ones(4, np.float32)}).outputs["y"].to_numpy().tolist() == [-1] * 4
    caplog.set_level(logging.DEBUG, "winml_py")
    session.evaluation_properties["EnableDebugOutput"] = None
    session.evaluate_features({"x": np.ones(4, np.float32)}, "my id")
    assert "'my id'" in caplog.text
