"""What a conversion must know of the operators of the program's own: which nodes they are, and what they give."""

from __future__ import annotations

import os

import onnx
from onnx import helper

from ..core.model.operators import ModelOperators
from ..core.onnx_file.source import Skeleton
from ..core.runtime.custom.apart import declared_outputs, take_out
from ..core.runtime.custom.split import key_of
from ..core.runtime.ort.schemas import has_type, infer_outputs, is_known


def declare_types(model: onnx.ModelProto, path: str | os.PathLike[str], operators: ModelOperators) -> None:
    """States the types of what operators of the program's own give, which onnx's inference does not know.

    Args:
        model: changed in place.
        path: where it was read; its weights are beside it.
        operators: functions state their types, and the runtime tells those of libraries.

    Raises:
        WinMLError: the runtime refuses a library, or the model with it.
    """
    types = declared_outputs(model, operators.functions)
    if operators.libraries:
        types |= _of_libraries(model, path, operators)
    stated = {value.name for value in (*model.graph.value_info, *model.graph.output)}
    model.graph.value_info.extend(
        helper.make_value_info(name, kind) for name, kind in types.items() if name not in stated
    )


def _of_libraries(
    model: onnx.ModelProto, path: str | os.PathLike[str], operators: ModelOperators
) -> dict[str, onnx.TypeProto]:
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    take_out(probe, operators.functions)
    made = [name for node in probe.graph.node if not is_known(*key_of(node)) for name in node.output if name]
    probe.graph.ClearField("output")
    probe.graph.output.extend(map(helper.make_empty_tensor_value_info, made))
    if made:
        infer_outputs(probe, Skeleton(b"", os.path.dirname(os.path.abspath(path))), operators.libraries)
    return {output.name: output.type for output in probe.graph.output if has_type(output)}


def is_own(domain: str, name: str, operators: ModelOperators) -> bool:
    """Whether a node with this operator is one of the program's own; those stay as they are.

    Args:
        domain: of the operator; ONNX's own has two names.
        name: of the operator.
        operators: what the model was loaded with.
    """
    key = "" if domain == "ai.onnx" else domain, name
    is_function = key in {operator.key for operator in operators.functions}
    return is_function or (bool(operators.libraries) and not is_known(*key))
