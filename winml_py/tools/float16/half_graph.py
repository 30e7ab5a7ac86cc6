"""The graph surgery: a float32 graph in float16, but for the nodes that stay in float32."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ConversionError
from ...imaging.contract import OUR_KEYS
from ...runtime.gpu.float32_graph import TYPE_ATTRIBUTES

if TYPE_CHECKING:
    import onnx_ir as ir

LARGEST = float(np.finfo(np.float16).max)


def half_graph(model: ir.Model, kept: Collection[str], keep_io_types: bool, halve_all_weights: bool) -> ir.Model:
    """A model in float16, but for some nodes.

    Every value is held in one of the two types, and cast once where a reader wants the other.

    Args:
        model: as `read` gives it; it is not changed.
        kept: the names of the nodes of the main graph that stay in float32, with the graphs inside them.
        keep_io_types: whether the model's inputs and outputs stay in float32.
        halve_all_weights: whether weights that only nodes in float32 read are held in float16, too.
    """
    surgery = _Surgery(model, kept, keep_io_types, halve_all_weights)
    for value in surgery.halves:
        _halve_value(value)
    for node, owner in surgery.owners.items():
        if owner.name not in kept:
            _halve_attributes(node)
    for value in surgery.floats:
        surgery.cast_for_readers(value)
    surgery.sort()
    for graph in surgery.model.graphs():
        for value in _made_in(graph):
            if not value.is_graph_output():
                value.type = value.shape = None  # a file needs them no more, and they take room
    if not keep_io_types:  # the image contract names the type of what it makes of pictures
        texts = surgery.model.metadata_props
        texts.update({key: "Float16" for key in OUR_KEYS if texts.get(key) == "Float"})
    return surgery.model


def rounded_graph(model: ir.Model, kept: Collection[str], keep_io_types: bool, halve_all_weights: bool) -> ir.Model:
    """A float32 model whose values are rounded wherever `half_graph` would hold or hand them on in float16.

    A CPU computes float16 models in float32, and leaves out casts between nodes; other hardware does not.
    """
    surgery = _Surgery(model, kept, keep_io_types, halve_all_weights)
    for value, graph in surgery.floats.items():
        if graph is surgery.model.graph and not value.is_graph_input():
            surgery.round_for_readers(value)
    surgery.sort()
    return surgery.model


def is_float(value: ir.Value | None) -> bool:
    """Whether a value is known to be a tensor of float32."""
    import onnx_ir as ir

    return value is not None and isinstance(value.type, ir.TensorType) and value.dtype is ir.DataType.FLOAT


def node_graphs(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs inside a node, and inside the nodes in them."""
    import onnx_ir as ir

    for attribute in node.attributes.values():
        if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
            for graph in [attribute.value] if attribute.type is ir.AttributeType.GRAPH else attribute.value:
                yield graph
                yield from graph.subgraphs()


def name_of(item: ir.Node | ir.Value) -> str:
    """The name of a node or a value, which all have in a model from `read`."""
    return item.name or ""


def numbers(weight: ir.Value) -> np.ndarray[Any, Any]:
    """What a weight holds."""
    if weight.const_value is None:
        raise ConversionError(f"The weight {weight.name} has no numbers.")
    return weight.const_value.numpy()


def owners(graph: ir.Graph) -> dict[ir.Node, ir.Node]:
    """For each node, also inside others, the node of the main graph that it belongs to."""
    return {
        inner: node for node in graph for inner in (node, *(inner for inside in node_graphs(node) for inner in inside))
    }


def without_float16() -> set[str]:
    """The operators that have no float16, as ONNX Runtime's own converter lists them."""
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST

    return set(DEFAULT_OP_BLOCK_LIST)


class _Surgery:
    """A copy of a model, and which of its floats are to be float16."""

    def __init__(self, model: ir.Model, kept: Collection[str], keep_io_types: bool, halve_all_weights: bool) -> None:
        import onnx_ir as ir

        self.model = model.clone()
        graph = self.model.graph
        self.owners = owners(graph)
        self._kept, self._keep_io_types = kept, keep_io_types
        self._names = set(ir.convenience.create_value_mapping(graph))
        self._always_float = _always_float(graph.opset_imports.get("", 1))
        inside_kept = {inside for node in graph if node.name in kept for inside in node_graphs(node)}
        changed = [each for each in self.model.graphs() if each not in inside_kept]
        self.floats = {
            value: each for each in changed for value in (*each.inputs, *_made_in(each)) if _holds_floats(value)
        }
        self.halves = {value for value in self.floats if self._is_half(value, halve_all_weights)}

    def _is_half(self, value: ir.Value, halve_all_weights: bool) -> bool:
        if (node := value.producer()) is not None:
            return self.owners[node].name not in self._kept
        if value.is_graph_input():
            return self.floats[value] is not self.model.graph or not self._keep_io_types
        if halve_all_weights and self.floats[value] is self.model.graph:
            return value.is_graph_output() or not all(self._is_always_float(*use) for use in value.uses())
        return bool(self._readers(value, half=True)) or self._is_half_output(value)

    def _is_always_float(self, node: ir.Node, index: int) -> bool:
        return index in self._always_float.get(node.op_type, ())

    def _readers(self, value: ir.Value, half: bool) -> list[tuple[ir.Node, int]]:
        """The readers that want a value in float16, or those that want it in float32."""
        found = []
        for node, index in value.uses():
            wants_half = self.owners[node].name not in self._kept and not self._is_always_float(node, index)
            if wants_half is half:
                found.append((node, index))
        return found

    def _is_half_output(self, value: ir.Value) -> bool:
        return value.is_graph_output() and not (self._keep_io_types and self.floats[value] is self.model.graph)

    def cast_for_readers(self, value: ir.Value) -> None:
        """Casts a value for those who want it in the other type than it has."""
        import onnx_ir as ir

        if not isinstance(value.type, ir.TensorType):  # there is no cast for sequences
            return
        to_half = value not in self.halves
        readers = self._readers(value, to_half)
        is_output = value.is_graph_output() and self._is_half_output(value) is to_half
        if readers or is_output:
            self._cast(value, [ir.DataType.FLOAT16 if to_half else ir.DataType.FLOAT], readers, is_output)

    def round_for_readers(self, value: ir.Value) -> None:
        """Rounds a value to float16 and back for those who read it so."""
        import onnx_ir as ir

        if value.is_initializer():
            if value in self.halves:
                _round_weight(value)
        elif isinstance(value.type, ir.TensorType):
            is_half = value in self.halves
            readers = list(value.uses()) if is_half else self._readers(value, half=True)
            if is_half or readers or self._is_half_output(value):
                self._cast(value, [ir.DataType.FLOAT16, ir.DataType.FLOAT], readers, True)

    def _cast(self, value: ir.Value, kinds: Iterable[Any], readers: list[Any], takes_name: bool) -> None:
        """Lets readers read a value through casts; the end of them takes its name, where it is an output of that."""
        import onnx_ir as ir

        graph, end = self.floats[value], value
        for kind in kinds:
            name = self._unused(f"{value.name}/{kind.name.lower()}")
            made = ir.val(name, kind, value.shape)
            graph.append(ir.node("Cast", [end], {"to": int(kind)}, outputs=[made], name=name))
            end = made
        for node, index in readers:
            node.replace_input_with(index, end)
        if takes_name:
            end.name, value.name = value.name, end.name
            for index, output in enumerate(graph.outputs):
                if output is value:
                    graph.outputs[index] = end
                    end.shape, end.doc_string = value.shape, value.doc_string
                    end.type = _with_dtype(value, end.dtype)

    def _unused(self, name: str) -> str:
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name

    def sort(self) -> None:
        """Brings the casts, which are added at the end, before those who read them."""
        self.model.graph.sort()


def _made_in(graph: ir.Graph) -> Iterator[ir.Value]:
    """The weights of a graph and what its nodes give."""
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs


def _holds_floats(value: ir.Value) -> bool:
    import onnx_ir as ir

    return value.type is not None and value.dtype is ir.DataType.FLOAT


def _always_float(opset: int) -> dict[str, list[int]]:
    """The inputs, by operator, that are float32 also where the operator computes in float16."""
    from onnxruntime.transformers.float16 import ALWAYS_FLOAT_INPUTS

    # the scales of Resize moved with operator set 11
    operators: dict[str, list[int]] = ALWAYS_FLOAT_INPUTS | ({"Resize": [1]} if opset < 11 else {})
    return operators


def _with_dtype(value: ir.Value, dtype: Any) -> Any:
    """A value's type with other elements; clones share types, so that none is changed in place."""
    changed: Any = copy.deepcopy(value.type)
    changed.dtype = dtype
    return changed


def _halve_value(value: ir.Value) -> None:
    import onnx_ir as ir

    value.type = _with_dtype(value, ir.DataType.FLOAT16)
    if value.is_initializer():
        value.const_value = ir.tensor(_half_numbers(numbers(value)), name=value.name)


def _round_weight(value: ir.Value) -> None:
    import onnx_ir as ir

    halves = _half_numbers(numbers(value))
    value.const_value = ir.tensor(halves.astype(np.float32), name=value.name)


def _half_numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers as float16: none becomes infinite or zero that was not."""
    from onnxruntime.transformers.float16 import convert_np_to_float16

    halves: np.ndarray[Any, Any] = convert_np_to_float16(array.reshape(-1)).reshape(array.shape)
    return halves


_FLOAT_BY_DEFAULT = {
    "RandomNormal": "dtype",
    "RandomUniform": "dtype",
    "SequenceEmpty": "dtype",
    "BlackmanWindow": "output_datatype",
    "HammingWindow": "output_datatype",
    "HannWindow": "output_datatype",
}
"""Operators that give float32 where this attribute is not there."""


def _halve_attributes(node: ir.Node) -> None:
    import onnx_ir as ir

    if node.domain == "" and node.op_type in _FLOAT_BY_DEFAULT:
        node.attributes.setdefault(name := _FLOAT_BY_DEFAULT[node.op_type], ir.AttrInt64(name, ir.DataType.FLOAT))
    if node.domain == "" and node.op_type == "ConstantOfShape" and "value" not in node.attributes:
        node.attributes.add(ir.AttrTensor("value", ir.tensor([0.0], ir.DataType.FLOAT)))
    for name, attribute in list(node.attributes.items()):
        if name in TYPE_ATTRIBUTES and attribute.value == ir.DataType.FLOAT:
            node.attributes[name] = ir.AttrInt64(name, int(ir.DataType.FLOAT16))
        elif attribute.type is ir.AttributeType.TENSOR and attribute.value.dtype is ir.DataType.FLOAT:
            node.attributes[name] = ir.AttrTensor(name, ir.tensor(_half_numbers(attribute.value.numpy())))
