"""Bringing a model to the operator set that built-in nodes need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.onnx_file.messages import messages
from ..errors import NotSupportedError

if TYPE_CHECKING:
    import onnx

_ONNX = ("", "ai.onnx")
"""The two names of the domain of ONNX's own operators."""


def bring_to(version: int, model: onnx.ModelProto) -> None:
    """Converts a model in place where its operator set is older; others stay as they are.

    Raises:
        NotSupportedError: the `onnx` package cannot convert it.
    """
    from onnx import helper

    imported = [opset.version for opset in model.opset_import if opset.domain in _ONNX]
    if not imported:
        model.opset_import.append(helper.make_opsetid("", version))
    elif imported[0] < version:
        _convert(version, model)


def _convert(version: int, model: onnx.ModelProto) -> None:
    import onnx
    from onnx import version_converter

    if model.functions or sum(isinstance(part, onnx.GraphProto) for part in messages(model)) > 1:
        raise _refused(version, model, "graphs inside nodes, and functions, are not converted")
    # Before IR 4, all weights are inputs, too. Runtimes take models where they are not; the converter alone does not.
    model.ir_version = max(model.ir_version, 4)
    try:
        converted = version_converter.convert_version(model, version)
        onnx.checker.check_model(converted)
    except (
        RuntimeError,
        ValueError,
        IndexError,
        version_converter.ConvertError,
        onnx.checker.ValidationError,
    ) as error:
        raise _refused(version, model, (str(error).strip().splitlines() or ["it says nothing"])[0]) from error
    # the converter loses what inputs and outputs are denoted as: they stay as they were
    for field in ("node", "initializer"):
        model.graph.ClearField(field)
        getattr(model.graph, field).extend(getattr(converted.graph, field))
    del model.opset_import[:]
    model.opset_import.extend(converted.opset_import)


def _refused(version: int, model: onnx.ModelProto, reason: str) -> NotSupportedError:
    stated = next(opset.version for opset in model.opset_import if opset.domain in _ONNX)
    return NotSupportedError(
        f"The model has operator set {stated}, built-in nodes need {version}, and it cannot be converted: {reason}.",
        hint=f"Export the model with operator set {version} or later.",
    )
