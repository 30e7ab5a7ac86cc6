"""ONNX Runtime's operators in addition to ONNX's, and the runtime's type inference."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from ...onnx_file.source import Skeleton
from ..engine import EngineOptions, Tuning
from ..providers.provider import CPU_NAME
from ..runs import translate_errors
from .errors import translate
from .session_options import make_session_options, place_weights, register_libraries

if TYPE_CHECKING:
    import onnx

_WITHOUT_FILES = Skeleton(b"")

_ELEMENTS = {"float": "FLOAT", "double": "DOUBLE"}
"""The runtime's names of element types, if they are not ONNX's in lower case."""


@cache
def read_runtime_schemas() -> dict[tuple[str, str], Any]:
    """The schemas of the runtime's operators, by domain and name, similar to those of `onnx.defs`."""
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    return {(schema.domain, schema.name): schema for schema in native.get_all_operator_schema()}


def infer_outputs(
    model: onnx.ModelProto, weights: Skeleton = _WITHOUT_FILES, libraries: Sequence[str] = ()
) -> dict[str, onnx.TypeProto]:
    """Sets the missing types of the outputs of a model's graph.

    ONNX's inference knows ONNX's operators. For others, the runtime opens the model and infers the types.

    Args:
        model: changed in place.
        weights: the location of the model's external weights.
        libraries: the paths of shared libraries with custom operators.

    Returns:
        The types of the outputs by name; without those that cannot be inferred.

    Raises:
        WinMLError: the runtime refuses the model.
    """
    import onnx

    if not all(map(_has_type, model.graph.output)):
        with suppress(onnx.shape_inference.InferenceError):  # the runtime refuses such a model, too
            inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
            _take(model, {output.name: output.type for output in inferred.graph.output if _has_type(output)})
    if not all(map(_has_type, model.graph.output)):
        _take(model, _infer_with_runtime(model, weights, libraries))
    return {output.name: output.type for output in model.graph.output if _has_type(output)}


def _has_type(value: onnx.ValueInfoProto) -> bool:
    """Whether a type is complete; for unknown operators, onnx's inference sets one without a kind."""
    return value.type.WhichOneof("value") is not None


def _take(model: onnx.ModelProto, types: dict[str, onnx.TypeProto]) -> None:
    for output in model.graph.output:
        if not _has_type(output) and output.name in types:
            output.type.CopyFrom(types[output.name])


def _infer_with_runtime(
    model: onnx.ModelProto, weights: Skeleton, libraries: Sequence[str]
) -> dict[str, onnx.TypeProto]:
    import onnxruntime

    native = make_session_options(EngineOptions(1, tuning=Tuning(graph_optimization="none")))
    place_weights(native, weights)
    with translate_errors(translate):
        register_libraries(native, libraries)
        session = onnxruntime.InferenceSession(model.SerializeToString(), native, [CPU_NAME], enable_fallback=0)
    return {output.name: _parse_type(output.type, output.shape) for output in session.get_outputs()}


def _parse_type(words: str, shape: list[int | str | None] | None = None) -> onnx.TypeProto:
    """Parses a type in the runtime's spelling: `tensor(float)`, `seq(map(int64,tensor(float)))`."""
    from onnx import helper

    if match := re.fullmatch(r"tensor\((\w+)\)", words):
        # for operators of libraries, the runtime returns a scalar's shape if it is unknown
        return helper.make_tensor_type_proto(_parse_element(match[1]), shape or None)
    if match := re.fullmatch(r"map\((\w+),(.*)\)", words):
        return helper.make_map_type_proto(_parse_element(match[1]), _parse_type(match[2]))
    return helper.make_sequence_type_proto(_parse_type(words.removeprefix("seq(").removesuffix(")")))


def _parse_element(name: str) -> int:
    import onnx

    return int(onnx.TensorProto.DataType.Value(_ELEMENTS.get(name, name.upper())))
