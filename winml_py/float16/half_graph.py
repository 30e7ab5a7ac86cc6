"""Graph surgery: turns a float32 graph into float16, except for the nodes that stay in float32."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from ..core.base.arrays import Array
from ..core.imaging.contract import METADATA_KEYS
from ..core.runtime.gpu.float32 import TYPE_ATTRIBUTES
from ..core.runtime.ort.transformers import float16_converter

FLOAT, FLOAT16 = ir.DataType.FLOAT, ir.DataType.FLOAT16


_Reader = tuple[ir.Node | None, int]
"""A node's input that reads a value; without a node, the graph's output."""


class ConversionPlan(NamedTuple):
    """What stays in float32: nodes of the main graph, inputs and outputs, and weights that only such nodes read."""

    kept: Collection[str]
    keep_io_types: bool
    keep_weights: bool


def find_owners(graph: ir.Graph) -> tuple[dict[ir.Node, ir.Node], dict[ir.Graph, ir.Node | None]]:
    """The main graph's node that is, or contains, each node; and the node that contains each graph."""
    of_graphs: dict[ir.Graph, ir.Node | None] = {graph: None}
    for node in graph:
        for attribute in node.attributes.values():
            held = {ir.AttributeType.GRAPH: [attribute.value], ir.AttributeType.GRAPHS: attribute.value}
            for inner in held.get(attribute.type, ()):
                of_graphs |= dict.fromkeys((inner, *inner.subgraphs()), node)
    return {node: owner or node for inner, owner in of_graphs.items() for node in inner}, of_graphs


def half_graph(model: ir.Model, plan: ConversionPlan) -> ir.Model:
    """A copy of a model in float16, apart from the plan's parts. Each value has one type; other types are cast once."""
    surgery = _GraphSurgery(model, plan)
    for value in surgery.halves:
        value.dtype = FLOAT16
        if value.is_initializer():
            value.const_value = ir.tensor(_halve(value.const_value))
    for node, owner in surgery.owners.items():
        if owner.name not in plan.kept:
            _halve_attributes(node)
    for value in surgery.floats:
        to_half = value not in surgery.halves
        surgery.route_through_casts(value, surgery.readers(value, to_half), FLOAT16 if to_half else FLOAT)
    if not plan.keep_io_types:  # the image contract states the type of its tensors
        texts = surgery.model.metadata_props
        texts.update({key: "Float16" for key in METADATA_KEYS if texts.get(key) == "Float"})
    # The casts are at the end, after the nodes that read them.
    surgery.model.graph.sort()
    return surgery.model


def rounded_graph(model: ir.Model, plan: ConversionPlan) -> ir.Model:
    """A float32 model whose values are rounded wherever `half_graph` would hold them, or pass them on, in float16.

    A CPU computes float16 models in float32, and omits casts between nodes; other hardware does not.
    """
    surgery = _GraphSurgery(model, plan)
    for value, graph in surgery.floats.items():
        if value.is_initializer() and value in surgery.halves:
            value.const_value = ir.tensor(_halve(value.const_value).astype(np.float32))
        elif graph is surgery.model.graph and value.producer() is not None:
            is_half = value in surgery.halves
            readers = surgery.readers(value, True) + (surgery.readers(value, False) if is_half else [])
            surgery.route_through_casts(value, readers, FLOAT16, FLOAT, takes_name=is_half)
    surgery.model.graph.sort()
    return surgery.model


class _GraphSurgery:
    """A copy of a model, its floats with the graphs they are in, and the floats that become float16.

    The choice is made for nodes of the main graph. A subgraph has the type of its node, so that casts are only needed
    between nodes of the main graph, and before inputs that are float32 in every precision.
    """

    def __init__(self, model: ir.Model, plan: ConversionPlan) -> None:
        self.model, self._plan = model.clone(), plan
        graph = self.model.graph
        self.owners, owners_of_graphs = find_owners(graph)
        self._names = set(ir.convenience.create_value_mapping(graph))
        # the scales of Resize were its second input before operator set 11
        old = {"Resize": [1]} if graph.opset_imports.get("", 1) < 11 else {}
        self._always_float: dict[str, list[int]] = float16_converter.ALWAYS_FLOAT_INPUTS | old
        self.floats = {
            value: each
            for each, owner in owners_of_graphs.items()
            if owner is None or owner.name not in plan.kept
            for value in (
                *each.inputs,
                *each.initializers.values(),
                *(output for node in each for output in node.outputs),
            )
            if value.dtype is FLOAT and value.name  # an output without a name is omitted
        }
        for value in self.floats:
            value.type = copy.deepcopy(value.type)  # copies of a graph share it
        self.halves = {value for value in self.floats if self._is_half(value)}

    def _is_half(self, value: ir.Value) -> bool:
        if (node := value.producer()) is not None:
            return self.owners[node].name not in self._plan.kept
        if value.is_initializer():
            is_free = not all(self._is_always_float(*use) for use in value.uses())
            return bool(self.readers(value, True)) or (is_free and not self._plan.keep_weights)
        return self.floats[value] is not self.model.graph or not self._plan.keep_io_types

    def _is_always_float(self, node: ir.Node, index: int) -> bool:
        return index in self._always_float.get(node.op_type, ())

    def readers(self, value: ir.Value, in_half: bool) -> list[_Reader]:
        """The readers of a value in float16, or in float32: inputs of nodes, and None for the output of the graph."""
        readers: list[_Reader] = [use for use in value.uses() if self._wants_half(*use) is in_half]
        ends_in_float = self._plan.keep_io_types and self.floats[value] is self.model.graph
        return [*readers, (None, 0)] if value.is_graph_output() and ends_in_float is not in_half else readers

    def _wants_half(self, node: ir.Node, index: int) -> bool:
        return self.owners[node].name not in self._plan.kept and not self._is_always_float(node, index)

    def route_through_casts(
        self, value: ir.Value, readers: list[_Reader], *dtypes: ir.DataType, takes_name: bool = False
    ) -> None:
        """Lets readers read a value through casts; for an output of the graph, the last cast takes its name."""
        if not (readers or takes_name) or not isinstance(value.type, ir.TensorType):  # sequences cannot be cast
            return
        graph, end = self.floats[value], value
        for dtype in dtypes:
            name = f"{value.name}/{dtype.name.lower()}"
            while name in self._names:
                name += "_"
            self._names.add(name)
            cast = ir.val(name, type=ir.TensorType(dtype, denotation=value.type.denotation), shape=value.shape)
            graph.append(ir.node("Cast", [end], {"to": dtype.value}, outputs=[cast], name=name))
            end = cast
        for node, index in readers:
            if node is not None:
                node.replace_input_with(index, end)
            else:
                graph.outputs[graph.outputs.index(value)] = end
        if takes_name or end.is_graph_output():
            end.name, value.name, end.doc_string = value.name, end.name, value.doc_string


def _halve(weight: Any) -> Array:
    """A tensor's numbers as float16; finite numbers stay finite, and nonzero ones nonzero."""
    array = weight.numpy()  # has the tensor's type with every version of onnx
    return np.asarray(float16_converter.convert_np_to_float16(array.reshape(-1))).reshape(array.shape)


_NO_DEFAULT = {
    **dict.fromkeys(("RandomNormal", "RandomUniform", "SequenceEmpty"), ir.AttrInt64("dtype", FLOAT16.value)),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), ir.AttrInt64("output_datatype", FLOAT16.value)),
    "ConstantOfShape": ir.AttrTensor("value", ir.tensor([0.0], FLOAT16)),
}
"""The attributes for operators that would otherwise give float32."""


def _halve_attributes(node: ir.Node) -> None:
    if default := _NO_DEFAULT.get(node.op_type):
        node.attributes.setdefault(default.name, default)
    for name, attribute in list(node.attributes.items()):
        if name in TYPE_ATTRIBUTES and attribute.value == FLOAT:
            node.attributes[name] = ir.AttrInt64(name, FLOAT16.value)
        elif attribute.type is ir.AttributeType.TENSOR and attribute.value.dtype is FLOAT:
            node.attributes[name] = ir.AttrTensor(name, ir.tensor(_halve(attribute.value)))
