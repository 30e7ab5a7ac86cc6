"""The operators that ONNX Runtime has beside ONNX's own, and what the runtime infers of a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ...onnx_file.source import Skeleton
from ..engine import EngineOptions, Tuning
from ..providers.provider import CPU_NAME
from ..runs import translated_by
from .errors import translate
from .session_options import place_weights, register_libraries, session_options

if TYPE_CHECKING:
    import onnx

_WITHOUT_FILES = Skeleton(b"")

_ELEMENTS = {"float": "FLOAT", "double": "DOUBLE"}
"""The runtime's names of element types, where they are not ONNX's in lower case."""


@cache
def runtime_schemas() -> dict[tuple[str, str], Any]:
    """The schemas of the runtime's own operators, by domain and name. They are like those of `onnx.defs`."""
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    return {(schema.domain, schema.name): schema for schema in native.get_all_operator_schema()}


def infer_outputs(
    model: onnx.ModelProto, weights: Skeleton = _WITHOUT_FILES, libraries: Sequence[str] = ()
) -> dict[str, onnx.TypeProto]:
    """Gives the outputs of a model's graph their types, where they have none.

    ONNX's inference knows ONNX's own operators. For the others the runtime opens the model and tells.

    Args:
        model: changed in place.
        weights: where the weights are that the model keeps outside of itself.
        libraries: the paths of shared libraries with operators of the program's own.

    Returns:
        The types of the outputs by name; without those that nothing tells.

    Raises:
        WinMLError: the runtime refuses the model.
    """
    import onnx

    if not all(map(_has_type, model.graph.output)):
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        _take(model, {output.name: output.type for output in inferred.graph.output if _has_type(output)})
    if not all(map(_has_type, model.graph.output)):
        _take(model, _infer_with_runtime(model, weights, libraries))
    return {output.name: output.type for output in model.graph.output if _has_type(output)}


def _has_type(value: onnx.ValueInfoProto) -> bool:
    """Whether a type is stated; for operators that it does not know, onnx's inference states one without a kind."""
    return value.type.WhichOneof("value") is not None


def _take(model: onnx.ModelProto, types: dict[str, onnx.TypeProto]) -> None:
    for output in model.graph.output:
        if not _has_type(output) and output.name in types:
            output.type.CopyFrom(types[output.name])


def _infer_with_runtime(
    model: onnx.ModelProto, weights: Skeleton, libraries: Sequence[str]
) -> dict[str, onnx.TypeProto]:
    import onnxruntime

    native = session_options(EngineOptions(1, tuning=Tuning(graph_optimization="none")))
    place_weights(native, weights)
    with translated_by(translate):
        register_libraries(native, libraries)
        session = onnxruntime.InferenceSession(model.SerializeToString(), native, [CPU_NAME], enable_fallback=0)
    return {output.name: _type(output.type, output.shape) for output in session.get_outputs()}


def _type(words: str, shape: list[int | str | None] | None = None) -> onnx.TypeProto:
    """A type as the runtime spells it: `tensor(float)`, `seq(map(int64,tensor(float)))`."""
    from onnx import helper

    if match := re.fullmatch(r"tensor\((\w+)\)", words):
        # for operators of libraries, the runtime gives the shape of a scalar where it knows none
        return helper.make_tensor_type_proto(_element(match[1]), shape or None)
    if match := re.fullmatch(r"map\((\w+),(.*)\)", words):
        return helper.make_map_type_proto(_element(match[1]), _type(match[2]))
    return helper.make_sequence_type_proto(_type(words.removeprefix("seq(").removesuffix(")")))


def _element(name: str) -> int:
    import onnx

    return int(onnx.TensorProto.DataType.Value(_ELEMENTS.get(name, name.upper())))
