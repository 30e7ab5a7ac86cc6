"""The graph surgery: a float32 graph in float16, but for the nodes that stay in float32."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import ConversionError
from ...imaging.contract import OUR_KEYS
from ...runtime.gpu.float32_graph import TYPE_ATTRIBUTES

if TYPE_CHECKING:
    import onnx_ir as ir


class Choice(NamedTuple):
    """What stays in float32.

    Attributes:
        kept: the names of nodes of the main graph; the graphs inside them stay with them.
        keep_io_types: whether the model's inputs and outputs do.
        keep_weights: whether weights do that only nodes in float32 read.
    """

    kept: Collection[str]
    keep_io_types: bool
    keep_weights: bool


class _Reader(NamedTuple):
    """Who reads a value: an input of a node, or without a node the output of the graph; and whether in float16."""

    node: ir.Node | None
    index: int
    in_half: bool


def half_graph(model: ir.Model, choice: Choice) -> ir.Model:
    """A model in float16, but for what stays. Each value is held in one type, and cast once where that is not wanted.

    Args:
        model: as `read` gives it; it is not changed.
        choice: what stays.
    """
    surgery = _Surgery(model, choice)
    for value in surgery.halves:
        _halve_value(value)
    for node, owner in surgery.owners.items():
        if owner.name not in choice.kept:
            _halve_attributes(node)
    for value in surgery.floats:
        surgery.cast(value)
    for inner in surgery.floats:
        if not inner.is_graph_input() and not inner.is_graph_output():
            inner.type = None  # a file does not need it
    if not choice.keep_io_types:  # the image contract names the type of what it makes of pictures
        texts = surgery.model.metadata_props
        texts.update({key: "Float16" for key in OUR_KEYS if texts.get(key) == "Float"})
    surgery.model.graph.sort()
    return surgery.model


def rounded_graph(model: ir.Model, choice: Choice) -> ir.Model:
    """A float32 model whose values are rounded wherever `half_graph` would hold or hand them on in float16.

    A CPU computes float16 models in float32, and leaves out casts between nodes; other hardware does not.
    """
    surgery = _Surgery(model, choice)
    for value, graph in surgery.floats.items():
        if value.is_initializer() and value in surgery.halves:
            _set_numbers(value, _halved(numbers(value)).astype(np.float32))
        elif graph is surgery.model.graph and value.producer() is not None:
            surgery.round(value)
    surgery.model.graph.sort()
    return surgery.model


def is_float(value: ir.Value) -> bool:
    """Whether a value is known to be a tensor of float32."""
    import onnx_ir as ir

    return isinstance(value.type, ir.TensorType) and value.dtype is ir.DataType.FLOAT


def numbers(weight: ir.Value) -> np.ndarray[Any, Any]:
    """What a weight holds."""
    if weight.const_value is None:
        raise ConversionError(f"The weight {weight.name} has no numbers.")
    return weight.const_value.numpy()


def node_graphs(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs inside a node, and inside the nodes in them."""
    import onnx_ir as ir

    for attribute in node.attributes.values():
        if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
            for graph in [attribute.value] if attribute.type is ir.AttributeType.GRAPH else attribute.value:
                yield graph
                yield from graph.subgraphs()


def owners(graph: ir.Graph) -> dict[ir.Node, ir.Node]:
    """For each node, also inside others, the node of the main graph that it belongs to."""
    return {
        inner: node for node in graph for inner in (node, *(inner for inside in node_graphs(node) for inner in inside))
    }


class _Surgery:
    """A copy of a model, its floats with the graphs they are in, and those that are to be float16."""

    def __init__(self, model: ir.Model, choice: Choice) -> None:
        import onnx_ir as ir
        from onnxruntime.transformers.float16 import ALWAYS_FLOAT_INPUTS

        self.model, self._choice = model.clone(), choice
        graph = self.model.graph
        self.owners = owners(graph)
        self._names = set(ir.convenience.create_value_mapping(graph))
        # the scales of Resize were its second input before operator set 11
        old = {"Resize": [1]} if graph.opset_imports.get("", 1) < 11 else {}
        self._always_float: dict[str, list[int]] = ALWAYS_FLOAT_INPUTS | old
        unchanged = {inside for node in graph if node.name in choice.kept for inside in node_graphs(node)}
        self.floats = {
            value: each
            for each in self.model.graphs()
            if each not in unchanged
            for value in (*each.inputs, *each.initializers.values(), *(made for node in each for made in node.outputs))
            if value.type is not None and value.dtype is ir.DataType.FLOAT
        }
        self.halves = {value for value in self.floats if self._is_half(value)}

    def _is_half(self, value: ir.Value) -> bool:
        if (node := value.producer()) is not None:
            return self.owners[node].name not in self._choice.kept
        if value.is_initializer():
            kept = self._choice.kept if self._choice.keep_weights else ()
            return any(reader.in_half for reader in self._readers(value, kept))
        return self.floats[value] is not self.model.graph or not self._choice.keep_io_types

    def _readers(self, value: ir.Value, kept: Collection[str]) -> list[_Reader]:
        readers = []
        for node, index in value.uses():
            always_float = index in self._always_float.get(node.op_type, ())
            readers.append(_Reader(node, index, self.owners[node].name not in kept and not always_float))
        if value.is_graph_output():
            is_main = self.floats[value] is self.model.graph
            readers.append(_Reader(None, 0, not (is_main and self._choice.keep_io_types)))
        return readers

    def cast(self, value: ir.Value) -> None:
        """Casts a value for those who want it in the other type than it has."""
        import onnx_ir as ir

        to_half = value not in self.halves
        readers = [reader for reader in self._readers(value, self._choice.kept) if reader.in_half is to_half]
        if readers and isinstance(value.type, ir.TensorType):  # sequences cannot be cast
            self._hand_on(value, readers, ir.DataType.FLOAT16 if to_half else ir.DataType.FLOAT)

    def round(self, value: ir.Value) -> None:
        """Rounds a value to float16 and back for those who read it so."""
        import onnx_ir as ir

        is_half, readers = value in self.halves, self._readers(value, self._choice.kept)
        readers = [reader for reader in readers if is_half or reader.in_half]
        if is_float(value) and (readers or is_half):
            end = self._hand_on(value, readers, ir.DataType.FLOAT16, ir.DataType.FLOAT)
            if is_half and not end.is_graph_output():
                end.name, value.name = value.name, end.name  # nobody reads the exact value

    def _hand_on(self, value: ir.Value, readers: list[_Reader], *dtypes: ir.DataType) -> ir.Value:
        """Lets readers read a value through casts; an output of the graph keeps its name and what is said of it."""
        import onnx_ir as ir

        graph, end = self.floats[value], value
        for dtype in dtypes:
            name = f"{value.name}/{dtype.name.lower()}"
            while name in self._names:
                name += "_"
            self._names.add(name)
            cast = ir.node("Cast", [end], {"to": int(dtype)}, outputs=[ir.val(name, dtype)], name=name)
            graph.append(cast)
            end = cast.outputs[0]
        for node, index, _ in readers:
            if node is not None:
                node.replace_input_with(index, end)
            else:
                graph.outputs[graph.outputs.index(value)] = end
                end.name, value.name = value.name, end.name
                end.type, end.shape, end.doc_string = _typed(value, dtypes[-1]), value.shape, value.doc_string
        return end


def _typed(value: ir.Value, dtype: ir.DataType) -> ir.TypeProtocol:
    """A value's type with other elements. Copies of a graph share their types, so that none is changed in place."""
    changed: Any = copy.deepcopy(value.type)
    changed.dtype = dtype
    return changed  # type: ignore[no-any-return]


def _halve_value(value: ir.Value) -> None:
    import onnx_ir as ir

    value.type = _typed(value, ir.DataType.FLOAT16)
    if value.is_initializer():
        _set_numbers(value, _halved(numbers(value)))


def _set_numbers(weight: ir.Value, array: np.ndarray[Any, Any]) -> None:
    import onnx_ir as ir

    weight.const_value = ir.tensor(array, name=weight.name)


def _halved(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers as float16: none becomes infinite or zero that was not."""
    from onnxruntime.transformers.float16 import convert_np_to_float16

    halves: np.ndarray[Any, Any] = convert_np_to_float16(array.reshape(-1)).reshape(array.shape)
    return halves


_FLOAT_BY_DEFAULT = {
    **dict.fromkeys(("RandomNormal", "RandomUniform", "SequenceEmpty"), "dtype"),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), "output_datatype"),
}
"""Operators that give float32 where this attribute is not there."""


def _halve_attributes(node: ir.Node) -> None:
    import onnx_ir as ir

    attributes = node.attributes
    if default := _FLOAT_BY_DEFAULT.get(node.op_type):
        attributes.setdefault(default, ir.AttrInt64(default, int(ir.DataType.FLOAT)))
    if node.op_type == "ConstantOfShape":
        attributes.setdefault("value", ir.AttrTensor("value", ir.tensor([0.0], ir.DataType.FLOAT)))
    for name, attribute in list(attributes.items()):
        if name in TYPE_ATTRIBUTES and attribute.value == ir.DataType.FLOAT:
            attributes[name] = ir.AttrInt64(name, int(ir.DataType.FLOAT16))
        elif attribute.type is ir.AttributeType.TENSOR and attribute.value.dtype is ir.DataType.FLOAT:
            attributes[name] = ir.AttrTensor(name, ir.tensor(_halved(attribute.value.numpy())))
