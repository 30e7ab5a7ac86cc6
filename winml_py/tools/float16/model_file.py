"""ONNX files as graphs of onnx-ir, ready to be converted, and back again."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING

import numpy as np

from ...base.atomic_files import written_whole
from ...errors import ConversionError
from ...session.model import LearningModel

if TYPE_CHECKING:
    import onnx_ir as ir
    from onnx import ModelProto, TypeProto

PROTOBUF_LIMIT = 1_900_000_000
"""Bytes of weights above which they go to a file of their own; protobuf holds 2 GiB."""

_CASTS_FROM = 13
"""The operator set that a model without ONNX's own operators imports for its casts."""

_MAP_TYPE = "map type"  # onnx-ir has no maps, which classifiers of scikit-learn give: they are kept beside its values


def read(path: str | os.PathLike[str]) -> ir.Model:
    """Reads a float32 model so that a conversion meets few cases.

    Functions are inlined, types are inferred, every node has a name of its own, constants are weights, and no weight
    is an input. What computes nothing that is used is gone.

    Raises:
        ConversionError: the model has parts that a graph of onnx-ir cannot hold, and that would be lost.
    """
    import onnx
    import onnx_ir as ir
    from onnx import inliner
    from onnx_ir.passes import common

    # weights in files stay there while onnx's own code, which cannot take more than 2 GB, looks at the graph
    proto = onnx.load(path, load_external_data=False)
    if proto.training_info or proto.graph.sparse_initializer:
        raise ConversionError(f"{os.fspath(path)} has sparse weights or training graphs, which are not converted.")
    proto = inliner.inline_local_functions(proto) if proto.functions else proto
    with contextlib.suppress(ValueError, RuntimeError):  # beyond inference, there are the types that the file states
        proto = onnx.shape_inference.infer_shapes(proto)
    maps = _take_maps(proto)
    try:
        model = ir.from_proto(proto)
    except ir.serde.SerdeError as error:
        raise ConversionError(f"{os.fspath(path)} cannot be converted: {error.__cause__ or error}") from error
    for value in (*model.graph.inputs, *model.graph.outputs):
        if value.name in maps:
            value.meta[_MAP_TYPE] = maps[value.name]
    ir.external_data.set_base_dir(model.graph, os.path.dirname(os.path.abspath(path)))
    ir.external_data.load_to_model(model)
    model.ir_version = max(model.ir_version, 4)  # up to 3, weights had to be listed as inputs
    if not {"", "ai.onnx"} & set(model.graph.opset_imports):
        model.graph.opset_imports[""] = _CASTS_FROM
    _name_nodes(model.graph)
    _spell_constants(model.graph)
    ir.passes.Sequential(
        common.RemoveInitializersFromInputsPass(),
        common.LiftConstantsToInitializersPass(size_limit=0),
        common.RemoveUnusedNodesPass(),
        common.TopologicalSortPass(),
    )(model)
    return model


def _take_maps(proto: ModelProto) -> dict[str, TypeProto]:
    """Takes the types that hold maps out of a model; those of its inputs and outputs, by name."""
    maps = {}
    for info in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info):
        if _holds_map(info.type):
            maps[info.name] = type(info.type).FromString(info.type.SerializeToString())
            info.ClearField("type")
    return maps


def _holds_map(kind: TypeProto) -> bool:
    return kind.HasField("map_type") or (kind.HasField("sequence_type") and _holds_map(kind.sequence_type.elem_type))


def _name_nodes(graph: ir.Graph) -> None:
    names: set[str] = set()
    for index, node in enumerate(graph.all_nodes()):
        if not node.name or node.name in names:
            node.name = f"{node.name or node.op_type}_{index}"
        names.add(node.name)


def _spell_constants(graph: ir.Graph) -> None:
    """Writes constant floats as tensors, which is how the pass that makes weights of constants knows them."""
    import onnx_ir as ir

    for node in graph.all_nodes():
        for name in {"value_float", "value_floats"} & set(node.attributes) if node.op_type == "Constant" else ():
            value = np.array(node.attributes.pop(name).value, np.float32)
            node.attributes.add(ir.AttrTensor("value", ir.tensor(value)))


def to_proto(model: ir.Model) -> ModelProto:
    """A model as it is written to a file."""
    import onnx_ir as ir

    proto = ir.to_proto(model)
    infos = (*proto.graph.input, *proto.graph.output)
    for info, value in zip(infos, (*model.graph.inputs, *model.graph.outputs), strict=True):
        if _MAP_TYPE in value.meta:
            info.type.CopyFrom(value.meta[_MAP_TYPE])
    return proto


def _in_weights(model: ir.Model) -> int:
    weights = (value.const_value for graph in model.graphs() for value in graph.initializers.values())
    return sum(weight.nbytes for weight in weights if weight is not None)


def size(model: ir.Model) -> int:
    """Bytes of a model's weights and graph; above 2 GB, where protobuf does not count, of its weights."""
    in_weights = _in_weights(model)
    return to_proto(model).ByteSize() if in_weights < PROTOBUF_LIMIT else in_weights


def loaded(model: ir.Model, folder: str) -> LearningModel:
    """The model as one to evaluate; a folder takes the files of a large one."""
    if _in_weights(model) < PROTOBUF_LIMIT:
        return LearningModel.load(to_proto(model).SerializeToString())
    path = os.path.join(folder, "model.onnx")
    save(model, path)
    return LearningModel.load(path)


def save(model: ir.Model, path: str) -> None:
    """Writes a model, with its weights beside it where protobuf cannot hold them. Nothing is left half-written."""
    import onnx_ir as ir

    if _in_weights(model) < PROTOBUF_LIMIT:
        with written_whole(path) as file:
            file.write(to_proto(model).SerializeToString())
        return
    folder = os.path.dirname(os.path.abspath(path))
    location = os.path.basename(path) + ".data"
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        outside = ir.external_data.unload_from_model(model.clone(), inside, location, size_threshold_bytes=256)
        temporary = os.path.join(inside, "model.onnx")
        with open(temporary, "wb") as file:
            file.write(to_proto(outside).SerializeToString())
        os.replace(os.path.join(inside, location), os.path.join(folder, location))
        os.replace(temporary, path)
