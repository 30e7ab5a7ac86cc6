"""ONNX Runtime as an engine."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..device_array import DeviceArray, Place
from ..errors import InvalidDeviceError
from ..kinds import Precision
from ..source import Skeleton
from ..stop import Stop
from ..tuning import Tuning
from . import heap
from .device_binding import Capture, DeviceBinding, is_recordable, leaked, require_process, upload
from .engine import ONNXRUNTIME, EngineBinding, EngineInput, EngineOptions, PlacedNode, Value
from .explanation import Explanation
from .locks import UNLOCKED, device_lock
from .nvidia import preload
from .ort_errors import translate, wrong_output_shape
from .plugins import runtime_device
from .providers import CPU, MEMORY, Target, native_options
from .runs import closed, stoppable

if TYPE_CHECKING:
    import onnxruntime

CPU_TARGET = Target()
_FATAL = 4  # below it the runtime writes to stderr what its exceptions say as well


def compile_model(
    model: EngineInput,
    options: EngineOptions,
    target: Target = CPU_TARGET,
    capture: Capture = Capture.NONE,
    stop: Stop | None = None,
) -> OrtEngine:
    """Compiles a model with one of ONNX Runtime's providers.

    Args:
        model: what to compile.
        options: how.
        target: for which provider and device.
        capture: whether the provider is to record its work and repeat it.
        stop: lets another thread end the compilation.

    Raises:
        WinMLError: the runtime refuses the model; one of our classes, with the runtime's words.
    """
    import onnxruntime

    native = _session_options(options)
    if isinstance(model, Skeleton):
        native.add_session_config_entry("session.model_external_initializers_file_folder_path", model.folder)
        model = model.model
    providers: list[Any] | None = [CPU]
    device = target.device
    if device is not None:
        native.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        if not options.allow_cpu_fallback or capture is not Capture.NONE:
            native.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        own = native_options(target, options, capture is not Capture.NONE)
        if device.library:
            native.add_provider_for_devices([runtime_device(device)], own)
            providers = None
        else:
            preload()
            providers = [(device.provider, own), CPU]
    try:
        with device_lock(device), _cancelling(native, stop):
            session = onnxruntime.InferenceSession(model, native, providers, enable_fallback=0)
    except Exception as error:  # the runtime raises classes that have no common base
        raise translate(error) from None
    if device is not None and device.provider not in session.get_providers():
        raise InvalidDeviceError(
            f"ONNX Runtime left {device.provider} out without a word.", hint="Run `winml-py doctor`: it says why."
        )
    return OrtEngine(session, options, target, capture)


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


def _session_options(options: EngineOptions) -> onnxruntime.SessionOptions:
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


class OrtEngine:
    """A compiled model. Its bindings may run at the same time, each in its own thread."""

    def __init__(
        self, session: onnxruntime.InferenceSession, options: EngineOptions, target: Target, capture: Capture
    ) -> None:
        self.options = options
        self.name = ONNXRUNTIME if target.device is None else target.provider
        self.precision = Precision.HALF if target.half else Precision.FLOAT32
        self.explanation = Explanation(self.name, self.precision, "as asked for")
        self._session: onnxruntime.InferenceSession | None = session
        self._bindings: weakref.WeakSet[_IoBinding | _FeedBinding | DeviceBinding] = weakref.WeakSet()
        self._lock = threading.Lock()  # of the set alone; runs do not take it
        kinds = [value.type for value in (*session.get_inputs(), *session.get_outputs())]
        is_numeric = all(map(_is_numeric, kinds))
        memory = MEMORY.get(target.provider) if target.device and is_numeric else None
        self.place = Place(memory, target.device.number) if memory and target.device else None
        self._capture = capture
        self._device_lock = device_lock(target.device)
        self._process = os.getpid()
        self._binding_type = _IoBinding if is_numeric else _FeedBinding

    def bind(self, lock: AbstractContextManager[object] = UNLOCKED) -> EngineBinding:
        """A new, empty binding."""
        session = self._session
        if session is None:
            raise closed()
        binding: _IoBinding | _FeedBinding | DeviceBinding
        shrinks = self.options.tuning.arena_shrinkage
        if self.place is not None:
            require_process(self._process)
            binding = DeviceBinding(session, self.place, lock, self._capture)
        else:
            binding = self._binding_type(session, shrinks, lock)
        with self._lock:
            self._bindings.add(binding)
        if self._session is None:  # closed by another thread meanwhile
            binding.close()
        return binding

    @property
    def is_recordable(self) -> bool:
        """Whether every input and output can keep an address on the device."""
        return self._session is not None and self.place is not None and is_recordable(self._session)

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
        if session is None or self.place is None:
            raise closed()
        require_process(self._process)
        return upload(array, self.place, session, self._device_lock)

    def close(self) -> None:
        """Drops the native session: it is freed here, or when the last run in flight lets go of it."""
        if self.place is not None and os.getpid() != self._process:
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
        heap.trim()


class _IoBinding:
    """Tensors of numbers, bound by address: what runs nearly every model."""

    def __init__(
        self, session: onnxruntime.InferenceSession, shrinks: bool, lock: AbstractContextManager[object]
    ) -> None:
        self._shrinks = shrinks
        native = session.io_binding()
        # The native binding must go before its session, and a tuple drops its last item first.
        self._native: tuple[onnxruntime.InferenceSession, onnxruntime.IOBinding] | None = (session, native)
        self._arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._allocated: dict[str, int] = {}
        for index, output in enumerate(session.get_outputs()):
            native.bind_output(output.name, "cpu")  # in graph order, which is the order they come back in
            self._allocated[output.name] = index
        self._indices = dict(self._allocated)
        # What goes in and comes out as it is comes out at the address where it went in, which is the caller's.
        self._passed = {given.name for given in session.get_inputs()} & set(self._indices)

    def set_input(self, name: str, value: Value | DeviceArray) -> None:
        assert isinstance(value, np.ndarray)
        self._open()[1].bind_input(name, "cpu", 0, value.dtype, value.shape, value.ctypes.data)
        self._arrays[name] = value

    def set_output(self, name: str, array: np.ndarray[Any, Any] | DeviceArray | None) -> None:
        assert not isinstance(array, DeviceArray)
        native = self._open()[1]
        if array is None:
            native.bind_output(name, "cpu")
            self._arrays.pop(name, None)
            self._allocated[name] = self._indices[name]
        else:
            native.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
            self._arrays[name] = array
            self._allocated.pop(name, None)

    def keep_output(self, name: str) -> None:
        raise AssertionError("only engines with a place of their own are asked to")  # pragma: no cover

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        session, native = self._open()
        arrays = self._arrays  # close() lets go of them, and the run still writes to their addresses
        try:
            if stop is None and not self._shrinks:
                session.run_with_iobinding(native)
            else:
                with stoppable(stop or Stop(), self._shrinks) as run_options:
                    session.run_with_iobinding(native, run_options)
            if not self._allocated:
                return {}
            values = native.get_outputs()
            fresh = {name: values[index].numpy() for name, index in self._allocated.items()}
            fresh |= {name: fresh[name].copy() for name in self._passed}
            for name in fresh:  # or the next run would write over what the caller now owns
                native.bind_output(name, "cpu")
            return fresh
        except Exception as error:  # see compile_model
            failure = translate(error)
        finally:
            del session, native, arrays  # an error that somebody keeps must not keep the session
            if self._native is None:  # closed meanwhile: this was the last run in flight
                heap.trim()
        raise failure  # out here, where the runtime's own error and its frames are gone

    def close(self) -> None:
        """Lets go of the native session, the bound memory and the native binding."""
        self._native = None
        self._arrays = {}

    def _open(self) -> tuple[onnxruntime.InferenceSession, onnxruntime.IOBinding]:
        native = self._native
        if native is None:
            raise closed()
        return native


class _FeedBinding:
    """Strings, maps and sequences, which have no address to bind: copied in and out by each run."""

    def __init__(
        self, session: onnxruntime.InferenceSession, shrinks: bool, lock: AbstractContextManager[object]
    ) -> None:
        self._shrinks, self._lock, self._process = shrinks, lock, os.getpid()
        self._session: onnxruntime.InferenceSession | None = session
        self._names = [output.name for output in session.get_outputs()]
        self._inputs: dict[str, Value] = {}
        self._outputs: dict[str, np.ndarray[Any, Any]] = {}

    def set_input(self, name: str, value: Value | DeviceArray) -> None:
        assert not isinstance(value, DeviceArray)
        self._inputs[name] = value

    def set_output(self, name: str, array: np.ndarray[Any, Any] | DeviceArray | None) -> None:
        assert not isinstance(array, DeviceArray)
        if array is None:
            self._outputs.pop(name, None)
        else:
            self._outputs[name] = array

    def keep_output(self, name: str) -> None:
        raise AssertionError("only engines with a place of their own are asked to")  # pragma: no cover

    def run(self, stop: Stop | None = None) -> Mapping[str, Value]:
        session = self._session
        if session is None:
            raise closed()
        if self._lock is not UNLOCKED:
            require_process(self._process)
        try:
            with self._lock, stoppable(stop or Stop(), self._shrinks) as run_options:
                values = session.run(self._names, self._inputs, run_options)
            fresh = dict(zip(self._names, values, strict=True))
        except Exception as error:  # see compile_model
            failure = translate(error)
        else:
            return self._fill_outputs(fresh)
        finally:
            del session  # see _IoBinding.run
            if self._session is None:
                heap.trim()
        raise failure

    def _fill_outputs(self, fresh: dict[str, Value]) -> Mapping[str, Value]:
        for name, array in self._outputs.items():
            value = fresh.pop(name)
            assert isinstance(value, np.ndarray)
            if value.shape != array.shape:
                raise wrong_output_shape(name, array.shape, value.shape)
            np.copyto(array, value)
        return fresh

    def close(self) -> None:
        """Lets go of the native session and the bound memory."""
        self._session = None
        self._inputs, self._outputs = {}, {}


def _is_numeric(kind: str) -> bool:
    """Whether a runtime type, spelled like `tensor(float)`, is a tensor of numbers."""
    return kind.startswith("tensor(") and kind != "tensor(string)"
