"""Compiling a model with operators of the program's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ....errors import CorruptModelError, NotSupportedError
from ...onnx_file.header import external_locations
from ...onnx_file.source import Skeleton
from ..engine import ONNXRUNTIME, Array, Engine, EngineInput
from ..ort.schemas import infer_outputs
from ..request import CompileRequest
from .engine import CompiledStep, CustomEngine
from .operator import CustomOperator, declared_types
from .split import CustomNode, Part, constant_names, split

if TYPE_CHECKING:
    import onnx

_ENGINES = (None, ONNXRUNTIME, "auto")


def compile_custom(
    request: CompileRequest, operators: Sequence[CustomOperator], compile_part: Callable[[CompileRequest], Engine]
) -> Engine:
    """Compiles a model whose nodes may be operators of the program's own.

    Args:
        request: the model.
        operators: them.
        compile_part: compiles what lies between.

    Returns:
        An engine of several; that of `compile_part` itself where no node is such an operator.

    Raises:
        NotSupportedError: an operator is used where a function cannot stand.
        WinMLError: a part cannot be compiled.
    """
    skeleton = _skeleton(request.model)
    model = _parsed(skeleton)
    steps = split(model, {operator.key: operator for operator in operators})
    if not any(isinstance(step, CustomNode) for step in steps):
        return compile_part(request)
    types = {value.name: value.type for value in model.graph.input}
    compiled: list[CompiledStep] = []
    try:
        for step in steps:
            if isinstance(step, CustomNode):
                types |= declared_types(step.operator, step.outputs)
                compiled.append(step)
            else:
                part = _part_model(model, step, types)
                infer_outputs(part, skeleton, request.libraries)
                types |= {output.name: output.type for output in part.graph.output}
                compiled.append((step, compile_part(_part_request(request, part, skeleton))))
        outputs = [output.name for output in model.graph.output]
        return CustomEngine(compiled, _constants(model, steps, skeleton), outputs, request.options)
    except BaseException:
        for done in compiled:
            if not isinstance(done, CustomNode):
                done[1].close()
        raise


def _skeleton(model: EngineInput) -> Skeleton:
    """The model, and where its weights are that are not in it."""
    skeleton = model if isinstance(model, Skeleton) else Skeleton(model)
    if isinstance(skeleton.model, str) and not skeleton.files:
        return skeleton._replace(folder=os.path.dirname(skeleton.model))
    return skeleton


def _parsed(skeleton: Skeleton) -> onnx.ModelProto:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        if isinstance(skeleton.model, str):
            return onnx.load(skeleton.model, load_external_data=False)
        parsed: onnx.ModelProto = onnx.ModelProto.FromString(skeleton.model)
        return parsed
    except DecodeError as error:
        raise CorruptModelError(f"Failed to parse the model: {error}.", hint="Compare the size of the file.") from error


def _part_model(model: onnx.ModelProto, part: Part, types: Mapping[str, onnx.TypeProto]) -> onnx.ModelProto:
    """A model of the nodes of a part, with the weights that they use."""
    from onnx import helper

    inputs = [_input(name, types[name]) for name in part.inputs]
    outputs = [helper.make_empty_tensor_value_info(name) for name in part.outputs]
    graph = helper.make_graph(
        part.nodes,
        model.graph.name,
        inputs,
        outputs,
        [weight for weight in model.graph.initializer if weight.name in part.taken],
        sparse_initializer=[each for each in model.graph.sparse_initializer if each.values.name in part.taken],
    )
    return helper.make_model(
        graph,
        ir_version=max(model.ir_version, 4),  # the first in which weights need not be inputs
        opset_imports=model.opset_import,
        functions=model.functions,
    )


def _input(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    """An input of a part, whose free sizes all have names.

    For free sizes without a name, ONNX Runtime's inference takes a time that grows with the square of the nodes.
    """
    from onnx import helper

    value: onnx.ValueInfoProto = helper.make_value_info(name, kind)
    for axis, size in enumerate(value.type.tensor_type.shape.dim):
        if not size.HasField("dim_value") and not size.dim_param:
            size.dim_param = f"{name}.{axis}"
    return value


def _part_request(request: CompileRequest, part: onnx.ModelProto, skeleton: Skeleton) -> CompileRequest:
    """A request for a part. What the whole model's inputs say is left out, so that no engine is tried on examples."""
    from onnx import TensorProto

    data = part.SerializeToString()
    is_whole = next(external_locations(data), None) is None
    if not is_whole and request.options.engine not in _ENGINES:
        raise NotSupportedError(
            f"The engine {request.options.engine} takes a large model with operators of the program's own only whole.",
            hint='Use options.engine = "onnxruntime".',
        )
    ends = [*part.graph.input, *part.graph.output]
    half = {end.name for end in ends if end.type.tensor_type.elem_type == TensorProto.FLOAT16}
    return replace(
        request,
        model=data if is_whole else Skeleton(data, skeleton.folder, skeleton.files),
        float16_features=frozenset(half),
        has_fixed_shapes=False,
        has_only_numbers=False,
        sizes={},
        inputs=[end.name for end in part.graph.input],
        outputs=[end.name for end in part.graph.output],
        reopen=None,
        weights=0,
    )


def _constants(model: onnx.ModelProto, steps: Sequence[Part | CustomNode], skeleton: Skeleton) -> dict[str, Array]:
    """The weights that functions take, and those that are outputs of the model."""
    wanted = {name for step in steps if isinstance(step, CustomNode) for name in step.inputs}
    wanted |= {output.name for output in model.graph.output}
    found = {each.name: _array(each, skeleton) for each in model.graph.initializer if each.name in wanted}
    missing = (constant_names(model.graph) & wanted) - found.keys()
    if missing:
        raise NotSupportedError(
            f"The weight {min(missing)} is sparse, and a Python function takes none.", hint="Export it dense."
        )
    return found


def _array(weight: onnx.TensorProto, skeleton: Skeleton) -> Array:
    from onnx import TensorProto, numpy_helper

    where = {entry.key: entry.value for entry in weight.external_data}
    if weight.data_location != TensorProto.EXTERNAL or where["location"] not in skeleton.files:
        return numpy_helper.to_array(weight, skeleton.folder)
    data, start = skeleton.files[where["location"]], int(where.get("offset", 0))
    end = start + int(where["length"]) if "length" in where else len(data)
    inside = TensorProto(dims=weight.dims, data_type=weight.data_type, raw_data=data[start:end])
    return numpy_helper.to_array(inside)
