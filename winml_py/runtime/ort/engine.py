"""ONNX Runtime as an engine."""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...base.cancellation import Stop
from ...base.device_array import DeviceArray, MemoryLocation
from ...enums import Precision
from ...errors import IllegalCallError, InvalidDeviceError
from ...onnx_file.source import Skeleton
from ..engine import ONNXRUNTIME, EngineBinding, EngineInput, EngineOptions, PlacedNode
from ..explanation import Explanation
from ..providers.catalogue import CPU, MEMORY, Target, native_options
from ..providers.locks import UNLOCKED, device_lock
from ..providers.nvidia import preload
from ..providers.plugins import runtime_device
from ..tuning import Tuning
from . import heap
from .device_binding import Capture, DeviceBinding, is_recordable, leaked, require_process, upload
from .errors import translate
from .host_binding import FeedBinding, IoBinding
from .run import closed

if TYPE_CHECKING:
    import onnxruntime

CPU_TARGET = Target()
GRAPH, WEIGHTS = "graph.onnx", "weights.bin"
"""The files of a saved graph."""

_FATAL = 4  # below it the runtime writes to stderr what its exceptions say as well


_flushed: set[bool] = set()
"""Whether a session has had denormals count as 0: the runtime's flag stays set in the thread that made it."""


def flushes_denormals(options: EngineOptions) -> bool:
    """Whether constants may be folded with denormals as 0 in this process."""
    return options.tuning.denormals_as_zero or bool(_flushed)


class Saving(NamedTuple):
    """Where the optimised graph and its weights are written, and whether also the weights as kernels want them."""

    folder: str
    prepacked: bool = True


def compile_model(
    model: EngineInput,
    options: EngineOptions,
    target: Target = CPU_TARGET,
    capture: Capture = Capture.NONE,
    stop: Stop | None = None,
    saving: Saving | None = None,
    is_optimized: bool = False,
) -> OrtEngine:
    """Compiles a model with one of ONNX Runtime's providers.

    Args:
        model: what to compile.
        options: how.
        target: for which provider and device.
        capture: whether the provider is to record its work and repeat it.
        stop: lets another thread end the compilation.
        saving: whether the optimised graph is to be written, and where to.
        is_optimized: whether the model is such a graph.

    Raises:
        WinMLError: the runtime refuses the model; one of our classes, with the runtime's words.
    """
    import onnxruntime

    native = _session_options(options, saving, is_optimized)
    trace = tempfile.TemporaryDirectory(prefix="winml-py-", ignore_cleanup_errors=True) if options.is_profiled else None
    if trace is not None:
        native.enable_profiling = True
        native.profile_file_prefix = os.path.join(trace.name, "trace")
    files: Mapping[str, bytes] = {}
    if isinstance(model, Skeleton):
        files = model.files
        _place_weights(native, model)
        model = model.model
    providers = _providers(native, options, target, capture)
    device = target.device
    try:
        with device_lock(device), _cancelling(native, stop):
            session = onnxruntime.InferenceSession(model, native, providers, enable_fallback=0)
    except Exception as error:  # the runtime raises classes that have no common base
        if trace is not None:
            trace.cleanup()
        raise translate(error) from None
    if device is not None and device.provider not in session.get_providers():
        raise InvalidDeviceError(
            f"ONNX Runtime left {device.provider} out without a word.", hint="Run `winml-py doctor`: it says why."
        )
    vars(session)["weights"] = files  # the runtime reads them in place: they must live as long as it does
    return OrtEngine(session, options, target, capture, trace)


def _providers(
    native: onnxruntime.SessionOptions, options: EngineOptions, target: Target, capture: Capture
) -> list[Any] | None:
    device = target.device
    native.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if device is None:
        return [CPU]
    if not options.allow_cpu_fallback or capture is not Capture.NONE:
        native.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    own = native_options(target, options, capture is not Capture.NONE)
    if not device.library:
        preload()
        return [(device.provider, own), CPU]
    native.add_provider_for_devices([runtime_device(device)], own)
    return None


def _place_weights(native: onnxruntime.SessionOptions, model: Skeleton) -> None:
    if model.folder:
        native.add_session_config_entry("session.model_external_initializers_file_folder_path", model.folder)
    if model.files:
        sizes = [len(data) for data in model.files.values()]
        native.add_external_initializers_from_files_in_memory([*model.files], [*model.files.values()], sizes)
        native.add_session_config_entry("session.use_external_initializer_file_buffers_directly", "1")


def _save(native: onnxruntime.SessionOptions, saving: Saving) -> None:
    native.optimized_model_filepath = os.path.join(saving.folder, GRAPH)
    for key, value in (
        ("session.optimized_model_external_initializers_file_name", WEIGHTS),
        ("session.optimized_model_external_initializers_min_size_in_bytes", "1024"),
        ("session.save_external_prepacked_constant_initializers", str(int(saving.prepacked))),
    ):
        native.add_session_config_entry(key, value)


@contextmanager
def _cancelling(native: onnxruntime.SessionOptions, stop: Stop | None) -> Iterator[None]:
    if stop is None:
        yield
        return
    with stop.reaching(lambda: native.set_load_cancellation_flag(True)):
        try:
            yield
        except Exception:
            stop.require_not_requested()
            raise


def _session_options(options: EngineOptions, saving: Saving | None, is_optimized: bool) -> onnxruntime.SessionOptions:
    import onnxruntime

    native = onnxruntime.SessionOptions()
    native.log_severity_level = _FATAL
    _tune(native, options.tuning)
    native.intra_op_num_threads = options.intra_op_num_threads
    if not options.intra_op_thread_spinning:
        native.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if options.batch_size is not None:
        native.add_free_dimension_override_by_denotation("DATA_BATCH", options.batch_size)
    for name, size in options.dimensions:
        native.add_free_dimension_override_by_name(name, size)
    if saving is not None:
        _save(native, saving)
    if is_optimized:
        native.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return native


def _tune(native: onnxruntime.SessionOptions, tuning: Tuning) -> None:
    import onnxruntime

    level = (
        "ORT_DISABLE_ALL" if tuning.graph_optimization == "none" else f"ORT_ENABLE_{tuning.graph_optimization.upper()}"
    )
    native.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    native.execution_mode = getattr(onnxruntime.ExecutionMode, f"ORT_{tuning.execution_mode.upper()}")
    native.inter_op_num_threads = tuning.inter_op_num_threads
    native.enable_cpu_mem_arena = tuning.memory_arena
    native.enable_mem_pattern = tuning.memory_pattern
    if not tuning.prepacking:
        native.add_session_config_entry("session.disable_prepacking", "1")
    if tuning.dynamic_block_base:
        native.add_session_config_entry("session.dynamic_block_base", str(tuning.dynamic_block_base))
    if tuning.denormals_as_zero:
        native.add_session_config_entry("session.set_denormal_as_zero", "1")
        _flushed.add(True)


class OrtEngine:
    """A compiled model. Its bindings may run at the same time, each in its own thread."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        options: EngineOptions,
        target: Target,
        capture: Capture,
        trace: tempfile.TemporaryDirectory[str] | None = None,
    ) -> None:
        self.options = options
        self.name = ONNXRUNTIME if target.device is None else target.provider
        self.precision = Precision.HALF if target.half else Precision.FLOAT32
        self.explanation = Explanation(self.name, self.precision, "as asked for")
        self._session: onnxruntime.InferenceSession | None = session
        self._bindings: weakref.WeakSet[IoBinding | FeedBinding | DeviceBinding] = weakref.WeakSet()
        self._lock = threading.Lock()  # of the set alone; runs do not take it
        kinds = [value.type for value in (*session.get_inputs(), *session.get_outputs())]
        is_numeric = all(map(_is_numeric, kinds))
        memory = MEMORY.get(target.provider) if target.device and is_numeric else None
        self.location = MemoryLocation(memory, target.device.number) if memory and target.device else None
        self._capture = capture
        self._recorded: bytes | None = None
        self._trace = trace  # where the runtime records, and what the runtime has recorded goes with it
        self._device_lock = device_lock(target.device)
        self._process = os.getpid()
        self._binding_type = IoBinding if is_numeric else FeedBinding

    def bind(self, lock: AbstractContextManager[object] = UNLOCKED) -> EngineBinding:
        """A new, empty binding."""
        session = self._session
        if session is None:
            raise closed()
        binding: IoBinding | FeedBinding | DeviceBinding
        if self.location is not None:
            require_process(self._process)
            binding = DeviceBinding(session, self.location, lock, self._capture)
        else:
            binding = self._binding_type(session, self.options.tuning.arena_shrinkage, lock)
        with self._lock:
            self._bindings.add(binding)
        if self._session is None:  # closed by another thread meanwhile
            binding.close()
        return binding

    @property
    def is_recordable(self) -> bool:
        """Whether every input and output can keep an address on the device."""
        return self._session is not None and self.location is not None and is_recordable(self._session)

    def placement(self) -> list[PlacedNode]:
        """Which provider runs which node of the optimised graph."""
        session = self._session
        if session is None:
            raise closed()
        return [
            PlacedNode(node.name, node.op_type, part.ep_name)
            for part in session.get_provider_graph_assignment_info()
            for node in part.get_nodes()
        ]

    def upload(self, array: np.ndarray[Any, Any]) -> DeviceArray:
        """A copy of an array in the device's memory."""
        session = self._session
        if session is None or self.location is None:
            raise closed()
        require_process(self._process)
        return upload(array, self.location, session, self._device_lock)

    def end_profiling(self) -> bytes:
        """What was recorded until this was called first; nothing is from then on."""
        session = self._session
        if session is None:
            raise closed()
        with self._device_lock, self._lock:
            if self._recorded is None:
                trace, self._trace = self._trace, None
                if trace is None:
                    raise IllegalCallError("Nothing is recorded.", hint="Set options.profiling = True first.")
                with open(session.end_profiling(), "rb") as file:
                    self._recorded = file.read()
                trace.cleanup()
            return self._recorded

    def close(self) -> None:
        """Drops the native session: it is freed here, or when the last run in flight lets go of it."""
        if self.location is not None and os.getpid() != self._process:
            leaked.append((self._session, self._bindings))
            self._session = None
            return
        with self._device_lock:
            self._session = None
            with self._lock:
                bindings = list(self._bindings)
            for binding in bindings:
                binding.close()
            del bindings
        trace, self._trace = self._trace, None
        if trace is not None:
            trace.cleanup()  # the runtime has its file open, and writes it to nowhere when the session goes
        heap.trim()


def _is_numeric(kind: str) -> bool:
    """Whether a runtime type, spelled like `tensor(float)`, is a tensor of numbers."""
    return kind.startswith("tensor(") and kind != "tensor(string)"


def save_optimized(model: bytes, path: str, level: str) -> None:
    """Writes a model as the graph optimisations of a level leave it.

    Raises:
        WinMLError: the runtime refuses the model.
    """
    import onnxruntime

    native = onnxruntime.SessionOptions()
    native.log_severity_level = _FATAL
    native.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
    native.optimized_model_filepath = path
    try:
        onnxruntime.InferenceSession(model, native, [CPU], enable_fallback=0)
    except Exception as error:  # the runtime raises classes that have no common base
        raise translate(error) from None
