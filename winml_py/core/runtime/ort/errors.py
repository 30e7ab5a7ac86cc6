"""Translates ONNX Runtime's exceptions."""

from __future__ import annotations

import re

from ....errors import (
    E_FAIL,
    INTERNAL_ERROR,
    CorruptModelError,
    DeviceLostError,
    EvaluationError,
    InvalidArgumentError,
    ModelNotFoundError,
    ModelVersionError,
    NotSupportedError,
    SizeMismatchError,
    WinMLError,
)
from ..runs import make_output_shape_error


class NodesLeftError(NotSupportedError):
    """The provider does not take, or cannot capture, every node, and the CPU may not run the others."""


_CLASSES: dict[str, type[WinMLError]] = {
    "InvalidArgument": InvalidArgumentError,
    "NoSuchFile": ModelNotFoundError,
    "NoModel": ModelNotFoundError,
    "InvalidProtobuf": CorruptModelError,
    "InvalidGraph": CorruptModelError,
    "NotImplemented": NotSupportedError,
}
"""The runtime's exception classes, and the errors for their status in Windows ML (OnnxruntimeErrors.h)."""

_RULES: tuple[tuple[str, type[WinMLError], str, str], ...] = (
    (
        r"Unsupported model IR version: (\d+), max supported IR version: (\d+)",
        ModelVersionError,
        "The model's IR version is {0}, but this ONNX Runtime reads versions up to {1}.",
        "Update onnxruntime, or save the model with ir_version {1} (onnx.ModelProto.ir_version).",
    ),
    (
        r"Opset (\d+) is under development.*support for domain (\S+) is till opset (\d+)",
        ModelVersionError,
        "The model uses opset {0} of {1}, but this ONNX Runtime supports opsets up to {2}.",
        "Update onnxruntime, or convert the model: onnx.version_converter.convert_version(model, {2}).",
    ),
    (
        r"No Op registered for (\S+) with domain_version of (\d+)",
        CorruptModelError,
        "The model uses an operator {0}, which opset {1} does not have.",
        "Export the model again with a matching opset, or check the spelling of the operator.",
    ),
    (
        r"Fatal error: ([\w.\-]+):(\w+)\S* is not a registered function/op",
        NotSupportedError,
        "The model uses the operator {1} of the operator library {0}, which is not installed.",
        "ONNX Runtime includes ai.onnx, ai.onnx.ml and com.microsoft. Pass custom operators to "
        "LearningModel.load(path, operators=[...]).",
    ),
    (
        r"Got invalid dimensions for (input|output): (.*?) for the following indices\s+(.*?)\s+Please",
        SizeMismatchError,
        "The {0} {1} was compiled for different dimensions: {2}.",
        "Bind the sizes that batch_size_override and the dimension overrides of the options specify, or change these. "
        "If you pass options, the batch is fixed to 1 by default. To leave it free, set batch_size_override = 0.",
    ),
    (  # drivers' messages after a loss: WebGPU, Direct3D, Vulkan, and CUDA's sticky errors
        r"(?i)device (?:is |was )?lost|DEVICE_REMOVED|DEVICE_LOST|CUDA failure (?:700|719)\b",
        DeviceLostError,
        "The device is lost: {text}",
        "Create a new LearningModelDevice, and a session on it.",
    ),
    (
        r"(?i)CPU EP fallback|fallback to CPU EP|explicitly disabled by the user",
        NodesLeftError,
        "The provider does not support every node of the model, and the options forbid running nodes on the CPU.",
        "Set options.allow_cpu_fallback = True. To find the nodes, read session.assigned_nodes.",
    ),
    (r"(?i)have not been partitioned|graph capture|cuda.?graph", NodesLeftError, "ONNX Runtime reported: {text}", ""),
    (  # kernels lack element types, and numpy those that are packed, two 4-bit integers in a byte
        r"Could not find an implementation for|No corresponding Numpy type",
        NotSupportedError,
        "ONNX Runtime reported: {text}.",
        "For bfloat16, float64 or int4, cast to float32 in the model: around the node, or after the output. For other "
        "types, use an older opset (for winml_py.operators, opset=...).",
    ),
    (
        r"Conflicting free dimension overrides",
        InvalidArgumentError,
        "Two overrides set one dimension of the model to different sizes: by its name, and as the batch.",
        "Set batch_size_override to 0, or both to the same size. If you pass options, it is 1 by default.",
    ),
)
"""A pattern for the runtime's message; and our error, its message, and its hint."""

_OUTPUT = r"provided for output '(.*?)' of node .* has shape (\{.*?\}) but the computed .* is (\{.*?\})"
_OLD_OUTPUT = r"shape verification failed\. Current shape:(\{.*?\}) Requested shape:(\{.*?\})"
"""The message of runtimes before 1.31, without the output's name."""


def translate(error: Exception) -> WinMLError:
    """Translates an error of the runtime; keeps its message without file names.

    The runtime's log is off for our sessions (`make_session_options`), because it repeats the exceptions' messages.
    """
    known = _translate_known(error)
    if known is not None:
        return known
    name = type(error).__name__
    # In Windows ML, the HRESULT of these two is not that of a failed kernel.
    hresult = INTERNAL_ERROR if name in ("ModelLoaded", "EPFail") else None
    return _CLASSES.get(name, EvaluationError)(f"ONNX Runtime reported: {_clean_text(error)}", hresult=hresult)


def translate_run(error: Exception) -> WinMLError:
    """Translates an error of a run. Its class does not count: bound runs and others raise different ones."""
    return _translate_known(error) or EvaluationError(f"ONNX Runtime reported: {_clean_text(error)}")


def _translate_known(error: Exception) -> WinMLError | None:
    if isinstance(error, WinMLError):
        return error
    text = " ".join(str(error).split())
    if match := re.search(_OUTPUT, text):
        name, bound, computed = match.groups()
        return make_output_shape_error(name, _parse_shape(bound), _parse_shape(computed))
    if match := re.search(_OLD_OUTPUT, text):
        bound, computed = match.groups()
        return make_output_shape_error("", _parse_shape(bound), _parse_shape(computed))
    text = _clean_text(error)
    # The runtime has few classes and many messages. The first rule that matches decides; messages differ between
    # versions, so one that no rule matches is quoted.
    for pattern, kind, message, hint in _RULES:
        if match := re.search(pattern, text):
            words = match.groups()
            # The runtime's status is FAIL, for which Windows ML has this number.
            hresult = E_FAIL if kind is ModelVersionError else None
            return kind(message.format(*words, text=text), hint=hint.format(*words), hresult=hresult)
    if isinstance(error, UnicodeEncodeError):
        return EvaluationError(
            f"A bound string or a file name cannot be encoded in UTF-8: {error.object!a}.",
            hint='Rename the file. To bind a file name, use os.fsencode(name).decode(errors="replace").',
        )
    if isinstance(error, UnicodeError):
        return CorruptModelError(
            "A name in the model, or a string output, is not UTF-8.",
            hint="Rename the model's inputs and outputs with an ONNX editor.",
        )
    return None


def _clean_text(error: Exception) -> str:
    """The message of an error in one line, without the runtime's status, and its source files and functions."""
    text = " ".join(str(error).split())
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    return re.sub(r"/\S+\.(?:cc|h):\d+ .*?\) (?=\w)", "", text.removeprefix("Error in execution: "))


def _parse_shape(shape: str) -> tuple[int, ...]:
    return tuple(int(size) for size in shape.strip("{}").split(",") if size)
