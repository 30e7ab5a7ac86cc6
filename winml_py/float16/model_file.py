"""Reading ONNX files as onnx-ir graphs, ready for conversion, and writing them."""

from __future__ import annotations

import contextlib
import copy
import os
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import ModelProto, helper, inliner
from onnx_ir.passes import common

from .._graphs.model_file import count_weight_bytes, save_model, state_published
from .._values import evaluate_to_arrays
from ..core.base import child_process
from ..core.contracts.published import find_model
from ..core.model.model import LearningModel
from ..core.onnx_file.nodes import walk_messages
from ..core.onnx_file.protobuf import MAX_PROTOBUF_BYTES
from ..core.onnx_file.source import FileSource
from ..core.runtime.custom.operator import CustomOperator, ModelOperators, Operators, make_declared_types
from ..core.runtime.custom.split import get_operator_key
from ..core.runtime.ort.schemas import read_runtime_schemas
from ..core.session.session import LearningModelSession
from ..errors import ConversionError

_MAP_TYPE = "type with maps"
"""The key of `ir.Value.meta` for a type that onnx-ir has not: a map, as ZipMap gives, or a sequence of maps."""

_CASTS_FROM = 13
"""The operator set imported for the casts of a model without ONNX's own operators."""


def read_model(source: str | os.PathLike[str], operators: ModelOperators) -> ir.Model:
    """Reads a float32 model, normalized so that a conversion meets few cases. It states what its folder states.

    Functions are inlined, types are inferred, every node has a unique name, constants are weights, and no weight is an
    input. Unused computations are removed.

    Raises:
        ConversionError: the model has parts that an onnx-ir graph cannot hold.
    """
    # Weights in files stay there while onnx's own code, which cannot take more than 2 GB, inspects the graph.
    path, loaded = find_model(source), LearningModel.load(source)
    FileSource.open(path)[0].require_data_files()
    proto = onnx.load(path, load_external_data=False)
    state_published(proto, loaded)
    if proto.training_info or any(isinstance(part, onnx.SparseTensorProto) for part in walk_messages(proto)):
        raise ConversionError(f"{path} has sparse weights or training graphs, which cannot be converted.")
    if proto.functions:
        proto = inliner.inline_local_functions(proto)
    # Before the inference, which starts from these types.
    _declare_types(proto, operators.functions)
    with contextlib.suppress(ValueError, RuntimeError):  # without inference, the file's own types remain
        proto = onnx.shape_inference.infer_shapes(proto)
    map_types = _remove_map_types(proto)
    try:
        model = ir.from_proto(proto)
    except ir.serde.SerdeError as error:
        raise ConversionError(f"{path} cannot be converted: {error.__cause__ or error}.") from error
    graph = model.graph
    for value in (*graph.inputs, *graph.outputs):
        value.meta[_MAP_TYPE] = map_types.get(str(value.name))
    ir.external_data.set_base_dir(graph, os.path.dirname(os.path.abspath(path)))
    model.ir_version = max(model.ir_version, 4)  # up to 3, weights had to be listed as inputs
    # The domain of ONNX's own operators has two names.
    graph.opset_imports[""] = graph.opset_imports.pop("ai.onnx", graph.opset_imports.get("", _CASTS_FROM))
    _normalize_nodes(graph)
    ir.passes.Sequential(
        common.RemoveInitializersFromInputsPass(),
        common.LiftConstantsToInitializersPass(size_limit=0),
        common.RemoveUnusedNodesPass(),
        common.TopologicalSortPass(),
    )(model)
    return ir.external_data.load_to_model(model)


def _remove_map_types(proto: ModelProto) -> dict[str, onnx.TypeProto]:
    """Removes the types that are, or hold, maps, and returns them by the names of their values."""
    types = {}
    for part in walk_messages(proto):
        is_map = isinstance(part, onnx.ValueInfoProto) and any(
            isinstance(inner, onnx.TypeProto.Map) for inner in walk_messages(part.type)
        )
        if is_map:
            types[part.name] = copy.deepcopy(part.type)
            part.ClearField("type")
    return types


def _normalize_nodes(graph: ir.Graph) -> None:
    """Gives each node a unique name, and each float constant the one form that the pass treats as a weight."""
    names: set[str] = set()
    for index, node in enumerate(graph.all_nodes()):
        if not node.name or node.name in names:
            node.name = f"{node.name or node.op_type}_{index}"
        names.add(node.name)
        for name in {"value_float", "value_floats"} & set(node.attributes):
            tensor = ir.tensor(np.array(node.attributes.pop(name).value, np.float32))
            node.attributes.add(ir.AttrTensor("value", tensor))


def to_proto(model: ir.Model) -> ModelProto:
    """A model as it is written to a file."""
    proto = ir.to_proto(model)
    values = (*model.graph.inputs, *model.graph.outputs)
    for info, value in zip((*proto.graph.input, *proto.graph.output), values, strict=True):
        if map_type := value.meta.get(_MAP_TYPE):
            info.type.CopyFrom(map_type)
    del proto.graph.value_info[:]  # the engine infers what it needs, and files may state wrong types
    return proto


def compute_model_size(model: ir.Model) -> int:
    """The bytes of a model's weights and graph; above 2 GB, protobuf's limit, of its weights."""
    proto = to_proto(model)
    weight_size = count_weight_bytes(proto)
    return weight_size if weight_size >= MAX_PROTOBUF_BYTES else proto.ByteSize()


def evaluate(
    model: ir.Model, operators: ModelOperators, inputs: Mapping[str, object], inner_names: Iterable[str] = ()
) -> dict[str, Any]:
    """A model's outputs and inner values, by name, computed in another process unless operators are in Python."""
    model = model.clone()
    values_by_name = {value.name: value for node in model.graph for value in node.outputs}
    for name in inner_names:
        values_by_name[name].shape = None  # a file may state wrong shapes
        model.graph.outputs.append(values_by_name[name])
    proto = to_proto(model)
    if count_weight_bytes(proto) < MAX_PROTOBUF_BYTES:
        return evaluate_in_child(proto.SerializeToString(), operators, inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        save_model(proto, path)
        return evaluate_in_child(path, operators, inputs)


def evaluate_in_child(source: bytes | str, operators: ModelOperators, inputs: Mapping[str, object]) -> dict[str, Any]:
    """Evaluates a new model, given as its bytes or its path, in another process, which its runtime may end.

    With operators that are functions, which another process may lack, it is evaluated in this one.

    Raises:
        ProcessEndedError: the runtime ended that process.
    """
    if operators.functions:
        return _evaluate_source(source, operators.given, inputs)
    return child_process.call_in_child(_evaluate_source, source, operators.libraries, dict(inputs))


def _evaluate_source(source: bytes | str, operators: Operators, inputs: Mapping[str, object]) -> dict[str, Any]:
    with LearningModelSession(LearningModel.load(source, operators=operators)) as session:
        return evaluate_to_arrays(session, inputs)


# What a conversion needs to know of the program's own operators: their nodes and output types.


def _declare_types(model: onnx.ModelProto, functions: Iterable[CustomOperator]) -> None:
    """Adds the output types of functions that are operators, which onnx's inference does not know."""
    functions_by_key = {operator.key: operator for operator in functions}
    declared = {value.name for value in (*model.graph.value_info, *model.graph.output)}
    for node in model.graph.node:
        if operator := functions_by_key.get(get_operator_key(node)):
            types = make_declared_types(operator, node.output)
            model.graph.value_info.extend(
                helper.make_value_info(name, kind) for name, kind in types.items() if name not in declared
            )


def is_custom_operator(domain: str, name: str, operators: ModelOperators) -> bool:
    """Whether a node's operator is one of the program's own; those stay as they are."""
    key = "" if domain == "ai.onnx" else domain, name
    is_known = key in read_runtime_schemas() or onnx.defs.has(name, domain=key[0])
    return not is_known or key in {operator.key for operator in operators.functions}
