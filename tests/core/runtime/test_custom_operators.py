"""Operators of the program's own: Python functions between the parts of a graph, and shared libraries."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from helpers.models import FLOAT, FLOAT16, INT64, STRING, data, model, tensor
from helpers.paths import MODELS
from helpers.sessions import open_free_session
from winml_py import (
    CanceledError,
    ClosedError,
    CorruptModelError,
    CustomOperator,
    EvaluationError,
    EvaluationTimeoutError,
    InvalidArgumentError,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelSession,
    LearningModelSessionOptions,
    ModelNotFoundError,
    NotSupportedError,
    OperatorOutput,
    SizeMismatchError,
    TensorKind,
    Weights,
    WinMLError,
)
from winml_py.errors import MissingInputError
from winml_py.float16 import convert

FLOATS = (np.float32, 1)
MY = {"my": 1}


def own(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, outputs, name=f"node {operator}", domain="my", **attributes)


def run(whole: bytes | Path, *operators: Any, **inputs: Any) -> dict[str, Any]:
    with open_free_session(whole, operators=operators) as made:
        outputs = made.evaluate_features(inputs).outputs
        return {name: value.to_numpy() if hasattr(value, "to_numpy") else value for name, value in outputs.items()}


def chain(function: Callable[..., Any] = lambda x: x + 1, shape: tuple[Any, ...] = ("n",)) -> tuple[bytes, Any]:
    """y = relu(function(-x)), and its operator."""
    nodes = [helper.make_node("Neg", ["x"], ["a"]), own("Own", ["a"], ["b"]), helper.make_node("Relu", ["b"], ["y"])]
    whole = data(nodes, [tensor("x", shape)], [tensor("y", shape)], domains=MY)
    return whole, CustomOperator(function, "Own", "my", outputs=[(np.float32, len(shape))])


X = np.array([-3, 0.5, 2], np.float32)


def test_it_gives_what_the_graph_would_have_given() -> None:
    """The digit classifier, with its Relu nodes in Python: raw ONNX Runtime runs the file as it is."""
    image = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    raw = onnxruntime.InferenceSession(str(MODELS / "digits.onnx")).run(None, {"image": image})[0]
    calls = []

    def relu(x: np.ndarray) -> np.ndarray:
        calls.append(x.shape)
        return np.maximum(x, 0)

    count = sum(node.op_type == "Relu" for node in onnx.load(MODELS / "digits.onnx").graph.node)
    for source in (MODELS / "digits.onnx", (MODELS / "digits.onnx").read_bytes()):
        calls.clear()
        operator = CustomOperator(relu, "Relu", "", outputs=[(np.float32, None)])
        np.testing.assert_allclose(run(source, operator, image=image)["probabilities"], raw, rtol=1e-5)
        assert len(calls) == count > 0


def test_a_model_of_nothing_else() -> None:
    whole = data([own("Own", ["x"], ["y"])], [tensor("x", ["n"])], [tensor("y", ["n"])], domains=MY)
    operator = CustomOperator(np.negative, "Own", "my", outputs=[FLOATS])
    np.testing.assert_array_equal(run(whole, operator, x=X)["y"], -X)
    with open_free_session(whole, operators=[operator]) as made:
        assert made.engine == "python"
        assert made.assigned_nodes == [("node Own", "Own", "Python")]
    with pytest.raises(ClosedError):
        made.evaluate_features({"x": X})


def test_several_in_a_chain_and_side_by_side() -> None:
    nodes = [
        own("Twice", ["x"], ["a"]),
        own("Twice", ["a"], ["b"]),
        helper.make_node("Add", ["b", "w"], ["c"]),
        own("Both", ["c", "x"], ["d", "e"]),
        helper.make_node("Sub", ["d", "a"], ["f"]),
        own("Twice", ["f"], ["g"]),
        helper.make_node("Add", ["g", "e"], ["y"]),
    ]
    ends = [tensor(name, ["n"]) for name in ("y", "b", "e", "g")]
    whole = data(nodes, [tensor("x", ["n"])], ends, {"w": np.float32([10])}, domains=MY)
    twice = CustomOperator(lambda x: x * 2, "Twice", "my", outputs=[FLOATS])
    both = CustomOperator(lambda c, x: (c + x, c * x), "Both", "my", outputs=[OperatorOutput(np.float32, 1)] * 2)
    found = run(whole, twice, both, x=X)
    b, c = 4 * X, 4 * X + 10
    e, g = c * X, 2 * (c + X - 2 * X)
    for name, expected in {"y": g + e, "b": b, "e": e, "g": g}.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-6)


def test_nodes_in_any_order() -> None:
    whole, operator = chain()
    proto = onnx.ModelProto.FromString(whole)
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend(reversed(nodes))
    np.testing.assert_array_equal(run(proto.SerializeToString(), operator, x=X)["y"], np.maximum(1 - X, 0))
    proto.graph.node[2].input[0] = "y"
    with pytest.raises(CorruptModelError, match="has a cycle of nodes"):
        open_free_session(proto.SerializeToString(), operators=[operator])


def test_nodes_that_nothing_needs() -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["dead"]),
        own("Own", ["x"], ["y"]),
        helper.make_node("Abs", ["y"], ["late"]),
    ]
    whole = data(nodes, [tensor("x", ["n"])], [tensor("y", ["n"])], domains=MY)
    operator = CustomOperator(np.negative, "Own", "my", outputs=[FLOATS])
    np.testing.assert_array_equal(run(whole, operator, x=X)["y"], -X)


def test_attributes_come_by_name() -> None:
    came: dict[str, Any] = {}

    def function(x: np.ndarray, **attributes: Any) -> np.ndarray:
        came.update(attributes)
        return x

    table = helper.make_tensor("t", INT64, [2], [5, 6])
    node = own("Own", ["x"], ["y"], f=0.5, i=3, s="text", fs=[1.0, 2.0], ss=["a", "b"], t=table)
    whole = data([node], [tensor("x", ["n"])], [tensor("y", ["n"])], domains=MY)
    run(whole, CustomOperator(function, "Own", "my", outputs=[FLOATS]), x=X)
    assert came.pop("t").tolist() == [5, 6]
    assert came == {"f": 0.5, "i": 3, "s": "text", "fs": [1.0, 2.0], "ss": ["a", "b"]}


def test_inputs_and_outputs_that_are_left_out() -> None:
    def function(*inputs: Any) -> tuple[np.ndarray, ...]:
        assert [value is None for value in inputs] == [False, True, False]
        return inputs[0], inputs[0] * 2, inputs[2]

    node = own("Own", ["x", "", "x", ""], ["", "y"])
    whole = data([node], [tensor("x", ["n"])], [tensor("y", ["n"])], domains=MY)
    operator = CustomOperator(function, "Own", "my", outputs=[FLOATS] * 3)
    np.testing.assert_array_equal(run(whole, operator, x=X)["y"], 2 * X)


def test_types_strings_sequences_and_weights() -> None:
    ends = [tensor("n", [], INT64), tensor("y", ["n"], STRING)]
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        own("Count", ["s", "w"], ["n"]),
        own("Upper", ["t"], ["u"]),
        helper.make_node("Identity", ["u"], ["y"]),
    ]
    inputs = [tensor("x", ["n"]), tensor("t", ["n"], STRING)]
    whole = data(nodes, inputs, ends, {"w": np.int64([100])}, domains=MY)
    count = CustomOperator(lambda s, w: np.int64(len(s) + w[0]), "Count", "my", outputs=[(TensorKind.INT64, 0)])
    upper = CustomOperator(lambda t: np.char.upper(t.astype(str)), "Upper", "my", outputs=[(str, 1)])
    found = run(whole, count, upper, x=X, t=np.array(["a", "bc"]))
    assert found["n"] == 102
    assert found["y"].tolist() == ["A", "BC"]


def test_operators_that_onnx_does_not_know_lie_between() -> None:
    """ONNX's inference has no types for them: ONNX Runtime's has."""
    nodes = [
        helper.make_node("FusedMatMul", ["x", "x"], ["a"], domain="com.microsoft", transB=1),
        own("Own", ["a"], ["b"]),
        helper.make_node("FusedMatMul", ["b", "b"], ["y"], domain="com.microsoft"),
    ]
    ends = [tensor(name, ["a", "b"]) for name in "xy"]
    whole = data(nodes, ends[:1], ends[1:], domains=MY | {"com.microsoft": 1})
    operator = CustomOperator(lambda a: a + 1, "Own", "my", outputs=[(np.float32, 2)])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    b = x @ x.T + 1
    np.testing.assert_allclose(run(whole, operator, x=x)["y"], b @ b, rtol=1e-6)


def test_a_subgraph_may_use_what_a_function_gave() -> None:
    branch = [helper.make_node("Add", ["b", "w"], ["t"])], [helper.make_node("Neg", ["b"], ["e"])]
    graphs = [
        helper.make_graph(nodes, "branch", [], [tensor(name, ["n"])]) for nodes, name in zip(branch, "te", strict=True)
    ]
    nodes = [
        own("Own", ["x"], ["b"]),
        helper.make_node("If", ["c"], ["y"], then_branch=graphs[0], else_branch=graphs[1]),
    ]
    inputs = [tensor("x", ["n"]), tensor("c", [], onnx.TensorProto.BOOL)]
    whole = data(nodes, inputs, [tensor("y", ["n"])], {"w": np.float32([7])}, domains=MY)
    operator = CustomOperator(lambda x: x * 2, "Own", "my", outputs=[FLOATS])
    np.testing.assert_array_equal(run(whole, operator, x=X, c=np.array(True))["y"], 2 * X + 7)
    np.testing.assert_array_equal(run(whole, operator, x=X, c=np.array(False))["y"], -2 * X)


def test_inside_an_if_a_loop_or_a_function_it_is_refused_by_name() -> None:
    inner = helper.make_graph([own("Own", ["x"], ["t"])], "branch", [], [tensor("t", ["n"])])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "branch", [], [tensor("e", ["n"])])
    branching = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=inner, else_branch=other)
    inputs = [tensor("x", ["n"]), tensor("c", [], onnx.TensorProto.BOOL)]
    operator = CustomOperator(np.negative, "Own", "my", outputs=[FLOATS])
    whole = data([branching], inputs, [tensor("y", ["n"])], domains=MY)
    with pytest.raises(NotSupportedError, match=r"my:Own of the node 'node Own' is inside the If node 'choice'"):
        open_free_session(whole, operators=[operator])

    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    body = helper.make_function("my.functions", "Body", ["x"], ["y"], [own("Own", ["x"], ["y"])], opsets)
    call = helper.make_node("Body", ["x"], ["y"], domain="my.functions")
    proto = model([call], inputs[:1], [tensor("y", ["n"])], domains=MY | {"my.functions": 1})
    proto.functions.append(body)
    with pytest.raises(NotSupportedError, match="is inside the function 'Body' of the model"):
        open_free_session(proto.SerializeToString(), operators=[operator])


def test_functions_of_the_model_stay_whole() -> None:
    opsets = [helper.make_opsetid("", 17)]
    nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
    body = helper.make_function("my.functions", "Twice", ["x"], ["y"], nodes, opsets)
    calls = [
        helper.make_node("Twice", ["x"], ["a"], domain="my.functions"),
        own("Own", ["a"], ["b"]),
        helper.make_node("Twice", ["b"], ["y"], domain="my.functions"),
    ]
    proto = model(calls, [tensor("x", ["n"])], [tensor("y", ["n"])], domains=MY | {"my.functions": 1})
    proto.functions.append(body)
    operator = CustomOperator(lambda x: x + 1, "Own", "my", outputs=[FLOATS])
    np.testing.assert_array_equal(run(proto.SerializeToString(), operator, x=X)["y"], 2 * (2 * X + 1))


def test_what_a_function_raises_is_the_cause() -> None:
    mistake = ValueError("no such luck.")

    def function(x: np.ndarray) -> np.ndarray:
        raise mistake

    whole, operator = chain(function)
    made = open_free_session(whole, operators=[operator])
    binding = LearningModelBinding(made)
    binding.bind("x", X)
    for _ in range(2):  # the binding survives it
        with pytest.raises(
            EvaluationError, match=r"my:Own of the node 'node Own' raised ValueError: no such luck\."
        ) as info:
            made.evaluate(binding)
        assert type(info.value) is EvaluationError
        assert info.value.__cause__ is mistake
    with pytest.raises(EvaluationError) as info:
        made.evaluate_async(binding).get()
    assert info.value.__cause__ is mistake
    results = list(made.evaluate_many([X]))
    assert results[0].error.__cause__ is mistake


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.float64([1]), "returned float64 of rank 1 as 'b', but declares float32 of rank 1"),
        (np.float32([[1]]), "returned float32 of rank 2 as 'b', but declares float32 of rank 1"),
        ((X, X), "returned 2 outputs, but declares 1"),
        (None, "returned object of rank 0"),
    ],
)
def test_what_a_function_gives_is_checked(given: Any, words: str) -> None:
    whole, operator = chain(lambda x: given)
    with pytest.raises(EvaluationError, match=words):
        run(whole, operator, x=X)


def test_functions_cannot_write_to_their_inputs_and_keep_no_outputs() -> None:
    seen = []

    def function(x: np.ndarray) -> np.ndarray:
        with pytest.raises(ValueError, match="read-only"):
            x += 1
        seen.append(x)
        return x

    whole = data([own("Own", ["x"], ["y"])], [tensor("x", ["n"])], [tensor("y", ["n"])], domains=MY)
    x = X.copy()
    found = run(whole, CustomOperator(function, "Own", "my", outputs=[FLOATS]), x=x)["y"]
    assert not np.shares_memory(found, seen[0])
    found[0] = 99
    np.testing.assert_array_equal(x, X)


def test_a_function_may_return_the_same_array_for_several_nodes() -> None:
    memory = np.zeros(1, np.float32)
    doubled = CustomOperator(lambda x: np.multiply(x, 2, out=memory), "Own", "my", outputs=[FLOATS])
    nodes = [own("Own", ["a"], ["2a"]), own("Own", ["b"], ["2b"])]
    whole = data(nodes, [tensor(name, [1]) for name in "ab"], [tensor(name, [1]) for name in ("2a", "2b")], domains=MY)
    found = run(whole, doubled, a=np.float32([1]), b=np.float32([10]))
    assert {name: array.item() for name, array in found.items()} == {"2a": 2, "2b": 20}


@pytest.mark.parametrize("number", [np.float64(1e39), np.int32(2**31 - 1), np.float16(1)])
def test_a_result_of_another_type_is_never_cast_into_the_bound_array(number: Any) -> None:
    operator = CustomOperator(lambda x: np.array([number]), "Own", "my", outputs=[(number.dtype, 1)])
    whole = data([own("Own", ["x"], ["y"])], [tensor("x", [1])], [tensor("y", [1])], domains=MY)
    for bound in ({}, {"y": np.zeros(1, np.float32)}, {"y": [0.0]}):
        with pytest.raises(EvaluationError, match="float32"):
            run(whole, operator, x=np.float32([1]), **bound)


def test_bound_outputs_and_inputs_by_reference() -> None:
    whole, operator = chain()
    made = open_free_session(whole, operators=[operator])
    binding = LearningModelBinding(made)
    with pytest.raises(MissingInputError):
        made.evaluate(binding)
    x, y = X.copy(), np.zeros(3, np.float32)
    binding.bind("x", x)
    binding.bind("y", y)
    made.evaluate(binding)
    np.testing.assert_array_equal(y, np.maximum(1 - X, 0))
    x[:] = -5
    made.evaluate(binding)
    np.testing.assert_array_equal(y, [6, 6, 6])
    binding.bind("y", np.zeros(2, np.float32))
    with pytest.raises(SizeMismatchError, match="The model variable y was bound to memory of shape"):
        made.evaluate(binding)


def test_threads_that_raise_do_not_disturb_the_others() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        if x[0] > 0:
            raise ArithmeticError(float(x[0]))
        return x

    whole, operator = chain(function)
    made = open_free_session(whole, operators=[operator])

    def work(number: int) -> None:
        x = np.float32([number])
        if number < 0:
            with pytest.raises(EvaluationError) as info:
                made.evaluate_features({"x": x})
            assert info.value.__cause__.args == (-number,)
        else:
            np.testing.assert_array_equal(made.evaluate_features({"x": x}).outputs["y"].to_numpy(), [0])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [sign * number for number in range(1, 60) for sign in (1, -1)]))


def test_a_cancelled_evaluation_stops_after_the_function() -> None:
    entered, leave, calls = threading.Event(), threading.Event(), []

    def function(x: np.ndarray) -> np.ndarray:
        calls.append(x)
        entered.set()
        leave.wait(30)
        return x

    nodes = [own("Own", ["x"], ["a"]), own("Own", ["a"], ["y"])]
    whole = data(nodes, [tensor("x", ["n"])], [tensor("y", ["n"])], domains=MY)
    made = open_free_session(whole, operators=[CustomOperator(function, "Own", "my", outputs=[FLOATS])])
    operation = made.evaluate_features_async({"x": X})
    assert entered.wait(30)
    operation.cancel()
    leave.set()
    with pytest.raises(CanceledError):
        operation.get()
    assert len(calls) == 1  # the second was not called


def test_a_time_limit_counts_functions_too() -> None:
    whole, operator = chain(lambda x: time.sleep(0.2) or x)
    made = open_free_session(whole, operators=[operator])
    binding = LearningModelBinding(made)
    binding.bind("x", X)
    with pytest.raises(EvaluationTimeoutError):
        made.evaluate(binding, timeout=0.02)
    made.evaluate(binding, timeout=60)


def test_sessions_share_an_engine_and_close_it(natives: list[Any]) -> None:
    class Function:
        def __call__(self, x: np.ndarray) -> np.ndarray:
            return x

    function = Function()
    gone = weakref.ref(function)
    whole, operator = chain(function)
    loaded = LearningModel.load(whole, operators=[operator])
    first, count = LearningModelSession(loaded), len(natives)
    second = LearningModelSession(loaded)
    assert len(natives) == count
    binding = LearningModelBinding(second)
    binding.bind("x", X)
    first.close()
    second.evaluate(binding)
    second.close()
    with pytest.raises(ClosedError):
        second.evaluate(binding)
    del first, second, binding, loaded, operator, function
    gc.collect()
    assert gone() is None


def test_large_models_leave_their_weights_in_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = {"w": rng.random((1024, 4200), np.float32), "v": rng.random(4200, np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        own("Own", ["a", "v"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    proto = model(nodes, [tensor("x", ["n", 1024])], [tensor("y", ["n", 4200])], weights, domains=MY)
    (tmp_path / "one.onnx").write_bytes(proto.SerializeToString())
    onnx.save(proto, tmp_path / "two.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    x = rng.random((2, 1024), np.float32) - 0.5
    proto = onnx.load(tmp_path / "one.onnx")
    expected = np.maximum(x @ weights["w"] - weights["v"], 0)
    operator = CustomOperator(lambda a, v: a - v, "Own", "my", outputs=[(np.float32, 2)])
    for source in (tmp_path / "one.onnx", tmp_path / "two.onnx", proto.SerializeToString()):
        for kept in (Weights.SHARED, Weights.PRIVATE):
            with open_free_session(source, operators=[operator], weights=kept) as made:
                found = made.evaluate_features({"x": x}).outputs["y"].to_numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_an_initializer_may_be_an_output_and_an_input_too() -> None:
    nodes = [own("Own", ["x"], ["y"])]
    ends = [tensor("y", ["n"]), tensor("w", [2]), tensor("x", ["n"])]
    whole = data(
        nodes, [tensor("x", ["n"]), tensor("w", [2])], ends, {"w": np.float32([4, 5])}, domains=MY, ir_version=3
    )
    found = run(whole, CustomOperator(np.negative, "Own", "my", outputs=[FLOATS]), x=X)
    np.testing.assert_array_equal(found["y"], -X)
    np.testing.assert_array_equal(found["w"], [4, 5])
    np.testing.assert_array_equal(found["x"], X)


def test_dimensions_are_overridden_in_every_part() -> None:
    whole, operator = chain(shape=("batch", 3))
    options = LearningModelSessionOptions()
    options.override_named_dimension("batch", 2)
    made = LearningModelSession(LearningModel.load(whole, operators=[operator]), None, options)
    assert made.evaluate_features({"x": np.ones((2, 3), np.float32)}).outputs["y"].shape == (2, 3)
    with pytest.raises(SizeMismatchError):
        made.evaluate_features({"x": np.ones((3, 3), np.float32)})


def test_profiles_and_engines(tmp_path: Path) -> None:
    whole, operator = chain()
    with open_free_session(whole, operators=[operator], profiling=True) as made:
        made.evaluate_features({"x": X})
        made.end_profiling(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_bytes())
    assert {event["args"]["op_name"] for event in events if event["name"].endswith("kernel_time")} == {"Neg", "Relu"}
    with open_free_session(whole, operators=[operator]) as made:
        assert made.engine == "onnxruntime"
        assert "my:Own in Python" in str(made.explain())


def test_on_a_gpu(gpu: LearningModelDevice) -> None:
    whole, operator = chain(shape=("n", 4))
    x = np.random.default_rng(0).random((3, 4), np.float32) * 2
    with LearningModelSession(LearningModel.load(whole, operators=[operator]), gpu) as made:
        for _ in range(2):
            found = made.evaluate_features({"x": x}).outputs["y"].to_numpy()
            np.testing.assert_allclose(found, np.maximum(1 - x, 0), rtol=1e-6)
        assert {node.provider for node in made.assigned_nodes} == {gpu.provider, "Python"}


def test_float16_models(gpu: LearningModelDevice) -> None:
    nodes = [helper.make_node("Neg", ["x"], ["a"]), own("Own", ["a"], ["b"]), helper.make_node("Relu", ["b"], ["y"])]
    ends = [tensor(name, ["n"], FLOAT16) for name in "xy"]
    whole = data(nodes, ends[:1], ends[1:], domains=MY)
    operator = CustomOperator(lambda x: x + np.float16(1), "Own", "my", outputs=[(np.float16, 1)])
    for device in (None, gpu):
        with LearningModelSession(LearningModel.load(whole, operators=[operator]), device) as made:
            found = made.evaluate_features({"x": X.astype(np.float16)}).outputs["y"].to_numpy()
        assert found.dtype == np.float16
        np.testing.assert_allclose(found, np.maximum(1 - X, 0), rtol=1e-3)


def layers(seed: int = 0) -> tuple[bytes, CustomOperator, np.ndarray]:
    """Two layers around a function that float16 could not compute, on weights, with a second output that is unused."""
    rng = np.random.default_rng(seed)
    weights = {"a": rng.normal(size=(6, 8)), "b": rng.normal(size=(8, 3)), "scale": np.full(8, 1e37)}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"], name="first"),
        helper.make_node("Identity", ["h"], ["same"], name="needless"),
        own("Own", ["same", "scale"], ["down", "unused"], factor=0.5),
        helper.make_node("Relu", ["down"], ["relu"], name="between"),
        helper.make_node("MatMul", ["relu", "b"], ["y"], name="second"),
    ]
    ends = [tensor("x", ["n", 6]), tensor("y", ["n", 3]), tensor("down", ["n", 8])]
    floats = {name: value.astype(np.float32) for name, value in weights.items()}
    whole = data(nodes, ends[:1], ends[1:], floats, domains=MY)

    def function(x: np.ndarray, scale: np.ndarray, factor: float) -> tuple[np.ndarray, np.ndarray]:
        assert x.dtype == scale.dtype == np.float32
        return x * scale * np.float32(factor) / scale, x

    operator = CustomOperator(function, "Own", "my", outputs=[(np.float32, 2), (np.float32, None)])
    return whole, operator, rng.normal(size=(5, 6)).astype(np.float32)


def test_float16_leaves_such_nodes_alone(tmp_path: Path) -> None:
    whole, operator, x = layers()
    (tmp_path / "model.onnx").write_bytes(whole)
    report = convert(tmp_path / "model.onnx", tmp_path / "half.onnx", operators=[operator])
    assert report.kept["own"] == ["node Own"]
    assert report.is_good
    half = onnx.load(tmp_path / "half.onnx")
    elements = {weight.name: weight.data_type for weight in half.graph.initializer}
    assert elements == {"a": FLOAT16, "b": FLOAT16, "scale": FLOAT}
    expected = run(whole, operator, x=x)
    found = run(tmp_path / "half.onnx", operator, x=x.astype(np.float16))
    for name, value in expected.items():
        assert found[name].dtype == np.float16
        np.testing.assert_allclose(found[name], value, atol=1e-2 * np.abs(value).max())


def test_float16_leaves_the_operators_of_a_library_alone(tmp_path: Path) -> None:
    """Whose types the runtime tells, beside a function."""
    library = pytest.importorskip("onnxruntime_extensions").get_library_path()
    nodes = [
        helper.make_node("Neg", ["x"], ["a"], name="neg"),
        helper.make_node("NegPos", ["a"], ["low", "high"], name="halves", domain="ai.onnx.contrib"),
        own("Own", ["high"], ["b"]),
        helper.make_node("Sub", ["low", "b"], ["y"], name="sub"),
    ]
    ends = [tensor("x", ["n", 3]), tensor("y", ["n", 3])]
    whole = data(nodes, ends[:1], ends[1:], domains=MY | {"ai.onnx.contrib": 1})
    (tmp_path / "model.onnx").write_bytes(whole)
    given = [library, CustomOperator(lambda x: x, "Own", "my", outputs=[(np.float32, 2)])]
    x = np.array([[-1, 2, -3]], np.float32)
    assert convert(tmp_path / "model.onnx", tmp_path / "half.onnx", operators=iter(given)).kept["own"] == [
        "halves",
        "node Own",
    ]
    np.testing.assert_array_equal(run(tmp_path / "half.onnx", *given, x=x.astype(np.float16))["y"], -np.abs(x))


def test_float16_refuses_unknown_nodes_by_name(tmp_path: Path) -> None:
    whole, _ = chain(shape=(3,))
    path = tmp_path / "model.onnx"
    path.write_bytes(whole)
    with pytest.raises(NotSupportedError, match="operator Own of the operator library my, which is not installed"):
        convert(path, tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: CustomOperator(3, "A", "my", outputs=[FLOATS]), InvalidArgumentError, "the operator, got 3"),
        (lambda: CustomOperator(abs, "", "my", outputs=[FLOATS]), InvalidArgumentError, "name and domain as str"),
        (lambda: CustomOperator(abs, "A", "my"), InvalidArgumentError, "operator A declares no outputs"),
        (
            lambda: CustomOperator(abs, "A", "my", outputs=[np.float32]),
            InvalidArgumentError,
            "An output of operator A",
        ),
        (
            lambda: CustomOperator(abs, "A", "my", outputs=[("f", "1")]),
            InvalidArgumentError,
            "The rank of an output of A",
        ),
        (
            lambda: CustomOperator(abs, "A", "my", outputs=[("M8", 1)]),
            InvalidArgumentError,
            "An output of operator A",
        ),
        (lambda: LearningModel.load(chain()[0], operators=abs), InvalidArgumentError, "Expected a list of operators"),
        (lambda: LearningModel.load(chain()[0], operators=[abs]), InvalidArgumentError, "CustomOperator or the path"),
        (
            lambda: LearningModel.load(chain()[0], operators=[chain()[1]] * 2),
            InvalidArgumentError,
            "Two functions were",
        ),
        (lambda: LearningModel.load(chain()[0], operators=["no.so"]), ModelNotFoundError, "library .*no.so does not"),
    ],
)
def test_mistakes_are_refused(make: Callable[[], object], error: type[WinMLError], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_a_node_with_more_outputs_than_are_declared_is_refused() -> None:
    whole = data([own("Own", ["x"], ["y", "z"])], [tensor("x", ["n"])], [tensor("y", ["n"])], domains=MY)
    with pytest.raises(InvalidArgumentError, match="node 'node Own' has 2 outputs, but the operator my:Own declares 1"):
        open_free_session(whole, operators=[CustomOperator(abs, "Own", "my", outputs=[FLOATS])])


LIBRARY = """
struct Api { void *(*create_status)(int, const char *); };
struct Base { const struct Api *(*get_api)(unsigned); };
void *RegisterCustomOps(void *options, const struct Base *base) {
#ifdef REFUSES
    return base->get_api(16)->create_status(1, "the library was asked for its operators");
#endif
    return 0;
}
"""


@pytest.mark.posix("Windows' compiler takes other options")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_shared_library_is_registered(tmp_path: Path) -> None:
    (tmp_path / "library.c").write_text(LIBRARY)
    for name, flags in (("takes", []), ("refuses", ["-DREFUSES"])):
        command = ["cc", "-shared", "-fPIC", *flags, "-o", f"{name}.so", "library.c"]
        subprocess.run(command, check=True, cwd=tmp_path)
    image = {"image": np.zeros((1, 1, 28, 28), np.float32)}
    with open_free_session(MODELS / "digits.onnx", operators=[tmp_path / "takes.so"]) as made:
        assert made.evaluate_features(image).outputs["probabilities"].shape == (1, 10)
    with pytest.raises(WinMLError, match="the library was asked for its operators"):
        open_free_session(MODELS / "digits.onnx", operators=[str(tmp_path / "refuses.so")])
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(WinMLError, match=r"text\.so"):
        open_free_session(MODELS / "digits.onnx", operators=[tmp_path / "text.so"])


def test_the_operators_of_a_shared_library_beside_functions() -> None:
    library = pytest.importorskip("onnxruntime_extensions").get_library_path()
    contrib = "ai.onnx.contrib"
    nodes = [
        helper.make_node("StringUpper", ["x"], ["a"], domain=contrib),
        own("Own", ["a"], ["b"]),
        helper.make_node("StringLower", ["b"], ["y"], domain=contrib),
    ]
    ends = [tensor(name, ["n"], STRING) for name in "xby"]
    whole = data(nodes, ends[:1], ends[1:], domains=MY | {contrib: 1})
    operator = CustomOperator(lambda a: a + "!", "Own", "my", outputs=[(str, 1)])
    found = run(whole, library, operator, x=np.array(["aB"]))
    assert (found["b"].tolist(), found["y"].tolist()) == (["AB!"], ["ab!"])
