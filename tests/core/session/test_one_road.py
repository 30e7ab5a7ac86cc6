"""Every way to evaluate, on every engine, gives the same numbers and the same errors, and leaves nothing open."""

from __future__ import annotations

import asyncio
import gc
import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper
from PIL import Image

from helpers.exported import Exported
from helpers.models import data, tensor, unary
from helpers.paths import MODELS
from helpers.processes import count_open
from helpers.sessions import make_options, open_free_session
from winml_py import (
    CustomOperator,
    EvaluationError,
    ImageFeatureValue,
    InvalidBindingError,
    LearningModel,
    LearningModelBinding,
    LearningModelEvaluationResult,
    LearningModelSession,
    PictureError,
    SizeMismatchError,
    TensorFloat,
    TensorFloat16Bit,
    WinMLError,
    operators,
)
from winml_py.testing import FakeDevice

Array = np.ndarray[Any, Any]
W = np.array([[1, -2, 3], [0, 1, 5], [2, 2, -1]], np.float32)
ENGINES = ("onnxruntime", "openvino", "isolated", "custom", "fake", "gpu")


def matmul(domain: str = "") -> bytes:
    """y = (x + 0) @ w, of sizes that the model leaves free: what does not fit fails in the engine.

    The sum is for OpenVINO, whose MatMul checks no size, and reads beyond its memory.
    """
    nodes = [helper.make_node("Add", ["x", "zero"], ["sum"]), helper.make_node("MatMul", ["sum", "w"], ["y"])]
    nodes[1].domain = domain
    ends = [tensor("x", ["rows", "columns"])], [tensor("y", ["rows", "others"])]
    weights = {"w": W, "zero": np.zeros(3, np.float32)}
    return data(nodes, *ends, weights, domains={domain: 1} if domain else None)


@pytest.fixture(params=ENGINES)
def session(request: pytest.FixtureRequest, real_plugins: None) -> Iterator[LearningModelSession]:
    def multiply(features: Mapping[str, Any]) -> dict[str, Any]:
        if features["x"].shape[1] != 3:
            raise EvaluationError("The shapes do not fit.")
        return {"y": features["x"] @ W}

    match request.param:
        case "openvino":
            request.getfixturevalue("openvino")
            made = open_free_session(matmul(), engine="openvino")
        case "isolated":
            made = open_free_session(matmul(), isolation="process")
        case "custom":
            operator = CustomOperator(np.matmul, "MatMul", "my", outputs=[(np.float32, 2)])
            made = open_free_session(matmul("my"), operators=[operator])
        case "fake":
            made = open_free_session(matmul(), FakeDevice(multiply))
        case "gpu":
            made = open_free_session(matmul(), request.getfixturevalue("gpu"))
        case _:
            made = open_free_session(matmul())
    with made:
        yield made


def features(x: Any, y: Array | None) -> dict[str, Any]:
    return {"x": x} if y is None else {"x": x, "y": y}


def numbers(result: LearningModelEvaluationResult) -> Array:
    """A copy of the output, which is the array itself where one was bound."""
    y = result.outputs["y"]
    return np.array(y if isinstance(y, np.ndarray) else y.to_numpy())


def bind_and_evaluate(session: LearningModelSession, x: Any, y: Array | None) -> Array:
    binding = LearningModelBinding(session)
    binding.bind("x", x)
    if y is not None:
        binding.bind("y", y)
    session.evaluate(binding)  # the first run of a binding, and a later one, may be fed in different ways
    return numbers(session.evaluate(binding))


def evaluate_features(session: LearningModelSession, x: Any, y: Array | None) -> Array:
    return numbers(session.evaluate_features(features(x, y)))


def evaluate_many(session: LearningModelSession, x: Any, y: Array | None) -> Array:
    (result,) = session.evaluate_many([features(x, y)])
    if result.error is not None:
        raise result.error
    return numbers(result)


def evaluate_async(session: LearningModelSession, x: Any, y: Array | None) -> Array:
    binding = LearningModelBinding(session)
    for name, value in features(x, y).items():
        binding.bind(name, value)
    return numbers(session.evaluate_async(binding).get())


def evaluate_features_async(session: LearningModelSession, x: Any, y: Array | None) -> Array:
    async def wait() -> Array:
        return numbers(await session.evaluate_features_async(features(x, y)))

    return asyncio.run(wait())


ROADS: tuple[Callable[[LearningModelSession, Array, Array | None], Array], ...] = (
    bind_and_evaluate,
    evaluate_features,
    evaluate_many,
    evaluate_async,
    evaluate_features_async,
)


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """Small whole numbers, exact in every engine, in every kind of memory; every fifth fits no model."""
    columns = 3 if draw(st.integers(0, 4)) else draw(st.sampled_from([2, 4, 5]))
    rows = draw(st.integers(0 if columns == 3 else 1, 5))  # without rows OpenVINO computes nothing, and nothing fails
    drawn = draw(st.lists(st.integers(-9, 9), min_size=rows * columns, max_size=rows * columns))
    x = np.array(drawn, np.float32).reshape(rows, columns)
    match draw(st.sampled_from(["contiguous", "fortran", "strided", "reversed", "read-only", "repeated"])):
        case "fortran":
            return np.asfortranarray(x)
        case "strided":
            wide = np.zeros((rows, 2 * columns), np.float32)
            wide[:, ::2] = x
            return wide[:, ::2]
        case "reversed":
            return x[::-1].copy()[::-1]
        case "read-only":
            x.flags.writeable = False
        case "repeated":  # rows that are one another's memory
            return np.broadcast_to(x[:1], (rows, columns)) if rows else x
    return x


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(x=arrays(), output=st.sampled_from(["allocated", "bound", "in place"]))
def test_the_same_numbers_and_errors(session: LearningModelSession, x: Array, output: str) -> None:
    errors = set()
    if x.shape[1] != 3 and session.engine == "openvino":
        return  # OpenVINO checks no sizes: it reads memory that is not the model's, and may end the process
    if not len(x) and session.device.hardware == "gpu":
        return  # a GPU has no memory for an array without elements, and says so
    for road in ROADS:
        given = x.copy() if output == "in place" else x
        y = {"allocated": None, "bound": np.full((len(x), 3), 7, np.float32), "in place": given}[output]
        if x.shape[1] != 3:
            with pytest.raises(WinMLError) as failure:
                road(session, given, y)
            errors.add(failure.type)
        elif road is not bind_and_evaluate or output != "in place":  # its second run would read what the first wrote
            np.testing.assert_array_equal(road(session, given, y), x @ W, strict=True)
            if y is not None:
                np.testing.assert_array_equal(y, x @ W)
    assert len(errors) == (x.shape[1] != 3), errors


OPERATORS = ({}, {"engine": "openvino"}, {"isolation": "process"})


@pytest.mark.parametrize("options", OPERATORS, ids=str)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(x=arrays())
def test_an_operator_gives_them_too(real_plugins: None, options: dict[str, str], x: Array) -> None:
    if x.shape[1] != 3:
        with pytest.raises(WinMLError):
            operators.compile("MatMul", x, W, options=make_options(**options))
        return
    operator = operators.compile("MatMul", x, W, options=make_options(**options))
    operator.bind(x, W)
    np.testing.assert_array_equal(operator.execute(), x @ W, strict=True)
    operator.dispose()
    np.testing.assert_array_equal(operators.MatMul(x, W), x @ W, strict=True)


def test_nothing_stays_open(session: LearningModelSession) -> None:
    def use() -> int:
        failing = [] if session.engine == "openvino" else [np.ones((2, 2), np.float32)]  # see above
        for x in (np.ones((2, 3), np.float32), *failing):
            for road in ROADS:
                try:
                    road(session, x, None)
                except WinMLError:
                    assert x.shape[1] == 2
        gc.collect()
        return count_open()

    use()
    assert use() <= use()


X = np.array([[1, -2, 3], [4, 0, -6]], np.float32)


def save(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["tensor", "DLPack", "lists", "str", "path", "bytes", "open file", "float16 tensor"])
def test_every_call_takes_the_same_values(session: LearningModelSession, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(save(X))
    for road in ROADS:
        with path.open("rb") as file:
            values = {"tensor": TensorFloat.from_numpy(X), "DLPack": Exported(X), "lists": X.tolist(), "str": str(path)}
            values |= {"path": path, "bytes": path.read_bytes(), "open file": file}
            values["float16 tensor"] = TensorFloat16Bit.from_numpy(X)
            if kind != "float16 tensor":
                np.testing.assert_array_equal(road(session, values[kind], None), X @ W, strict=True)
                continue
            with pytest.raises(InvalidBindingError, match="Float16"):
                road(session, values[kind], None)


def test_every_call_takes_pictures_from_files() -> None:
    session = LearningModelSession(LearningModel.load(MODELS / "digits.onnx"))
    path = MODELS.parent / "samples" / "pictures" / "seven.png"
    expected = session.evaluate_features({"image": ImageFeatureValue.load(path)})["probabilities"].to_numpy()
    pillow = Image.open(io.BytesIO(path.read_bytes()))  # not decoded yet
    for value in (path, str(path), path.read_bytes(), pillow, [pillow], ImageFeatureValue.load(path)):
        binding = LearningModelBinding(session)
        binding.bind("image", value)
        assert binding["image"] is value
        assert len(binding.placements["image"]) == 1
        for evaluate in (
            lambda value: session.evaluate_features({"image": value}),
            lambda value: session.evaluate_features_async({"image": value}).get(60),
            lambda value: next(session.evaluate_many([value])),
            lambda value, bound=binding: session.evaluate(bound),
        ):
            np.testing.assert_array_equal(evaluate(value)["probabilities"].to_numpy(), expected)
    with pytest.raises(PictureError):
        session.evaluate_features({"image": b"no picture"})


def test_a_tensor_without_memory_is_no_input(session: LearningModelSession) -> None:
    for road in ROADS:
        with pytest.raises(InvalidBindingError, match="no associated resources"):
            road(session, TensorFloat.create(), None)


def test_a_tensor_that_two_bindings_share_is_read_where_it_is_now(session: LearningModelSession) -> None:
    """Each evaluation of the first gives the tensor new memory, or writes into the same."""
    for shared in (
        TensorFloat.create(),
        TensorFloat.create((2, 3)),
        TensorFloat.from_numpy(np.zeros((2, 3), np.float32)),
    ):
        first, second = LearningModelBinding(session), LearningModelBinding(session)
        for number in (1, 2, 3):
            first.bind("x", X * number)
            if number == 1:
                first.bind("y", shared)
            session.evaluate(first)
            if number == 1:
                second.bind("x", shared)
            np.testing.assert_array_equal(numbers(session.evaluate(second)), X * number @ W @ W)


def test_a_tensor_that_two_outputs_share_has_the_numbers_of_the_last(session: LearningModelSession) -> None:
    shared = TensorFloat.create()
    first, second = LearningModelBinding(session), LearningModelBinding(session)
    first.bind("x", X)
    first.bind("y", shared)
    session.evaluate(first)
    second.bind("x", 2 * X)
    second.bind("y", shared)
    for _ in range(2):
        np.testing.assert_array_equal(numbers(session.evaluate(first)), X @ W)
        np.testing.assert_array_equal(numbers(session.evaluate(second)), 2 * X @ W)


def test_a_shared_tensor_that_no_longer_fits_is_refused(session: LearningModelSession) -> None:
    node = helper.make_node("Neg", ["a"], ["b"])
    other = open_free_session(data([node], [tensor("a", ["n", "m"])], [tensor("b", ["n", "m"])]))
    shared = TensorFloat.create()
    first, second = LearningModelBinding(other), LearningModelBinding(session)
    first.bind("a", -X)
    first.bind("b", shared)
    other.evaluate(first)
    fixed = LearningModelBinding(LearningModelSession(LearningModel.load(unary("Neg", (2, 3)))))
    fixed.bind("x", shared)
    second.bind("x", shared)
    np.testing.assert_array_equal(numbers(session.evaluate(second)), X @ W)
    first.bind("a", -X[:1])
    other.evaluate(first)
    np.testing.assert_array_equal(numbers(session.evaluate(second)), X[:1] @ W)
    with pytest.raises(SizeMismatchError, match="Dimension 0 is 1, not 2"):
        fixed._session.evaluate(fixed)
