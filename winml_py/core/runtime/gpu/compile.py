"""Compiles for a GPU or an NPU: in a supported precision, recorded if possible, and cached if the provider can."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....enums import Precision, Weights
from ....errors import InvalidDeviceError, NotSupportedError
from ...cache import answers, folders
from ...onnx_file.source import Skeleton
from ..engine import ONNXRUNTIME, Engine, EngineOptions, Explanation
from ..ort.compile import compile_model, require_options
from ..ort.device_memory import Recording
from ..ort.engine import OrtDeviceEngine, OrtEngine
from ..ort.errors import NodesLeftError
from ..providers import plugins
from ..providers.catalogue import native_options, provider_of, require_option_keys, session_lock
from ..providers.provider import Provider, ProviderDevice, Target, short
from ..request import CompileRequest
from .float32 import Float32Engine, as_float32


class DeviceCompiler:
    """Compiles for one device of a provider."""

    def __init__(self, device: ProviderDevice) -> None:
        self._device, self._provider = device, provider_of(device.provider)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the device; a provider has functions."""
        return type(self), (self._device,)

    def compile(self, request: CompileRequest) -> Engine:
        """Compiles a model.

        Raises:
            InvalidDeviceError: the options name an engine that does not use the device.
            NotSupportedError: a constraint of recording is not met, or a node would run on the CPU although it may not.
            WinMLError: the provider does not accept the model.
        """
        device, options = self._device, request.options
        if options.engine not in (None, ONNXRUNTIME, "auto") and device.engine != short(options.engine):
            raise InvalidDeviceError(
                f"{device.name} is used by {device.provider}, but the options name the engine {options.engine}.",
                hint="Use the engine's device: LearningModelDevice.find(provider).",
            )
        require_option_keys(device.provider, dict(options.provider_options))
        reason, is_float32 = self._precision(request)
        if is_float32:
            # From here on, the model is float32. Only its inputs and outputs are float16: `Float32Engine` casts them.
            features = replace(request.features, has_float16=False)
            request = replace(request, model=as_float32(request.model), features=features)
        target = Target(device, half=request.features.has_float16)
        engine, recording = self._compile_engine(request, target)
        engine.explanation = Explanation(*target.spelling, reason, recording=recording)
        if not is_float32:
            return engine
        return Float32Engine(engine, request.features.float16_features)

    def _precision(self, request: CompileRequest) -> tuple[str, bool]:
        """The reason for its precision, and whether that is float32 for a float16 model."""
        asked_for = request.options.precision
        if not request.features.has_float16:
            more = "; `winml-py convert` makes a float16 one, which runs in half precision here"
            return "the model is float32" + (more if asked_for is Precision.HALF else ""), False
        if not self._device.float16:
            return f"{self._device.name} has no half precision", True
        is_float32 = asked_for is Precision.FLOAT32
        return "asked for in float32" if is_float32 else "the model is float16", is_float32

    def _compile_engine(self, request: CompileRequest, target: Target) -> tuple[OrtEngine, str]:
        """The engine, which records if the options or the provider's defaults say so; and an explanation."""
        must_record = is_demanded(request.options, self._provider)
        if not must_record and (request.options.graph_capture is not None or not self._provider.records_unasked):
            return compile_kept(request, target), ""
        engine, problem = self._recording(request, target, must_record)
        if engine is not None:
            return engine, "its work is recorded once and repeated"
        if must_record:
            raise unmet_constraint(problem)
        return compile_kept(request, target), f"its work is not recorded ({problem})"

    def _recording(self, request: CompileRequest, target: Target, must_record: bool) -> tuple[OrtEngine | None, str]:
        """An engine that records, or the name of the unmet constraint."""
        broken = broken_constraint(request, self._provider)
        if broken:
            return None, broken
        mode = Recording.DEMANDED if must_record else Recording.POSSIBLE
        try:
            engine = compile_kept(request, target, mode)
        except NodesLeftError:
            return None, "all-nodes-on-provider"
        if isinstance(engine, OrtDeviceEngine) and engine.is_recordable:
            return engine, ""
        engine.close()
        return None, "inputs-on-device"

    def key(self, options: EngineOptions) -> Hashable:
        """The device; unique for engines that one thread at a time may run, because each session has its own lock."""
        may_record = options.graph_capture is None and self._provider.records_unasked
        is_own = self._provider.takes_one_thread or may_record or is_demanded(options, self._provider)
        return (self._device, object()) if is_own else self._device

    def session_lock(self) -> AbstractContextManager[object]:
        """A separate lock, or the device's."""
        return session_lock(self._device)


# Recording a GPU's work once and replaying it: the constraints on models and options.
#
# The constraints are those of the runtime's guide to CUDA graphs; WebGPU's recording has the same. Two of them hold by
# construction: inputs are copied to their previous addresses (`DeviceBinding`), and a session's lock keeps threads
# apart, because engines that record are not shared. The others are checked when the model is compiled, or, for tensors
# bound on the device, by the run (`RecordedGraph`).


CONSTRAINTS = {
    "no-control-flow": "the model has no If, Loop or Scan",
    "all-nodes-on-provider": "the provider supports every node",
    "tensors-only": "inputs and outputs are tensors of numbers",
    "fixed-shapes": "the shapes of the inputs decide all others: no NonZero, Compress, Unique or NonMaxSuppression",
    "inputs-on-device": "the provider reads every input on the device",
    "same-results": "a recording has the same results as a plain run, which the second evaluation checks",
    "fixed-addresses": "tensors bound on the device keep the addresses they had when the work was recorded",
    "inputs-copied": "new numbers are copied to the address of the old ones",
    "one-thread": "one thread at a time runs the session",
}
"""All of them, by their names in errors."""

_CONTROL_FLOW = frozenset(("If", "Loop", "Scan"))
_SIZED_BY_NUMBERS = frozenset(("NonZero", "Compress", "Unique", "NonMaxSuppression"))
"""Operators whose output size depends on the values of their inputs."""


def is_demanded(options: EngineOptions, provider: Provider) -> bool:
    """Whether the options demand recording, by `graph_capture` or by the provider's option."""
    option = dict(options.provider_options).get(provider.recording_option, "0")
    return bool(options.graph_capture) or option.lower() in ("1", "true")


def broken_constraint(request: CompileRequest, provider: Provider) -> str:
    """The name of a constraint that the model cannot meet, or ""."""
    if not provider.recording_option or not request.features.has_only_numbers:
        return "tensors-only"
    import onnx

    model = request.model.model if isinstance(request.model, Skeleton) else request.model
    if isinstance(model, bytes):
        proto = onnx.load_model_from_string(model)
    else:
        proto = onnx.load(model, load_external_data=False)
    operators = {node.op_type for node in proto.graph.node}
    if operators & _SIZED_BY_NUMBERS:
        return "fixed-shapes"
    return "no-control-flow" if operators & _CONTROL_FLOW else ""


def unmet_constraint(name: str) -> NotSupportedError:
    """The error for a constraint that is not met."""
    return NotSupportedError(
        f"The work of this model cannot be recorded (constraint {name}): recording requires that {CONSTRAINTS[name]}.",
        hint="Set options.graph_capture = None to record only if that is possible.",
    )


# A provider that saves compiled models gets a cache folder for each model. It chooses the names of its files, and may
# not check whether they still match. So models, versions and settings never share a folder; its files were written by
# this user, and are unchanged.


def compile_kept(request: CompileRequest, target: Target, recording: Recording = Recording.NONE) -> OrtEngine:
    """Compiles a model for a device, or makes its provider open the saved model.

    If the folder is damaged or cannot be written, the session is made without it.

    Raises:
        WinMLError: the provider does not accept the model.
    """
    options, cache_options = request.options, provider_of(target.provider).cache_options
    # The program's options may already set a cache, or a file for the compiled model.
    words = ("cache", "ep_context", "ep.context")
    given = (*options.provider_options, *options.session_config)
    is_own = any(word in key.lower() for key, _ in given for word in words)
    if cache_options is None or is_own or not request.origin.path or options.weights is not Weights.SHARED:
        return compile_model(request, target, recording)
    folder = folders.folder_for(_cache_key(request, target, recording), request.origin.total_size)
    if folder is None:
        return compile_model(request, target, recording)
    require_options(options, target)  # so that their errors do not count as errors of the folder

    def compile_in(folder: Path) -> OrtEngine:
        all_options = tuple({**cache_options(str(folder)), **dict(options.provider_options)}.items())
        changed = replace(request, options=options._replace(provider_options=all_options))
        engine = compile_model(changed, target, recording)
        engine.options = options
        return engine

    kept = folders.opened_or_made(
        folder, request.origin.path, compile_in, compile_in, request.require_not_stopped, may_change=True
    )
    return kept or compile_model(request, target, recording)


def _cache_key(request: CompileRequest, target: Target, recording: Recording) -> str:
    """Everything that the compiled model depends on; the provider checks the hardware and its driver itself."""
    options, device = request.options, target.device
    sizes = {name: list(shape) for name, shape in request.features.sizes.items()}
    graph = [options.batch_size, options.dimensions, options.tuning, options.session_config]
    native = native_options(target, options, recording is not Recording.NONE)
    where = (device.provider, device.name, device.library, plugins.version(device.package)) if device else ()
    return answers.key_of("provider", request.digest(), sizes, graph, native, where, plugins.runtime_version())
