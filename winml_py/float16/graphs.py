"""ONNX graphs as a conversion needs them: walked, named, run, freed of what would be wrong afterwards."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..binding import LearningModelBinding
from ..descriptors import ImageFeatureDescriptor, TensorFeatureDescriptor
from ..model import LearningModel
from ..session import LearningModelSession
from ..values.tensors import TENSOR_CLASSES

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

Array = np.ndarray[Any, Any]

PROTOBUF_LIMIT = 1_900_000_000
"""Bytes of a model above which its weights go to a file of their own; protobuf holds 2 GiB."""


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and all that are inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                if inner.node:
                    yield from graphs(inner)


def all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    """The nodes of all graphs of a model."""
    for graph in graphs(model.graph):
        yield from graph.node


def prepared(model: ModelProto) -> ModelProto:
    """A copy that converters understand: no local functions, a name for each node, weights that are no inputs."""
    import onnx
    from onnx import inliner

    model = inliner.inline_local_functions(model) if model.functions else onnx.ModelProto.FromString(_bytes(model))
    _free_the_inputs(model)
    if all(opset.domain not in ("", "ai.onnx") for opset in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid("", _CASTS_FROM))
    name_nodes(model)
    return model


_CASTS_FROM = 13
"""The operator set a model of other domains alone imports for the casts it gets."""


def _free_the_inputs(model: ModelProto) -> None:
    """Takes weights out of the inputs, where older models list them, and weights nobody uses out of the model."""
    model.ir_version = max(model.ir_version, 4)  # up to 3, weights had to be listed
    used = {name for node in all_nodes(model) for name in node.input}
    used.update(output.name for graph in graphs(model.graph) for output in graph.output)
    for graph in graphs(model.graph):
        weights = {weight.name for weight in graph.initializer}
        plain = [value for value in graph.input if value.name not in weights]
        del graph.input[:]
        graph.input.extend(plain)
        kept = [weight for weight in graph.initializer if weight.name in used]
        if len(kept) < len(graph.initializer):
            del graph.initializer[:]
            graph.initializer.extend(kept)


def name_nodes(model: ModelProto) -> None:
    """Gives each node a name of its own."""
    names: set[str] = set()
    for index, node in enumerate(all_nodes(model)):
        if not node.name or node.name in names:
            node.name = f"{node.name or node.op_type}_{index}"
        names.add(node.name)


def _bytes(model: ModelProto) -> bytes:
    return bytes(model.SerializeToString())


def without_value_info(model: ModelProto) -> None:
    """Takes out what the model says of its inner values: after a conversion it would be wrong."""
    for graph in graphs(model.graph):
        del graph.value_info[:]


def inner_types(model: ModelProto) -> dict[str, int]:
    """The element types of the main graph's inner values, as far as they can be told."""
    import onnx

    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except (ValueError, RuntimeError):  # above 2 GiB, or beyond what inference knows
        return {}
    return {value.name: value.type.tensor_type.elem_type for value in inferred.graph.value_info}


def run(model: ModelProto, inputs: Mapping[str, Array], also: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Evaluates a model: its outputs as arrays, lists and dicts, by name.

    Args:
        model: what to run; it is not changed.
        inputs: by name.
        also: inner values to give out, too, and their element types.
    """
    import onnx

    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    for output in whole.graph.output:
        output.type.denotation = ""  # a tensor, and no picture of bytes
    for name, kind in (also or {}).items():
        whole.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
    with tempfile.TemporaryDirectory() as folder:
        session = LearningModelSession(_loaded(whole, folder))
        binding = LearningModelBinding(session)
        for name, value in inputs.items():
            binding.bind(name, value)
        for feature in session.model.output_features:
            if isinstance(feature, (TensorFeatureDescriptor, ImageFeatureDescriptor)):
                binding.bind(feature.name, TENSOR_CLASSES[feature.tensor_kind].create())
        outputs = session.evaluate(binding).outputs
        session.close()
    return {name: value.to_numpy() if hasattr(value, "to_numpy") else value for name, value in outputs.items()}


def _loaded(model: ModelProto, folder: str) -> LearningModel:
    if model.ByteSize() < PROTOBUF_LIMIT:
        return LearningModel.load(_bytes(model))
    path = os.path.join(folder, "model.onnx")
    save(model, path)
    return LearningModel.load(path)


def save(model: ModelProto, path: str) -> None:
    """Writes a model, with its weights beside it where protobuf cannot hold them. Nothing is left half-written."""
    import onnx

    from ..files import written_whole

    if model.ByteSize() < PROTOBUF_LIMIT:
        with written_whole(path) as file:
            file.write(_bytes(model))
        return
    folder = os.path.dirname(os.path.abspath(path))
    location = os.path.basename(path) + ".data"
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        temporary = os.path.join(inside, "model.onnx")
        onnx.save(model, temporary, save_as_external_data=True, location=location)
        os.replace(os.path.join(inside, location), os.path.join(folder, location))
        os.replace(temporary, path)


def producers(nodes: Iterable[NodeProto]) -> dict[str, NodeProto]:
    """The node that gives each value."""
    return {name: node for node in nodes for name in node.output if name}


def join_casts(model: ModelProto, inserted: set[str]) -> None:
    """Lets values that were rounded only to be widened again pass as they are.

    The converter casts each node that stays in float32 by itself; between two of them, that would round, or overflow.

    Args:
        model: changed in place.
        inserted: the names of the nodes that the converter put in.
    """
    for graph in graphs(model.graph):
        made = producers(graph.node)
        for node in graph.node:
            if node.name not in inserted or _target(node) != 1:
                continue
            before = made.get(node.input[0])
            if before is not None and before.name in inserted and _target(before) == 10:
                for user in graph.node:
                    for index, name in enumerate(user.input):
                        if name == node.output[0]:
                            user.input[index] = before.input[0]
        _drop_unused(graph, inserted)


def drop_twins(model: ModelProto) -> None:
    """Takes out nodes that give a value which another one gives already.

    The converter casts a value once for each node that stays in float32, under one name.
    """
    for graph in graphs(model.graph):
        given: set[str] = set()
        kept = []
        for node in graph.node:
            if not given.intersection(filter(None, node.output)):
                kept.append(node)
            given.update(filter(None, node.output))
        if len(kept) < len(graph.node):
            del graph.node[:]
            graph.node.extend(kept)


def _target(node: NodeProto) -> int:
    """The type that a node casts to; 0 for other nodes."""
    if node.op_type != "Cast":
        return 0
    return next((attribute.i for attribute in node.attribute if attribute.name == "to"), 0)


def _drop_unused(graph: GraphProto, candidates: set[str]) -> None:
    while True:
        used = {output.name for output in graph.output}
        for inner in graphs(graph):
            used.update(name for node in inner.node for name in node.input)
            used.update(output.name for output in inner.output)
        dead = [node for node in graph.node if node.name in candidates and not used.intersection(node.output)]
        if not dead:
            return
        for node in dead:
            graph.node.remove(node)
