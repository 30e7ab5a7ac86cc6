"""Converts a float32 graph to float16, except for the nodes that stay in float32."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from ..core.base.arrays import Array
from ..core.imaging.contract import METADATA_KEYS
from ..core.runtime.gpu_compiler import TYPE_ATTRIBUTES
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
    owners_of_graphs: dict[ir.Graph, ir.Node | None] = {graph: None}
    for node in graph:
        for attribute in node.attributes.values():
            subgraphs = {ir.AttributeType.GRAPH: [attribute.value], ir.AttributeType.GRAPHS: attribute.value}
            for subgraph in subgraphs.get(attribute.type, ()):
                owners_of_graphs |= dict.fromkeys((subgraph, *subgraph.subgraphs()), node)
    owners = {node: owner or node for subgraph, owner in owners_of_graphs.items() for node in subgraph}
    return owners, owners_of_graphs


def convert_graph(model: ir.Model, plan: ConversionPlan) -> ir.Model:
    """A copy of a model in float16, apart from the plan's parts. Each value has one type; other types are cast once."""
    editor = _GraphEditor(model, plan)
    for value in editor.float16_values:
        value.dtype = FLOAT16
        if value.is_initializer():
            value.const_value = ir.tensor(_round_weight(value.const_value))
    for node, owner in editor.owners.items():
        if owner.name not in plan.kept:
            _convert_attributes(node)
    for value in editor.floats:
        # Some readers need the other type than the value has.
        to_float16 = value not in editor.float16_values
        readers = editor.find_readers(value, to_float16)
        editor.insert_casts(value, readers, FLOAT16 if to_float16 else FLOAT)
    if not plan.keep_io_types:  # the image contract states the type of its tensors
        metadata = editor.model.metadata_props
        metadata.update({key: "Float16" for key in METADATA_KEYS if metadata.get(key) == "Float"})
    # The casts are at the end, after the nodes that read them.
    editor.model.graph.sort()
    return editor.model


def make_rounded_graph(model: ir.Model, plan: ConversionPlan) -> ir.Model:
    """A float32 copy of a model whose values are rounded wherever the converted graph has, or passes on, float16.

    A CPU computes float16 models in float32, and omits casts between nodes; other hardware does not.
    """
    editor = _GraphEditor(model, plan)
    for value, graph in editor.floats.items():
        is_float16 = value in editor.float16_values
        if value.is_initializer() and is_float16:
            value.const_value = ir.tensor(_round_weight(value.const_value).astype(np.float32))
        elif graph is editor.model.graph and value.producer() is not None:
            readers = editor.find_readers(value, in_float16=True)
            if is_float16:
                readers += editor.find_readers(value, in_float16=False)
            editor.insert_casts(value, readers, FLOAT16, FLOAT, takes_name=is_float16)
    editor.model.graph.sort()
    return editor.model


class _GraphEditor:
    """Edits a copy of a model.

    Whether a node stays in float32 is decided for nodes of the main graph. A subgraph has the type of its node, so that
    casts are only needed between nodes of the main graph, and before inputs that are float32 in every precision.

    Attributes:
        model: the copy.
        owners: as `find_owners` finds them.
        floats: the float values outside the nodes that stay in float32, and the graph of each.
        float16_values: those of them that become float16.
    """

    def __init__(self, model: ir.Model, plan: ConversionPlan) -> None:
        self.model = model.clone()
        self._plan = plan
        graph = self.model.graph
        self.owners, owners_of_graphs = find_owners(graph)
        self._names = set(ir.convenience.create_value_mapping(graph))
        self._float_inputs: dict[str, list[int]] = dict(float16_converter.ALWAYS_FLOAT_INPUTS)
        if graph.opset_imports.get("", 1) < 11:
            self._float_inputs["Resize"] = [1]  # until then, the scales were its second input
        self.floats: dict[ir.Value, ir.Graph] = {}
        for subgraph, owner in owners_of_graphs.items():
            if owner is not None and owner.name in plan.kept:
                continue
            outputs = [output for node in subgraph for output in node.outputs]
            for value in (*subgraph.inputs, *subgraph.initializers.values(), *outputs):
                if value.dtype is FLOAT and value.name:  # an output without a name is omitted
                    self.floats[value] = subgraph
        for value in self.floats:
            value.type = copy.deepcopy(value.type)  # copies of a graph share it
        self.float16_values = {value for value in self.floats if self._is_float16(value)}

    def _is_float16(self, value: ir.Value) -> bool:
        node = value.producer()
        if node is not None:
            return self.owners[node].name not in self._plan.kept
        if value.is_initializer():
            if self.find_readers(value, in_float16=True):
                return True
            # Other weights, which only nodes that stay in float32 read, take half the space in float16.
            must_be_float = all(self._is_float_input(*use) for use in value.uses())
            return not must_be_float and not self._plan.keep_weights
        is_model_input = self.floats[value] is self.model.graph
        return not (is_model_input and self._plan.keep_io_types)

    def _is_float_input(self, node: ir.Node, index: int) -> bool:
        """Whether an input is float32 in every precision."""
        return index in self._float_inputs.get(node.op_type, ())

    def find_readers(self, value: ir.Value, in_float16: bool) -> list[_Reader]:
        """The inputs of nodes, and the output of the graph, that take a value in float16, or in float32."""
        readers: list[_Reader] = [use for use in value.uses() if self._takes_float16(*use) is in_float16]
        if value.is_graph_output():
            is_model_output = self.floats[value] is self.model.graph
            takes_float16 = not (is_model_output and self._plan.keep_io_types)
            if takes_float16 is in_float16:
                readers.append((None, 0))
        return readers

    def _takes_float16(self, node: ir.Node, index: int) -> bool:
        return self.owners[node].name not in self._plan.kept and not self._is_float_input(node, index)

    def insert_casts(
        self, value: ir.Value, readers: list[_Reader], *dtypes: ir.DataType, takes_name: bool = False
    ) -> None:
        """Lets readers read a value through casts; for an output of the graph, the last cast takes its name."""
        if not (readers or takes_name) or not isinstance(value.type, ir.TensorType):  # sequences cannot be cast
            return
        graph = self.floats[value]
        last = value
        for dtype in dtypes:
            name = f"{value.name}/{dtype.name.lower()}"
            while name in self._names:
                name += "_"
            self._names.add(name)
            cast = ir.val(name, type=ir.TensorType(dtype, denotation=value.type.denotation), shape=value.shape)
            graph.append(ir.node("Cast", [last], {"to": dtype.value}, outputs=[cast], name=name))
            last = cast
        for node, index in readers:
            if node is not None:
                node.replace_input_with(index, last)
            else:
                graph.outputs[graph.outputs.index(value)] = last
        if takes_name or last.is_graph_output():
            last.name, value.name = value.name, last.name
            last.doc_string = value.doc_string


def _round_weight(weight: Any) -> Array:
    """A tensor's numbers as float16; finite numbers stay finite, and nonzero ones nonzero."""
    array = weight.numpy()  # has the tensor's type with every version of onnx
    return np.asarray(float16_converter.convert_np_to_float16(array.reshape(-1))).reshape(array.shape)


_FLOAT16_ATTRIBUTES = {
    **dict.fromkeys(("RandomNormal", "RandomUniform", "SequenceEmpty"), ir.AttrInt64("dtype", FLOAT16.value)),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), ir.AttrInt64("output_datatype", FLOAT16.value)),
    "ConstantOfShape": ir.AttrTensor("value", ir.tensor([0.0], FLOAT16)),
}
"""The attributes of operators whose output would be float32 without them."""


def _convert_attributes(node: ir.Node) -> None:
    if attribute := _FLOAT16_ATTRIBUTES.get(node.op_type):
        node.attributes.setdefault(attribute.name, attribute)
    for name, attribute in list(node.attributes.items()):
        if name in TYPE_ATTRIBUTES and attribute.value == FLOAT:
            node.attributes[name] = ir.AttrInt64(name, FLOAT16.value)
        elif attribute.type is ir.AttributeType.TENSOR and attribute.value.dtype is FLOAT:
            node.attributes[name] = ir.AttrTensor(name, ir.tensor(_round_weight(attribute.value)))
