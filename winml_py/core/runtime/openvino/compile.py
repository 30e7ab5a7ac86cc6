"""Compiling a model with OpenVINO's own package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import CorruptModelError, NotSupportedError
from ...onnx_file.source import MAPPED_FROM, Skeleton
from ..providers.catalogue import native_options
from ..providers.openvino import TYPES_BY_HINT
from ..providers.provider import Target
from ..request import CompileRequest
from .binding import numbers
from .engine import OpenVinoEngine
from .errors import translated
from .package import core

if TYPE_CHECKING:
    import openvino


def compile_model(request: CompileRequest, target: Target) -> OpenVinoEngine:
    """Compiles a model whose inputs and outputs are tensors of numbers.

    Raises:
        NotSupportedError: an input or output is something else, or OpenVINO does not have an operator.
        CorruptModelError: OpenVINO cannot read the model, or its files were replaced while it did.
        EvaluationError: OpenVINO cannot compile the model.
        IllegalCallError: this process was forked from one that uses OpenVINO.
    """
    if request.others:  # an output of text ends the interpreter
        raise NotSupportedError(
            f"OpenVINO takes and gives tensors of numbers alone, and {', '.join(request.others)} is none.",
            hint='Set options.engine = "onnxruntime".',
        )
    config = config_of(request, target)
    native = core()
    model = _read(request, native)
    request.require_not_stopped()
    with translated():
        compiled = native.compile_model(model, "CPU", config)
    request.require_not_stopped()
    request.require_unchanged()
    return engine_of(compiled, request, target)


def engine_of(compiled: openvino.CompiledModel, request: CompileRequest, target: Target) -> OpenVinoEngine:
    """The engine of a compiled model, which says what it computes in: not always what it was asked for.

    A processor with bfloat16 alone compiles a model in bfloat16 that was to be float16, and does not say so by itself.

    Raises:
        NotSupportedError: it computes in another type of half precision than the target's, or in none.
    """
    with translated():
        hint = str(compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name())
    came = TYPES_BY_HINT.get(hint, "")
    if target.half_type not in ("", came):
        raise NotSupportedError(
            f"OpenVINO computes in {came or 'float32'} on this processor where {target.half_type} is asked for.",
            hint="Set options.precision = Precision.FLOAT32, or leave the engine out.",
        )
    return OpenVinoEngine(compiled, request, target, came)


def config_of(request: CompileRequest, target: Target) -> dict[str, str]:
    """OpenVINO's properties for a session.

    Raises:
        InvalidArgumentError: the options have one that it does not know.
    """
    config = native_options(target, request.options, False)
    return config | ({"PERF_COUNT": "YES"} if request.options.is_profiled else {})


def _read(request: CompileRequest, native: openvino.Core) -> openvino.Model:
    """The model as OpenVINO reads it, with the sizes that the options fix."""
    whole = request.model.whole if isinstance(request.model, Skeleton) else request.model
    config = {"ENABLE_MMAP": request.weights >= MAPPED_FROM}
    with translated(CorruptModelError):
        model = native.read_model(whole, config=config)
    options = request.options
    if options.shapes or options.dimensions or options.batch_size is not None:
        with translated():
            places = numbers(model.inputs, request.inputs)
            model.reshape({places[name]: list(shape) for name, shape in request.sizes.items()})
    return model
