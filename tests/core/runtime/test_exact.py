"""Which models `engine="auto"` may give to another engine, and what becomes of inputs that are not finite."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from helpers.models import FLOAT, FLOAT16, INT64, data, tensor
from helpers.sessions import open_session
from tools import exact_operators, integer_models
from winml_py import (
    CorruptModelError,
    LearningModelBinding,
)
from winml_py.core.base.cancellation import Stop
from winml_py.core.onnx_file.header import read_header
from winml_py.core.onnx_file.nodes import read_graph
from winml_py.core.runtime.cpu import choice
from winml_py.core.runtime.cpu.exact import inexact_reason
from winml_py.core.runtime.ort.compile import compile_with_ort
from winml_py.core.runtime.ort.ort_engine import OrtEngine
from winml_py.core.runtime.providers import plugins
from winml_py.core.runtime.providers.openvino import OPENVINO
from winml_py.core.runtime.providers.provider import ProviderDevice, Target
from winml_py.core.runtime.request import CompileRequest
from winml_py.core.runtime.runs import Bound

node = helper.make_node
BOOL, DOUBLE, UINT8 = TensorProto.BOOL, TensorProto.DOUBLE, TensorProto.UINT8
INT32, INT8, BFLOAT16, STRING = TensorProto.INT32, TensorProto.INT8, TensorProto.BFLOAT16, TensorProto.STRING

SIZES = {"two": np.array([1, -1]), "one": np.array(1), "zero": np.array(0)}
BIG = {"big": np.array([1 << 40]), "end": np.array([np.iinfo(np.int64).max]), "wide": np.arange(300.0)}
"""Constants that other engines compute in other types: the comparison of a session's first evaluation finds that."""


def model(nodes: list[Any], element: int = FLOAT, constants: Mapping[str, Any] = SIZES, made: int = FLOAT) -> bytes:
    """Nodes from x, and from y of the same type, to z."""
    ends = [tensor("x", [2, 3], element), tensor("y", [2, 3], element)]
    return data(nodes, ends, [tensor("z", ["a", "b"], made)], dict(constants))


def problem(nodes: list[Any], element: int = FLOAT, constants: Mapping[str, Any] = SIZES) -> str:
    content = model(nodes, element, constants)
    return inexact_reason(read_graph(content, read_header(content)), OPENVINO.exact_operators)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Add", ["x", "y"], ["s"]), node("Relu", ["s"], ["z"])],
        [node("Shape", ["x"], ["s"]), node("Add", ["s", "s"], ["t"]), node("ConstantOfShape", ["t"], ["z"])],
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["g"]), node("Cast", ["g"], ["z"], to=FLOAT)],
        [node("Gather", ["x", "zero"], ["z"], axis=1)],
        [node("Greater", ["x", "y"], ["t"]), node("Where", ["t", "x", "y"], ["z"])],
        [node("Dropout", ["x"], ["z", "mask"])],
        [node("ArgMax", ["x"], ["a"], axis=1), node("Cast", ["a"], ["z"], to=FLOAT)],
        [node("Reshape", ["x", "two"], ["z"])],
        [node("Constant", [], ["c"], value_float=2.0), node("Mul", ["x", "c"], ["z"])],
    ],
    ids=lambda nodes: "-".join(node.op_type for node in nodes),
)
@pytest.mark.parametrize("element", [FLOAT, FLOAT16])
def test_floats_and_sizes_are_exact(nodes: list[Any], element: int) -> None:
    assert problem(nodes, element) == ""


@pytest.mark.parametrize("element", [INT64, INT32, DOUBLE, UINT8, INT8, BFLOAT16, STRING])
def test_what_other_engines_compute_in_other_types_is_not_theirs(element: int) -> None:
    assert "x is not a tensor of float32, float16 or bool" in problem([node("Mul", ["x", "y"], ["z"])], element)


def test_truths_may_be_bound() -> None:
    assert problem([node("And", ["x", "y"], ["z"])], BOOL) == ""


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("Max", ["x", "y"], ["z"])], "the operator Max is not known"),
        ([node("Gelu", ["x"], ["z"], domain="com.microsoft")], "the operator Gelu is not known"),
        ([node("Cast", ["x"], ["i"], to=INT64), node("Cast", ["i"], ["z"], to=FLOAT)], "a Cast to integers"),
        ([node("Cast", ["x"], ["t"], to=BOOL), node("Cast", ["t"], ["z"], to=FLOAT)], "a Cast to integers"),
        ([node("Cast", ["x"], ["d"], to=DOUBLE), node("Cast", ["d"], ["z"], to=FLOAT)], "a Cast to integers"),
        ([node("Dropout", ["x"], ["d", "z"])], "the operator Dropout has outputs"),
        ([node("Resize", ["x", "", "r"], ["z"], antialias=1)], "the operator Resize has attributes"),
        ([node("MaxPool", ["x"], ["z"], kernel_shape=[1], ceil_mode=1)], "the operator MaxPool has attributes"),
        (
            [node("QuantizeLinear", ["x", "r"], ["q"]), node("Add", ["q", "q"], ["s"]), node("Shape", ["s"], ["z"])],
            "the operator Add computes with integers that depend",
        ),
    ],
)
def test_what_is_not_known_to_be_exact(nodes: list[Any], words: str) -> None:
    assert problem(nodes, constants=SIZES | {"r": np.float32(1)}).startswith(words)


def test_quantize_and_dequantize_are_exact() -> None:
    constants = {"scale": np.float32(0.1), "zero": np.uint8(3), "w": np.ones((3, 3), np.int8), "ws": np.float32(0.5)}
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        node("DequantizeLinear", ["w", "ws"], ["wd"]),
        node("MatMul", ["d", "wd"], ["z"]),
    ]
    assert problem(nodes, constants=constants) == ""


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (["Shape(h)", "Mul(_, big)"], ""),
        (["Shape(x)", "Slice(_, one, end)"], ""),
        (["Shape(x)", "Expand(_, big)"], "an Expand of sizes can end the process there"),
        (["Shape(x)", "Gather(_, zero)"], ""),
        (["Add(wide, wide)"], ""),
        (["NonZero(wide)"], ""),
        (["ArgMax(x)"], ""),
        (["ArgMax(x)", "Squeeze(_, zero)"], ""),
        (["ArgMax(x)", "Mul(_, big)"], "the operator Mul computes with integers that depend"),
        (["ArgMax(x)", "ArgMax(_)"], "the operator ArgMax computes with integers that depend"),
        (["ArgMax(x)", "ConstantOfShape(_)"], "the operator ConstantOfShape computes with integers that depend"),
        (["ArgMax(x)", "Reshape(x, _)"], "the operator Reshape computes with integers that depend"),
        (["ArgMax(x)", "Gather(x, _)"], "a Gather at computed positions"),
        (["Greater(x, x)", "Where(_, one, two)"], "the operator Where chooses between constants"),
        (["NonZero(x)"], "the output shape of NonZero depends on the values"),
        (["Range(x, x, x)"], "the output shape of Range depends on the values"),
        (["Resize(h, , x)"], "the output shape of Resize depends on the values"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_integers_depend_only_on_shapes(nodes: list[str], words: str) -> None:
    """Each node as operator(inputs); _ is what the one before gives, and h a value inside the model."""
    made = [node("Relu", ["x"], ["h"])]
    for number, text in enumerate(nodes):
        operator, _, rest = text.rstrip(")").partition("(")
        inputs = [f"v{number - 1}" if name == "_" else name for name in rest.split(", ")]
        made.append(node(operator, inputs, [f"v{number}"]))
    made.append(node("Cast", [f"v{len(nodes) - 1}"], ["z"], to=FLOAT))
    found = problem(made, constants=SIZES | BIG)
    assert found.startswith(words) if words else found == ""


def test_what_is_not_written_as_onnx_states_it_is_onnxruntimes_to_refuse() -> None:
    for broken in (node("Add", ["x"], ["z"]), node("Cast", [], ["z"], to=FLOAT), node("Slice", ["x"], ["z"])):
        problem([broken])
        with pytest.raises(CorruptModelError):
            open_session(model([broken]), engine="auto")


# A substitute for OpenVINO: ONNX Runtime's own kernels, on inputs whose NaN is replaced by 0, as Relu does there


DEVICE = ProviderDevice("OpenVINOExecutionProvider", "substitute", "", 0, "cpu", "substitute", "nobody")


class Blind(OrtEngine):
    """Counts its runs, and sees no NaN."""

    runs = 0
    closed = 0

    def run(self, bound: Bound, stop: Stop | None = None) -> Any:
        Blind.runs += 1
        inputs: Any = bound.inputs
        return super().run(Bound({name: np.nan_to_num(value) for name, value in inputs.items()}, bound.outputs), stop)

    def close(self) -> None:
        Blind.closed += 1
        super().close()


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> type[Blind]:
    def compile_blind(request: CompileRequest, target: Target) -> OrtEngine:
        if target.device is None:
            return compile_with_ort(request, target)
        engine = compile_with_ort(request, Target())
        made = Blind(engine._session, request.options, target)  # type: ignore[arg-type]
        engine.close()
        return made

    monkeypatch.setenv("WINML_PY_CACHE", "")
    monkeypatch.setattr(plugins, "devices", lambda _: [DEVICE])
    monkeypatch.setattr(choice, "compile_target", compile_blind)
    monkeypatch.setattr(choice, "open_or_compile_target", compile_blind)
    monkeypatch.setattr(choice, "_times", lambda targets, _: {each: 1.0 / (1 + i) for i, each in enumerate(targets)})
    monkeypatch.setattr(Blind, "runs", 0)
    monkeypatch.setattr(Blind, "closed", 0)
    return Blind


RELU = model([node("Sub", ["x", "y"], ["s"]), node("Relu", ["s"], ["z"])])


def raw(content: bytes, **inputs: np.ndarray) -> np.ndarray:
    return np.asarray(onnxruntime.InferenceSession(content).run(None, inputs)[0])


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_inputs_that_are_not_finite_go_to_onnxruntime(blind: type[Blind], odd: float) -> None:
    x, y = np.float32([[1, 2, 3], [4, 5, 6]]), np.zeros((2, 3), np.float32)
    with open_session(RELU, engine="auto") as made:
        made.evaluate_features({"x": x, "y": y})
        assert made.explain().engine == DEVICE.provider
        made.evaluate_features({"x": x, "y": y})
        before, binding, out = blind.runs, LearningModelBinding(made), np.zeros((2, 3), np.float32)
        binding.bind("x", x)
        binding.bind("y", y)
        binding.bind("z", out)
        made.evaluate(binding)
        np.testing.assert_array_equal(out, x)
        assert blind.runs == before + 1
        x[1, 1] = odd  # arrays are bound by reference
        made.evaluate(binding)
        np.testing.assert_array_equal(out, raw(RELU, x=x, y=y))
        assert blind.runs == before + 1
        x[1, 1] = 7
        made.evaluate(binding)
        np.testing.assert_array_equal(out, x)
        assert blind.runs == before + 2


def test_integers_stay_with_onnxruntime(blind: type[Blind]) -> None:
    content = model([node("Mul", ["x", "y"], ["z"])], INT64, made=INT64)
    with open_session(content, engine="auto") as made:
        assert made.engine == "onnxruntime"
        assert "openvino might give other results: the input x is not a tensor of float32" in str(made.explain())
        x, y = np.full((2, 3), 12345), np.full((2, 3), 1000003)
        came = made.evaluate_features({"x": x, "y": y}).outputs["z"].to_numpy()
    np.testing.assert_array_equal(came, x * y)
    assert blind.runs == 0


def test_closing_a_session_closes_both_engines(blind: type[Blind]) -> None:
    made = open_session(RELU, engine="auto")
    zeros, odd = np.zeros((2, 3), np.float32), np.full((2, 3), np.nan, np.float32)
    made.evaluate_features({"x": zeros, "y": zeros})
    result = made.evaluate_features({"x": odd, "y": zeros})
    assert np.isnan(result.outputs["z"].to_numpy()).all()
    assert blind.closed == 1  # the one that was measured
    made.close()
    assert blind.closed == 2


@pytest.mark.exhaustive
@pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="pip install openvino")
def test_random_models_over_integers_and_shapes() -> None:
    """In a process of its own, which OpenVINO may end. `.ci/run` compares two thousand; see integer_models.py."""
    program = [sys.executable, "-W", "ignore", integer_models.__file__, "--count", "500", "--seed", "0"]
    made = subprocess.run(
        program, env={**os.environ, "WINML_PY_CACHE": ""}, capture_output=True, text=True, check=False
    )
    assert made.stdout.startswith("500 models from seed 0: 0 differ"), made.stdout + made.stderr[-2000:]
    assert made.returncode == 0


@pytest.mark.exhaustive
@pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="pip install openvino")
def test_a_sample_of_the_conformance_suite() -> None:
    """`python tests/tools/exact_operators.py` compares all of it."""
    found = exact_operators.compare_all(case for number, case in enumerate(exact_operators.cases()) if number % 10 == 0)
    taken = [result for _, is_allowed, result in found if is_allowed]
    assert taken.count("right") > 40
    assert {result for result in taken if result not in ("right", "refused")} == set()
