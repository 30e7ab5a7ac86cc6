"""ONNX graphs as a conversion needs them: walked, named, run, freed of what would be wrong afterwards."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...features.descriptors import ImageFeatureDescriptor, TensorFeatureDescriptor
from ...features.tensor_classes import TENSOR_CLASSES
from ...session.binding import LearningModelBinding
from ...session.model import LearningModel
from ...session.session import LearningModelSession

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

Array = np.ndarray[Any, Any]

PROTOBUF_LIMIT = 1_900_000_000
"""Bytes of a model above which its weights go to a file of their own; protobuf holds 2 GiB."""


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and all that are inside its nodes."""
    yield graph
    for node in graph.node:
        yield from inner_graphs(node)


def inner_graphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs inside a node, and inside the nodes in them."""
    for attribute in node.attribute:
        for inner in [attribute.g, *attribute.graphs]:
            if inner.node or inner.output:
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
    _spell_constants(model)
    _part_weights_from_outputs(model)
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


def _part_weights_from_outputs(model: ModelProto) -> None:
    """Puts a node between a weight and an output of its name: the two may come to be of different types."""
    import onnx

    outputs = {output.name for output in model.graph.output}
    for weight in model.graph.initializer:
        if weight.name in outputs:
            inner = f"{weight.name}/weight"
            model.graph.node.append(onnx.helper.make_node("Identity", [inner], [weight.name]))
            _rename(model.graph, {weight.name: inner})
            weight.name = inner


def _spell_constants(model: ModelProto) -> None:
    """Writes constant floats as tensors, the one way that converters know."""
    import onnx

    for node in all_nodes(model):
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.name in ("value_float", "value_floats"):
                value = attribute.f if attribute.name == "value_float" else list(attribute.floats)
                tensor = onnx.numpy_helper.from_array(np.array(value, np.float32))
                attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))


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
        inputs_too = {feature.name for feature in session.model.input_features}
        for feature in session.model.output_features:
            if feature.name not in inputs_too and isinstance(
                feature, (TensorFeatureDescriptor, ImageFeatureDescriptor)
            ):
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

    from ...base.atomic_files import written_whole

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
        outputs = {output.name for output in graph.output}
        for node in list(graph.node):
            before = made.get(node.input[0]) if node.name in inserted and _target(node) == 1 else None
            if before is None or before.name not in inserted or _target(before) != 10:
                continue
            exact, widened = before.input[0], node.output[0]
            if widened not in outputs:
                _rename(graph, {widened: exact})
            elif exact in made and exact not in outputs:
                graph.node.remove(node)
                _rename(graph, {exact: widened})
                made[exact].output[list(made[exact].output).index(exact)] = widened
        _drop_unused(graph, inserted)


def _rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Lets all that read one value, in inner graphs too, read another."""
    for inner in graphs(graph):
        for node in inner.node:
            for index, name in enumerate(node.input):
                if name in names:
                    node.input[index] = names[name]


def mend_inner_graphs(model: ModelProto, inserted: set[str], kept: set[str]) -> None:
    """Does what the converter leaves undone in the graphs inside nodes: casts of inputs, and types of outputs."""
    casts = {
        node.input[0]: node.output[0]
        for node in model.graph.node
        if node.name in inserted and node.name.startswith("graph_input_cast")
    }
    for node in model.graph.node:
        for attribute in node.attribute if node.name not in kept else ():
            for inner in [attribute.g, *attribute.graphs]:
                if inner.node:
                    _rename(inner, casts)
    for graph in list(graphs(model.graph))[1:]:
        for output in graph.output:
            if output.type.tensor_type.elem_type in (1, 10):
                output.ClearField("type")  # the engine infers it


def rounded(model: ModelProto, kept: set[str], names: Iterable[str]) -> ModelProto:
    """A float32 model whose values are rounded to float16 wherever a float16 model would hold them so.

    A CPU computes float16 models in float32, and leaves out casts between nodes; other hardware does not.

    Args:
        model: prepared; it is not changed.
        kept: the nodes whose values stay as they are.
        names: the values of the main graph that are floats.
    """
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    without_value_info(copy)
    floats = set(names)
    taken = {name for node in all_nodes(copy) for name in (*node.input, *node.output)}
    users: dict[str, list[NodeProto]] = {}
    for node in copy.graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    nodes = []
    for node in copy.graph.node:
        nodes.append(node)
        for index, name in enumerate(node.output):
            stays = node.name in kept and all(user.name in kept for user in users.get(name, ()))
            if name in floats and not (stays and users.get(name)):
                exact, half = (_unused(f"{name}/{word}", taken) for word in ("exact", "half"))
                node.output[index] = exact
                nodes.append(onnx.helper.make_node("Cast", [exact], [half], to=10))
                nodes.append(onnx.helper.make_node("Cast", [half], [name], to=1))
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def sort(model: ModelProto) -> None:
    """Brings the nodes of each graph into an order in which every value is made before it is read, as ONNX demands."""
    for graph in graphs(model.graph):
        made = producers(graph.node)
        nodes, seen = list(graph.node), set[str]()
        ordered: list[NodeProto] = []
        for start in nodes:
            waiting = [start]
            while waiting:
                node = waiting[-1]
                missing = [made[name] for name in read_by(node) if name in made and made[name].name not in seen]
                missing = [before for before in missing if before.name != node.name]
                if missing and len(waiting) <= len(nodes):
                    waiting.extend(missing)
                    continue
                waiting.pop()
                if node.name not in seen:
                    seen.add(node.name)
                    ordered.append(node)
        del graph.node[:]
        graph.node.extend(ordered)


def read_by(node: NodeProto) -> set[str]:
    """The values a node reads, by itself or in the graphs inside it."""
    names = set(node.input)
    for attribute in node.attribute:
        for inner in [attribute.g, *attribute.graphs]:
            made = {value.name for value in (*inner.input, *inner.initializer)}
            made.update(name for each in inner.node for name in each.output)
            names.update(name for each in inner.node for name in read_by(each) if name not in made)
    return names - {""}


def widen_captured(model: ModelProto, owners: set[str], halves: set[str]) -> None:
    """Casts the float16 values that graphs inside nodes read from around them, where those stay in float32."""
    import onnx

    casts = []
    for node in model.graph.node:
        if node.name in owners:
            for name in sorted((read_by(node) - set(node.input)) & halves):
                wide = f"{name}/{node.name}/wide"
                casts.append(onnx.helper.make_node("Cast", [name], [wide], name=wide, to=1))
                for attribute in node.attribute:
                    for inner in [attribute.g, *attribute.graphs]:
                        if inner.node:
                            _rename(inner, {name: wide})
    model.graph.node.extend(casts)


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
