"""Compiles models with OpenVINO's package, and saves the compiled models."""

from __future__ import annotations

import io
import mmap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from ....enums import Precision, Weights
from ....errors import CorruptModelError, EvaluationError, InvalidArgumentError, NotSupportedError
from ...base import machine
from ...cache import choose_folder, make_key, open_or_make
from ...onnx_file.source import MAPPED_FROM, Skeleton
from ..providers import plugins
from ..providers.catalogue import find_provider, make_native_options
from ..providers.openvino import TYPES_BY_HINT
from ..providers.provider import Target
from ..request import CompileRequest
from .openvino_engine import OpenVinoEngine, find_port_numbers
from .package import get_core, share_tensor, translate_openvino_errors

if TYPE_CHECKING:
    import openvino


def compile_with_openvino(request: CompileRequest, target: Target) -> OpenVinoEngine:
    """Compiles a model whose inputs and outputs are tensors of numbers.

    Raises:
        NotSupportedError: an input or output is something else, or OpenVINO lacks an operator.
        CorruptModelError: OpenVINO cannot read the model, or its files were replaced meanwhile.
        EvaluationError: OpenVINO cannot compile the model.
        InvalidArgumentError: the same, if the program sets options of OpenVINO.
        IllegalCallError: this process was forked from one that uses OpenVINO.
    """
    if non_tensors := request.features.non_tensors:  # a string output crashes the interpreter
        raise NotSupportedError(
            f"OpenVINO supports only tensors of numbers as inputs and outputs, not {', '.join(non_tensors)}.",
            hint='Set options.engine = "onnxruntime".',
        )
    config = make_config(request, target)
    native = get_core()
    # OpenVINO cannot be stopped while it reads or compiles, so cancellation is checked between the steps.
    model = _read(request, native)
    request.require_not_stopped()
    # Keys have been checked; OpenVINO checks the values.
    with translate_openvino_errors(InvalidArgumentError if request.options.provider_options else EvaluationError):
        compiled = native.compile_model(model, "CPU", config)
    request.require_not_stopped()
    request.origin.require_unchanged()
    return make_engine(compiled, request, target)


def make_engine(compiled: openvino.CompiledModel, request: CompileRequest, target: Target) -> OpenVinoEngine:
    """The engine of a compiled model.

    Raises:
        NotSupportedError: it does not compute in the 16-bit type that was asked for: a processor may have only the
            other one.
    """
    with translate_openvino_errors():
        hint = str(compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name())
    precision = TYPES_BY_HINT.get(hint, Precision.FLOAT32)
    if target.precision.is_half and precision is not target.precision:
        raise NotSupportedError(
            f"OpenVINO computes this model in {precision.name.lower()}, but the options request "
            f"{target.precision.name.lower()}.",
            hint="Set options.precision = Precision.AUTO.",
        )
    return OpenVinoEngine(compiled, request, target, precision)


def make_config(request: CompileRequest, target: Target) -> dict[str, str]:
    """OpenVINO's properties for a session."""
    return make_native_options(target, request.options, False)


def _read(request: CompileRequest, native: openvino.Core) -> openvino.Model:
    """The model as OpenVINO reads it, with the sizes that the options fix."""
    model_file = request.model.path_or_bytes if isinstance(request.model, Skeleton) else request.model
    # A mapped file must not change while the session lives. With `Weights.PRIVATE` it may, so nothing is mappable.
    config = {"ENABLE_MMAP": request.origin.mappable_weights >= MAPPED_FROM}
    with translate_openvino_errors(CorruptModelError):
        model = native.read_model(model_file, config=config)
    options = request.options
    if options.shapes or options.dimensions or options.batch_size is not None:
        with translate_openvino_errors():
            # By position: if OpenVINO leaves out a node that does nothing, its input has another name than the model's.
            places = find_port_numbers(model.inputs, request.features.inputs)
            model.reshape({places[name]: list(shape) for name, shape in request.features.sizes.items()})
    _refuse_casts_of_inputs(model)
    return model


_MOVES = {"Convert", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
"""OpenVINO's names of operators that it leaves out where they change nothing."""


def _refuse_casts_of_inputs(model: openvino.Model) -> None:
    """Refuses an output of free size that is a Cast of an input to its own type.

    OpenVINO 2026.4 leaves the Cast out, and gives the output the input's memory. The next run of another binding then
    writes over the array that the program bound.
    """
    for result in model.results:
        value, operators = result.input_value(0), set[str]()
        while value.get_node().get_type_name() in _MOVES:
            operators.add(value.get_node().get_type_name())
            value = value.get_node().input_value(0)
        is_input = value.get_node().get_type_name() == "Parameter" and value.partial_shape.is_dynamic
        if is_input and "Convert" in operators and value.element_type == result.get_element_type():
            raise NotSupportedError(
                "With free sizes, OpenVINO overwrites the input of a model whose output is a Cast of that input.",
                hint='Set options.engine = "onnxruntime", or fix the sizes with options.input_shape_overrides.',
            )


# A compiled model of OpenVINO on disk: compiled once, then mapped by every session of every process.
#
# Loading it takes a fifth to a half of the time of compiling, and memory holds the weights once besides the mapped one,
# not twice.


SAVED_FROM = 256 << 10
"""The least size in bytes of models to save: compiling smaller ones takes no longer than writing files."""

BLOB = "compiled.blob"


def open_or_compile_with_openvino(request: CompileRequest, target: Target) -> OpenVinoEngine:
    """Opens the saved model if the model is from a file whose weights may be shared; else compiles it.

    If a saved model is damaged or cannot be written, the session is made without one.

    Raises:
        WinMLError: as `compile_with_openvino` does.
    """
    is_wanted = (
        request.origin.path and request.options.weights is Weights.SHARED and request.origin.total_size >= SAVED_FROM
    )
    folder = choose_folder(_make_cache_key(request, target), request.origin.total_size) if is_wanted else None
    if folder is None:
        return compile_with_openvino(request, target)
    get_core()  # refuses a forked process, even for a saved model
    saved = open_or_make(
        folder, request.origin.path, partial(_open, request, target), partial(_compile_and_save, request, target)
    )
    return saved or compile_with_openvino(request, target)


def _make_cache_key(request: CompileRequest, target: Target) -> str:
    """Everything that the compiled model depends on."""
    sizes = {name: list(shape) for name, shape in request.features.sizes.items()}
    version = plugins.read_version(find_provider(target.provider).package)
    config = make_config(request, target)
    return make_key("OpenVINO", request.compute_digest(), sizes, config, version, machine.read_processor_id())


def _open(request: CompileRequest, target: Target, folder: Path) -> OpenVinoEngine:
    request.require_not_stopped()
    with open(folder / BLOB, "rb") as file:  # OpenVINO rejects read-only memory, but does not write
        blob = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)
    with translate_openvino_errors():
        compiled = get_core().import_model(share_tensor(blob), "CPU", make_config(request, target))
    vars(compiled)["blob"] = blob  # OpenVINO reads the weights there: it must live as long as the model
    return make_engine(compiled, request, target)


def _compile_and_save(request: CompileRequest, target: Target, folder: Path) -> None:
    engine = compile_with_openvino(request, target)
    with open(folder / BLOB, "wb") as file:
        pieces = _Pieces(file, request.require_not_stopped)
        try:
            engine.export(pieces)
        finally:
            if pieces.failure is not None:
                raise pieces.failure
    engine.close()  # before the weights are in memory again


class _Pieces(io.BytesIO):
    """Writes OpenVINO's output to a file. OpenVINO expects a BytesIO, which would hold another copy of the weights.

    `check` is called before each piece, and may raise. `failure` is the first error, which OpenVINO ignores, or on
    Windows makes one of its own.
    """

    def __init__(self, file: BinaryIO, check: Callable[[], None]) -> None:
        super().__init__()
        self.failure: BaseException | None = None
        self._file = file
        self._check = check

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        try:
            self._check()
            return self._file.write(data)
        except BaseException as error:
            self.failure = self.failure or error
            raise

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()
