"""Compiles a model with custom operators, and runs its parts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....enums import Precision
from ....errors import CorruptModelError, EvaluationError, NotSupportedError
from ...base.arrays import Array
from ...base.cancellation import Stop
from ...base.messages import type_name
from ...onnx_file.header import find_external_weights
from ...onnx_file.nodes import embed_weight
from ...onnx_file.source import Skeleton
from ..engine import ONNXRUNTIME, AssignedNode, Engine, EngineOptions, Explanation, LocalEngine
from ..ort.schemas import infer_outputs
from ..request import CompileRequest
from ..runs import Bound, Value, fill, require_open
from .operator import CustomOperator, OperatorOutput, make_declared_types
from .split import CustomNode, GraphPart, get_constant_names, split_model

if TYPE_CHECKING:
    import onnx


def compile_custom(
    request: CompileRequest, operators: Sequence[CustomOperator], compile_part: Callable[[CompileRequest], Engine]
) -> Engine:
    """Compiles a model that may have custom operators.

    Args:
        request: the model.
        operators: the custom operators.
        compile_part: compiles the parts between them.

    Returns:
        A `CustomEngine`; the engine of `compile_part` if no node is a custom operator.

    Raises:
        NotSupportedError: a custom operator is in a subgraph or a function of the model.
        WinMLError: a part cannot be compiled.
    """
    skeleton = request.model if isinstance(request.model, Skeleton) else Skeleton(request.model)
    if isinstance(skeleton.model, str) and not skeleton.files:  # the file's external weights are in its folder
        skeleton = skeleton._replace(folder=os.path.dirname(skeleton.model))
    model = _parse(skeleton)
    steps = split_model(model, {operator.key: operator for operator in operators})
    if not any(isinstance(step, CustomNode) for step in steps):
        return compile_part(request)
    # Parts are compiled in the order they run: a part declares the types of its inputs, which are known once the parts
    # that make them are compiled; functions declare theirs.
    types = {value.name: value.type for value in model.graph.input}
    compiled: list[CompiledStep] = []
    try:
        for step in steps:
            if isinstance(step, CustomNode):
                types |= make_declared_types(step.operator, step.outputs)
                compiled.append(step)
            else:
                part = _make_part_model(model, step, types)
                types |= infer_outputs(part, skeleton, request.libraries)
                compiled.append((step, compile_part(_make_part_request(request, part, skeleton))))
        outputs = [output.name for output in model.graph.output]
        return CustomEngine(compiled, _read_constants(model, steps, skeleton), outputs, request.options)
    except BaseException:
        for done in compiled:
            if not isinstance(done, CustomNode):
                done[1].close()
        raise


def _parse(skeleton: Skeleton) -> onnx.ModelProto:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        if isinstance(skeleton.model, str):
            return onnx.load(skeleton.model, load_external_data=False)
        parsed: onnx.ModelProto = onnx.ModelProto.FromString(skeleton.model)
        return parsed
    except DecodeError as error:
        raise CorruptModelError(
            f"Failed to parse the model: {error}.", hint="Compare the file size with that of the original."
        ) from error


def _make_part_model(model: onnx.ModelProto, part: GraphPart, types: Mapping[str, onnx.TypeProto]) -> onnx.ModelProto:
    from onnx import helper

    inputs = [_make_input(name, types[name]) for name in part.inputs]
    outputs = [helper.make_empty_tensor_value_info(name) for name in part.outputs]
    graph = helper.make_graph(
        part.nodes,
        model.graph.name,
        inputs,
        outputs,
        [weight for weight in model.graph.initializer if weight.name in part.consumed],
        sparse_initializer=[weight for weight in model.graph.sparse_initializer if weight.values.name in part.consumed],
    )
    return helper.make_model(
        graph,
        ir_version=max(model.ir_version, 4),  # from version 4 on, weights need not be inputs
        opset_imports=model.opset_import,
        functions=model.functions,
    )


def _make_input(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    """An input of a part, whose free sizes all have names.

    With unnamed free sizes, the time of ONNX Runtime's inference grows with the square of the number of nodes.
    """
    from onnx import helper

    value: onnx.ValueInfoProto = helper.make_value_info(name, kind)
    for axis, size in enumerate(value.type.tensor_type.shape.dim):
        if not size.HasField("dim_value") and not size.dim_param:
            size.dim_param = f"{name}.{axis}"
    return value


def _make_part_request(request: CompileRequest, part: onnx.ModelProto, skeleton: Skeleton) -> CompileRequest:
    """A request for a part, without the sizes of the whole model's inputs."""
    from onnx import TensorProto

    data = part.SerializeToString()
    is_whole = next(find_external_weights(data), None) is None
    if not is_whole and request.options.engine not in (None, ONNXRUNTIME):
        raise NotSupportedError(
            f"The engine {request.options.engine} does not support custom operators in a large model.",
            hint='Use options.engine = "onnxruntime".',
        )
    ends = [*part.graph.input, *part.graph.output]
    half = {end.name for end in ends if end.type.tensor_type.elem_type == TensorProto.FLOAT16}
    features = request.features._replace(
        inputs=[end.name for end in part.graph.input],
        outputs=[end.name for end in part.graph.output],
        sizes={},
        float16_features=frozenset(half),
    )
    model = data if is_whole else Skeleton(data, skeleton.folder, skeleton.files)
    # A part has no file: the model's file has the whole model.
    origin = request.origin._replace(mappable_weights=0)
    return request._replace(model=model, features=features, origin=origin)


def _read_constants(
    model: onnx.ModelProto, steps: Sequence[GraphPart | CustomNode], skeleton: Skeleton
) -> dict[str, Array]:
    """The weights that functions use, and those that are outputs of the model."""
    from onnx import numpy_helper

    needed = {name for step in steps if isinstance(step, CustomNode) for name in step.inputs}
    needed |= {output.name for output in model.graph.output}
    arrays = {}
    for weight in model.graph.initializer:
        if weight.name in needed:
            embed_weight(weight, skeleton.files)
            arrays[weight.name] = numpy_helper.to_array(weight, skeleton.folder)
    missing = (get_constant_names(model.graph) & needed) - arrays.keys()
    if missing:
        raise NotSupportedError(
            f"Expected dense weights for Python functions, got sparse {min(missing)}.", hint="Export it as dense."
        )
    return arrays


# An engine of several: the parts of a graph, with functions between them.


CompiledStep = tuple[GraphPart, Engine] | CustomNode


class CustomEngine(LocalEngine):
    """Runs compiled parts and functions alternately.

    Args:
        steps: the parts and functions, in order.
        constants: weights that functions use, or that are outputs of the model.
        outputs: the names of the model's outputs.
        options: its options.
    """

    def __init__(
        self,
        steps: Sequence[CompiledStep],
        constants: Mapping[str, Array],
        outputs: Sequence[str],
        options: EngineOptions,
    ) -> None:
        self.options = options
        self._engines = [step[1] for step in steps if not isinstance(step, CustomNode)]
        self.explanation = _explain(self._engines, steps)
        self._steps: Sequence[CompiledStep] | None = steps
        self._constants = constants
        self._outputs = outputs

    def run(self, bound: Bound, stop: Stop | None = None) -> Mapping[str, Value]:
        """Runs the model; see `Engine`. A stop ends running parts, and prevents functions that have not begun."""
        steps = require_open(self._steps)
        parts = bound.natives.setdefault(self, {})  # the `Bound` of each part, by its position
        values: dict[str, Any] = {**self._constants, **bound.inputs}
        for place, step in enumerate(steps):
            require_open(self._steps)  # closed parts refuse to run, but functions do not
            if stop is not None:
                stop.require_not_requested()
            if isinstance(step, CustomNode):
                _call_function(step, values)
                continue
            part, engine = step
            part_bound = parts.setdefault(place, Bound(lock=bound.lock))
            for name in part.inputs:
                part_bound.set_input(name, values[name])
            values.update(engine.run(part_bound, stop))
        if stop is not None:
            stop.require_not_requested()
        fresh = {name: values[name] for name in self._outputs}
        for name in fresh.keys() & (self._constants.keys() | bound.inputs.keys()):  # the caller gets a copy
            if isinstance(fresh[name], np.ndarray):
                fresh[name] = fresh[name].copy()
        return fill(bound.outputs, fresh)

    def list_assigned_nodes(self) -> list[AssignedNode]:
        """Which provider runs which node; "Python" for functions."""
        assigned_nodes: list[AssignedNode] = []
        for step in require_open(self._steps):
            if isinstance(step, CustomNode):
                assigned_nodes.append(AssignedNode(step.name, step.operator.name, "Python"))
            else:
                assigned_nodes += step[1].list_assigned_nodes()
        return assigned_nodes

    def end_profiling(self) -> bytes:
        """The traces of the parts, one after the other, without the functions."""
        require_open(self._steps)
        return json.dumps([event for engine in self._engines for event in json.loads(engine.end_profiling())]).encode()

    def close(self) -> None:
        """Frees the parts. Calling it twice is harmless."""
        self._steps = None
        for engine in self._engines:
            engine.close()


def _explain(engines: Sequence[Engine], steps: Sequence[CompiledStep]) -> Explanation:
    names = dict.fromkeys(str(step.operator) for step in steps if isinstance(step, CustomNode))
    reason = f"{', '.join(names)} in Python"
    if not engines:
        return Explanation("python", Precision.FLOAT32, reason)
    first = engines[0].explanation
    return first._replace(reason=f"{first.reason}; {reason}")


def _call_function(node: CustomNode, values: dict[str, Any]) -> None:
    """Calls the function of a node: takes its inputs from the values, and adds its outputs to them.

    Raises:
        EvaluationError: the function raised its cause; or the results are not those that the operator declares.
    """
    inputs = [_read_only(values[name]) if name else None for name in node.inputs]
    while inputs and inputs[-1] is None:
        inputs.pop()
    try:
        returned = node.operator.function(*inputs, **node.attributes)
    except Exception as error:
        text = ": ".join(filter(None, (type_name(error), str(error).rstrip("."))))
        raise EvaluationError(
            f"The operator {node.operator} of the node {node.name!r} raised {text}.", hint="See the error's __cause__."
        ) from error
    results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(results) not in (len(node.outputs), len(node.operator.outputs)):
        raise EvaluationError(
            f"The operator {node.operator} of the node {node.name!r} returned {len(results)} outputs, but declares "
            f"{len(node.operator.outputs)}.",
            hint="Return an array, or a tuple of arrays.",
        )
    for name, result, spec in zip(node.outputs, results, node.operator.outputs, strict=False):
        if not name:
            continue
        declared = OperatorOutput(*spec)
        array = np.array(result, order="C")  # a copy: a function may return its input, or the same array each time
        # Engines need strings as arrays of objects, and C-contiguous numbers.
        array = array.astype(object) if array.dtype.kind == "U" else array
        if array.dtype != declared.dtype or declared.rank not in (None, array.ndim):
            rank = "any rank" if declared.rank is None else f"rank {declared.rank}"
            raise EvaluationError(
                f"The operator {node.operator} returned {array.dtype} of rank {array.ndim} as {name!r}, but declares "
                f"{declared.dtype} of {rank}.",
                hint="Correct the function, or the outputs of its CustomOperator.",
            )
        values[name] = array


def _read_only(value: Value) -> Value:
    """A read-only view: the memory may be the caller's, and other nodes may need the numbers."""
    if not isinstance(value, np.ndarray):
        return value
    # Not the flag of the array itself, which the caller may still write.
    view = value.view()
    view.flags.writeable = False
    return view
