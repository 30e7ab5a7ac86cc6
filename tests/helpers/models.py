"""Small ONNX models for tests, as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import winml_py
from winml_py import Tensor

FLOAT, FLOAT16, INT64, STRING = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.STRING

Shape = Sequence[int | str | None]

TENSOR_CLASSES = {
    cls.tensor_kind: cls
    for cls in (getattr(winml_py, name) for name in winml_py.__all__ if name.startswith("Tensor"))
    if issubclass(cls, Tensor) and cls is not Tensor
}
"""The tensor class of each element type."""


def tensor(name: str, shape: Shape, element: int = FLOAT, denotation: str = "", doc: str = "") -> onnx.ValueInfoProto:
    value = helper.make_tensor_value_info(name, element, shape, doc)
    value.type.denotation = denotation
    return value


def model(
    nodes: Iterable[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: dict[str, np.ndarray[Any, Any]] | None = None,
    *,
    metadata: dict[str, str] | None = None,
    opset: int = 17,
    ir_version: int = 8,
    domains: dict[str, int] | None = None,
    **properties: Any,
) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "test graph", inputs, outputs, tensors)
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(*item) for item in (domains or {}).items()]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
    helper.set_model_props(proto, metadata or {})
    for name, value in properties.items():
        setattr(proto, name, value)
    return proto


def data(*arguments: Any, **options: Any) -> bytes:
    """A model's bytes."""
    return model(*arguments, **options).SerializeToString()


def unary(operator: str = "Identity", shape: Shape = ("n",), element: int = FLOAT, **options: Any) -> bytes:
    """A model of one operator: x -> y."""
    denotation = options.pop("denotation", "")
    node = helper.make_node(operator, ["x"], ["y"], domain=options.pop("operator_domain", ""))
    ends = [tensor(name, shape, element, denotation) for name in "xy"]
    return data([node], ends[:1], ends[1:], **options)


def chain_matrices(side: int, rows: int | str = "rows", seed: int = 0, **options: Any) -> bytes:
    """Two square matrices that h0 is multiplied with, one after the other: h0 -> h2."""
    rng = np.random.default_rng(seed)
    weights = {f"w{index}": rng.random((side, side), np.float32) / side for index in range(2)}
    nodes = [helper.make_node("MatMul", [f"h{index}", f"w{index}"], [f"h{index + 1}"]) for index in range(2)]
    return data(nodes, [tensor("h0", [rows, side])], [tensor("h2", [rows, side])], weights, **options)


def counting_loop() -> bytes:
    """A loop of as many steps as `count` says: cheap nodes, and hours of them."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["still"]), helper.make_node("Add", ["total", "total"], ["next"])],
        "body",
        [tensor("step", [], INT64), tensor("go", [], TensorProto.BOOL), tensor("total", [])],
        [tensor("still", [], TensorProto.BOOL), tensor("next", [])],
    )
    node = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    return data([node], [tensor("count", [], INT64), tensor("x", [])], [tensor("y", [])])
