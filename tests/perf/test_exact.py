"""Which models `tune` may give to another engine."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from helpers.models import FLOAT, FLOAT16, INT64, data, tensor
from helpers.sessions import open_session
from tools import exact_operators, integer_models
from winml_py import (
    CorruptModelError,
)
from winml_py.core.onnx_file.header import read_header
from winml_py.core.onnx_file.nodes import read_graph
from winml_py.core.runtime.providers.openvino import OPENVINO
from winml_py.perf.exact import find_inexact_reason

node = helper.make_node
BOOL, DOUBLE, UINT8 = TensorProto.BOOL, TensorProto.DOUBLE, TensorProto.UINT8
INT32, INT8, BFLOAT16, STRING = TensorProto.INT32, TensorProto.INT8, TensorProto.BFLOAT16, TensorProto.STRING

SIZES = {"two": np.array([1, -1]), "one": np.array(1), "zero": np.array(0)}
BIG = {"big": np.array([1 << 40]), "end": np.array([np.iinfo(np.int64).max]), "wide": np.arange(300.0)}
"""Constants that other engines compute in other types: the comparison of the results finds that."""


def model(nodes: list[Any], element: int = FLOAT, constants: Mapping[str, Any] = SIZES, made: int = FLOAT) -> bytes:
    """Nodes from x, and from y of the same type, to z."""
    ends = [tensor("x", [2, 3], element), tensor("y", [2, 3], element)]
    return data(nodes, ends, [tensor("z", ["a", "b"], made)], dict(constants))


def problem(nodes: list[Any], element: int = FLOAT, constants: Mapping[str, Any] = SIZES) -> str:
    content = model(nodes, element, constants)
    return find_inexact_reason(read_graph(content, read_header(content)), OPENVINO.exact_operators)


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
        (["Shape(x)", "Expand(_, big)"], "an Expand of an empty shape can crash this engine"),
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
            open_session(model([broken]))


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
