"""From ONNX Runtime's exceptions to ours."""

from __future__ import annotations

import re

from ...errors import (
    E_FAIL,
    E_INVALIDARG,
    E_NOTIMPL,
    FILE_CORRUPT,
    FILE_NOT_FOUND,
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

# The runtime's exception classes, and what Windows ML makes of their status (OnnxruntimeErrors.h).
_CLASSES: dict[str, tuple[type[WinMLError], int]] = {
    "InvalidArgument": (InvalidArgumentError, E_INVALIDARG),
    "NoSuchFile": (ModelNotFoundError, FILE_NOT_FOUND),
    "NoModel": (ModelNotFoundError, FILE_NOT_FOUND),
    "InvalidProtobuf": (CorruptModelError, FILE_CORRUPT),
    "InvalidGraph": (CorruptModelError, FILE_CORRUPT),
    "ModelLoaded": (EvaluationError, INTERNAL_ERROR),
    "EPFail": (EvaluationError, INTERNAL_ERROR),
    "NotImplemented": (NotSupportedError, E_NOTIMPL),
}
_IR = re.compile(r"Unsupported model IR version: (\d+), max supported IR version: (\d+)")
_OPSET = re.compile(r"Opset (\d+) is under development.*support for domain (\S+) is till opset (\d+)", re.DOTALL)
_OPERATOR = re.compile(r"No Op registered for (\S+) with domain_version of (\d+)")
_DOMAIN = re.compile(r"Fatal error: ([\w.\-]+):(\w+)\S* is not a registered function/op")
_OUTPUT = re.compile(r"provided for output '(.*?)' of node .* has shape (\{.*?\}) but the computed .* is (\{.*?\})")
_DIMENSIONS = re.compile(
    r"Got invalid dimensions for (input|output): (.*?) for the following indices\s+(.*?)\s+Please", re.DOTALL
)
_FALLBACK = re.compile(r"CPU EP fallback|fallback to CPU EP|explicitly disabled by the user", re.IGNORECASE)
_LOST = re.compile(
    r"device (?:is |was )?lost|DEVICE_REMOVED|DEVICE_LOST|CUDA (?:failure|error):? (?:46|100|700|702|709|719|999)\b"
    r"|an illegal memory access was encountered|unspecified launch failure|device-side assert",
    re.IGNORECASE,
)
"""What the drivers say when nothing more can be run: WebGPU, Direct3D, Vulkan, and CUDA's sticky errors."""
_PLACE = re.compile(r"/\S+\.(?:cc|h):\d+ .*?\) (?=[A-Z\w])")


def translate(error: Exception) -> WinMLError:
    """The error to raise in place of one of the runtime's; its words are kept, its file names are not."""
    if isinstance(error, WinMLError):
        return error
    text = str(error).strip()
    specific = _version(text) or _operator(text) or _shape(text) or _device(text) or _override(text)
    if specific is not None:
        return specific
    if isinstance(error, UnicodeError):
        return CorruptModelError(
            "The model has a name that is not UTF-8.", hint="Rename its inputs and outputs with an ONNX editor."
        )
    kind, hresult = _CLASSES.get(type(error).__name__, (EvaluationError, E_FAIL))
    return kind(f"The runtime says: {_clean(text)}", hresult=hresult)


def _clean(text: str) -> str:
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    text = _PLACE.sub("", re.sub(r"^Error in execution: ", "", text))
    return re.sub(r"\s+", " ", text).strip()


def _override(text: str) -> InvalidArgumentError | None:
    if "Conflicting free dimension overrides" not in text:
        return None
    return InvalidArgumentError(
        "Two overrides set one dimension of the model to different sizes: by its name, and as the batch.",
        hint="batch_size_override is 1 wherever options are passed; set it to 0, or both to one size.",
    )


def _version(text: str) -> ModelVersionError | None:
    if match := _IR.search(text):
        came, known = match.groups()
        what = f"The model's IR version is {came}; this ONNX Runtime reads up to {known}."
        hint = f"Update onnxruntime, or save the model with ir_version {known} (onnx.ModelProto.ir_version)."
        return ModelVersionError(what, hint=hint, hresult=E_FAIL)
    if match := _OPSET.search(text):
        came, domain, known = match.groups()
        what = f"The model uses opset {came} of {domain}; this ONNX Runtime knows up to {known}."
        hint = f"Update onnxruntime, or convert the model: onnx.version_converter.convert_version(model, {known})."
        return ModelVersionError(what, hint=hint, hresult=E_FAIL)
    return None


def _operator(text: str) -> WinMLError | None:
    if match := _OPERATOR.search(text):
        operator, version = match.groups()
        return CorruptModelError(
            f"The model uses an operator {operator}, which opset {version} does not have.",
            hint="Export it again with a matching opset, or check the spelling of the operator.",
        )
    if match := _DOMAIN.search(text):
        domain, operator = match.groups()
        return NotSupportedError(
            f"The model uses the operator {operator} of the operator library {domain}, which is not installed.",
            hint="ONNX Runtime brings ai.onnx, ai.onnx.ml and com.microsoft; export the model without others.",
        )
    return None


def _shape(text: str) -> SizeMismatchError | None:
    if match := _OUTPUT.search(text):
        name, bound, computed = match.groups()
        return wrong_output_shape(name, _braces(bound), _braces(computed))
    if match := _DIMENSIONS.search(text):
        side, name, indices = match.groups()
        return SizeMismatchError(
            f"The {side} {name} was compiled for other dimensions: {_clean(indices)}.",
            hint="Bind what the session's batch size and dimension overrides say, or create it without them.",
        )
    return None


def _device(text: str) -> WinMLError | None:
    if _LOST.search(text):
        return DeviceLostError(
            f"The device is lost: {_clean(text)}", hint="Make a new LearningModelDevice, and a session on it."
        )
    if _FALLBACK.search(text):
        return NotSupportedError(
            "The provider does not take every node of the model, and the CPU is not allowed to help.",
            hint="Set options.allow_cpu_fallback = True, and see session.placement for the nodes.",
        )
    return None


def _braces(shape: str) -> tuple[int, ...]:
    return tuple(int(size) for size in shape.strip("{}").split(",") if size)


def wrong_output_shape(name: str, bound: tuple[int, ...], computed: tuple[int, ...]) -> SizeMismatchError:
    """The error for an output that does not fit the memory it is bound to."""
    return SizeMismatchError(
        f"The model variable {name} was bound to memory of shape {bound}, and the model gave {computed}.",
        hint="Bind an empty tensor (TensorFloat.create(), say), which takes the shape that comes.",
    )
