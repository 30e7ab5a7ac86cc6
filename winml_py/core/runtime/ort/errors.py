"""From ONNX Runtime's exceptions to ours."""

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
from ..runs import wrong_output_shape

_CLASSES: dict[str, type[WinMLError]] = {
    "InvalidArgument": InvalidArgumentError,
    "NoSuchFile": ModelNotFoundError,
    "NoModel": ModelNotFoundError,
    "InvalidProtobuf": CorruptModelError,
    "InvalidGraph": CorruptModelError,
    "NotImplemented": NotSupportedError,
}
"""The runtime's exception classes, and what Windows ML makes of their status (OnnxruntimeErrors.h)."""

_INTERNAL = ("ModelLoaded", "EPFail")
"""Those that Windows ML gives another number than a kernel that failed."""

_RULES: tuple[tuple[str, type[WinMLError], str, str], ...] = (
    (
        r"Unsupported model IR version: (\d+), max supported IR version: (\d+)",
        ModelVersionError,
        "The model's IR version is {0}; this ONNX Runtime reads up to {1}.",
        "Update onnxruntime, or save the model with ir_version {1} (onnx.ModelProto.ir_version).",
    ),
    (
        r"Opset (\d+) is under development.*support for domain (\S+) is till opset (\d+)",
        ModelVersionError,
        "The model uses opset {0} of {1}; this ONNX Runtime knows up to {2}.",
        "Update onnxruntime, or convert the model: onnx.version_converter.convert_version(model, {2}).",
    ),
    (
        r"No Op registered for (\S+) with domain_version of (\d+)",
        CorruptModelError,
        "The model uses an operator {0}, which opset {1} does not have.",
        "Export it again with a matching opset, or check the spelling of the operator.",
    ),
    (
        r"Fatal error: ([\w.\-]+):(\w+)\S* is not a registered function/op",
        NotSupportedError,
        "The model uses the operator {1} of the operator library {0}, which is not installed.",
        "ONNX Runtime brings ai.onnx, ai.onnx.ml and com.microsoft. Give operators of the program's own to "
        "LearningModel.load(path, operators=[...]).",
    ),
    (
        r"Got invalid dimensions for (input|output): (.*?) for the following indices\s+(.*?)\s+Please",
        SizeMismatchError,
        "The {0} {1} was compiled for other dimensions: {2}.",
        "Bind what batch_size_override and the dimension overrides of the options say, or leave them out: options that "
        "are passed fix the batch to 1, unless batch_size_override is another size, or 0, which leaves it free.",
    ),
    (  # what drivers say when nothing more can be run: WebGPU, Direct3D, Vulkan, and CUDA's sticky errors
        r"(?i)device (?:is |was )?lost|DEVICE_REMOVED|DEVICE_LOST"
        r"|CUDA (?:failure|error):? (?:46|100|700|702|709|719|999)\b"
        r"|an illegal memory access was encountered|unspecified launch failure|device-side assert",
        DeviceLostError,
        "The device is lost: {text}",
        "Make a new LearningModelDevice, and a session on it.",
    ),
    (
        r"(?i)CPU EP fallback|fallback to CPU EP|explicitly disabled by the user",
        NotSupportedError,
        "The provider does not take every node of the model, and the CPU is not allowed to help.",
        "Set options.allow_cpu_fallback = True, and see session.placement for the nodes.",
    ),
    (
        r"Conflicting free dimension overrides",
        InvalidArgumentError,
        "Two overrides set one dimension of the model to different sizes: by its name, and as the batch.",
        "batch_size_override is 1 wherever options are passed; set it to 0, or both to one size.",
    ),
)
"""What the runtime says, as a pattern; and what we say: an error, its message, and its hint."""

_OUTPUT = re.compile(r"provided for output '(.*?)' of node .* has shape (\{.*?\}) but the computed .* is (\{.*?\})")
_OLD_OUTPUT = re.compile(r"shape verification failed\. Current shape:(\{.*?\}) Requested shape:(\{.*?\})")
"""As runtimes before 1.31 say it, without the output's name."""
_SOURCE = re.compile(r"/\S+\.(?:cc|h):\d+ .*?\) (?=[A-Z\w])")


def translate(error: Exception) -> WinMLError:
    """The error to raise in place of one of the runtime's; its words are kept, its file names are not.

    The runtime's logging is off for our sessions (`session_options`), because it prints what its exceptions say.
    """
    if isinstance(error, WinMLError):
        return error
    text = str(error).strip()
    if match := _OUTPUT.search(text):
        name, bound, computed = match.groups()
        return wrong_output_shape(name, _braces(bound), _braces(computed))
    if match := _OLD_OUTPUT.search(text):
        return wrong_output_shape("", *map(_braces, match.groups()))
    # The runtime has few classes and many messages. The first rule that knows the words decides; they differ from
    # version to version, so a message that no rule knows keeps its own words below.
    for pattern, kind, message, hint in _RULES:
        if match := re.search(pattern, text, re.DOTALL):
            words = match.groups()
            # The runtime's status is FAIL there, of which Windows ML makes this number.
            hresult = E_FAIL if kind is ModelVersionError else None
            return kind(_one_line(message.format(*words, text=_clean(text))), hint=hint.format(*words), hresult=hresult)
    if isinstance(error, UnicodeEncodeError):
        return EvaluationError(
            f"A text that was bound, or the name of a file, cannot be written in UTF-8: {error.object!a}.",
            hint='Rename the file. To bind a file name, take os.fsencode(name).decode(errors="replace").',
        )
    if isinstance(error, UnicodeError):
        return CorruptModelError(
            "A name of the model, or a text that it gives, is not UTF-8.",
            hint="Rename its inputs and outputs with an ONNX editor.",
        )
    name = type(error).__name__
    kind = _CLASSES.get(name, EvaluationError)
    return kind(f"The runtime says: {_clean(text)}", hresult=INTERNAL_ERROR if name in _INTERNAL else None)


def _clean(text: str) -> str:
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    return _one_line(_SOURCE.sub("", re.sub(r"^Error in execution: ", "", text)))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _braces(shape: str) -> tuple[int, ...]:
    return tuple(int(size) for size in shape.strip("{}").split(",") if size)
