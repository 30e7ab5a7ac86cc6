"""LearningModelSession, a model compiled for a device, and LearningModelBinding, the values that it evaluates."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, NoReturn

from ...enums import LearningModelDeviceKind, Precision
from ...errors import (
    IllegalCallError,
    InvalidArgumentError,
    InvalidBindingError,
    InvalidDeviceError,
    NotBoundError,
)
from ..base.arguments import require_positive_seconds, require_type
from ..base.async_operation import AsyncOperation
from ..base.atomic_files import require_folder, translate_write_errors, write_atomically
from ..base.cancellation import Stop, hold
from ..base.collections import MapView, PropertySet
from ..base.machine import count_usable_cores
from ..base.messages import type_name
from ..base.winrt_object import Closeable, Object
from ..features.bind_properties import NO_PROPERTIES, BindProperties
from ..features.containers import as_tensor
from ..features.tensor import Tensor, wrap_device_array
from ..features.tensor_classes import TensorString
from ..imaging.picture_placement import PicturePlacement
from ..model.model import LearningModel
from ..runtime.device import LearningModelDevice
from ..runtime.engine import AssignedNode, Explanation
from .compile import compile_model, require_tuned_for
from .options import LearningModelSessionOptions, make_engine_options
from .result import LearningModelEvaluationResult
from .state import BindingState

if TYPE_CHECKING:
    from ..features.prepare import BindableValue
    from ..imaging.contract import ImageContract
    from .stream import EvaluationStream


class LearningModelSession(Closeable, Object):
    """A model compiled for a device.

    Sessions of the same model on the CPU with equal options share one engine: one copy of the weights and one
    thread pool. A CPU session takes no lock: threads evaluate concurrently, each with its own binding.
    A GPU session holds a lock while it uses the device; with WebGPU, all sessions on the device share one lock.
    If a session cannot be made on its device, that is an error: nothing falls back to another device.
    A session belongs to the process that made it: after a fork, make one in the child, from the same model.

    Args:
        model: the model; it may be disposed of once the session is made.
        device: where to run; the CPU by default.
        options: how to compile. Passing default options is not the same as passing none:
            see `LearningModelSessionOptions`.

    Raises:
        ModelDisposedError: the model has been disposed.
        CorruptModelError: the graph is invalid.
        ModelVersionError: the model's opset or IR version is newer than the runtime knows.
        NotSupportedError: the model uses operators that no engine runs, or that the provider leaves to the CPU
            although the options forbid that; or nothing computes in the number type that the options ask for.
        InvalidDeviceError: the engine that the options name is not available.
        InvalidArgumentError: an argument of the wrong type, or options that contradict each other, override a dimension
            that the model does not have, or were tuned for another model.
        ModelNotFoundError: the model's file, or one with its weights, is gone.

    Example:
        >>> import numpy as np
        >>> from winml_py import LearningModel, LearningModelSession
        >>> with LearningModelSession(LearningModel.load("models/digits.onnx")) as session:
        ...     result = session.evaluate_features({"image": np.zeros((1, 1, 28, 28), np.float32)})
        ...     result.outputs["probabilities"].shape
        (1, 10)
    """

    def __init__(
        self,
        model: LearningModel,
        /,
        device: LearningModelDevice | None = None,
        options: LearningModelSessionOptions | None = None,
        *,
        _stop: Stop | None = None,
    ) -> None:
        path = repr(os.fspath(model)) if isinstance(model, (str, os.PathLike)) else "path"
        require_type(model, LearningModel, f"Load the model first: LearningModelSession(LearningModel.load({path})).")
        if not isinstance(device, LearningModelDevice | None):
            raise InvalidArgumentError(
                f"Expected a LearningModelDevice, got {type_name(device)}.", hint=_make_device_hint(device)
            )
        require_type(options, LearningModelSessionOptions | None, "Pass LearningModelSessionOptions().")
        self._model = model
        self._device = LearningModelDevice() if device is None else device
        self._options = copy(options)  # for sessions on other devices; the caller may change the original
        if options is not None and options.tuned_for:
            require_tuned_for(options, model, self._device)
        self._private_state = compile_model(model, self._device, make_engine_options(options), _stop)
        self._engine_options = self._private_state.engine.options
        if options is not None and options.close_model_on_session_creation:
            model.dispose()

    if not TYPE_CHECKING:  # type checkers report wrong names themselves

        def __getattr__(self, name: str) -> None:
            hint = " Call session.evaluate_features({name: value}).outputs." if name == "run" else ""
            raise AttributeError(f"A LearningModelSession has no {name!r}.{hint}", name=name, obj=self)

        def __call__(self, *_: object, **__: object) -> None:
            """Refused: a session is no function.

            Raises:
                TypeError: always.
            """
            raise TypeError(
                "A LearningModelSession is not callable. Call session.evaluate_features({name: value}).outputs."
            )

    @classmethod
    def create_async(
        cls,
        model: LearningModel,
        /,
        device: LearningModelDevice | None = None,
        options: LearningModelSessionOptions | None = None,
    ) -> AsyncOperation[LearningModelSession]:
        """Starts making a session in a thread: await it, or call `get()` on the operation.

        Cancelling the task that awaits it, or the operation, stops the compilation when ONNX Runtime next checks.
        """
        return AsyncOperation(lambda stop: cls(model, device, options, _stop=stop))

    @property
    def model(self) -> LearningModel:
        """The model it was made from; its properties remain readable."""
        return self._model

    @property
    def device(self) -> LearningModelDevice:
        """The device that the session evaluates on."""
        return self._device

    @property
    def options(self) -> LearningModelSessionOptions | None:
        """A copy of the options that the session was made with."""
        return copy(self._options)

    @property
    def evaluation_properties(self) -> PropertySet:
        """Free-form properties. Only the presence of `EnableDebugOutput` has an effect: each evaluation then logs its
        inputs and outputs to the logger `winml_py`, at level DEBUG.
        """
        return self._private_state.properties

    def get_intra_op_num_threads(self) -> int:
        """Threads that work together on one operator."""
        return self._engine_options.intra_op_num_threads

    def get_intra_op_thread_spinning(self) -> bool:
        """Whether those threads spin while they wait."""
        return self._engine_options.intra_op_thread_spinning

    @property
    def engine(self) -> str:
        """What runs the model: "onnxruntime" is its CPU provider, else the provider's name."""
        return self._private_state.engine.explanation.engine

    @property
    def precision(self) -> Precision:
        """The number type it computes in; never `AUTO`."""
        return self._private_state.engine.explanation.precision

    def explain(self) -> Explanation:
        """The engine and the number type, and why; `print` it."""
        return self._private_state.engine.explanation

    @property
    def assigned_nodes(self) -> list[AssignedNode]:
        """Which provider runs which node of the optimised graph: node, operator, provider.

        On a GPU, nodes of `CPUExecutionProvider` are those that its provider does not support. Nodes that TensorRT does
        not support go to CUDA first, and are listed as CUDA's. ONNX Runtime makes this list before its last fusions, so
        fewer nodes may run: `winml-py perf --profile` lists those.
        """
        return self._private_state.engine.list_assigned_nodes()

    def end_profiling(self, path: str | os.PathLike[str], /) -> None:
        """Writes the time of each node since the session was made, and stops recording; see `options.profiling`.

        Called again, it writes the same to another file.

        Args:
            path: the file to write: a trace in Chrome's format, for Perfetto and `chrome://tracing`. Times are in
                microseconds.

        Raises:
            IllegalCallError: the session does not record.
            StorageNotFoundError: there is no such folder.
            StorageAccessError: the file cannot be written.
        """
        engine = self._private_state.engine
        require_folder(path)
        with translate_write_errors(path):
            write_atomically(path, engine.end_profiling())

    def upload(self, value: object, /) -> Tensor:
        """Copies an array or a tensor to the memory of the session's GPU, as a tensor to bind repeatedly.

        Raises:
            InvalidDeviceError: the runtime keeps no tensors in the device's memory, as it does with CUDA and WebGPU.
            InvalidBindingError: the value is not an array of a type that tensors have.
        """
        engine = self._private_state.engine
        if engine.location is None:
            raise InvalidDeviceError(
                f"The runtime cannot store tensors in the memory of {self._device.name}.",
                hint="Bind the array itself.",
            )
        tensor = as_tensor(value)
        if tensor is None or isinstance(tensor, TensorString):
            raise InvalidBindingError(f"Expected an array of numbers, got {type_name(value)}.", hint="Pass an array.")
        with self._private_state.lock:
            return wrap_device_array(type(tensor), engine.upload(tensor.to_numpy()))

    @property
    def is_lost(self) -> bool:
        """Whether the device, or the process of an isolated engine, was lost.

        The session is then unusable: make another; if the device was lost, on a new device.
        """
        return self._private_state.is_lost

    def evaluate(
        self, binding: LearningModelBinding, correlation_id: str = "", /, *, timeout: float | None = None
    ) -> LearningModelEvaluationResult:
        """Runs the model on the bound values. All outputs are computed; bound ones are written in place.

        The same binding can be evaluated again: inputs are reused, bound outputs are overwritten. If an error or a stop
        ends a run, bound outputs are invalid until a run succeeds: reading tensors and pictures raises an error, lists
        and dicts are empty, and arrays are filled with NaN, or for integers with the least value of their type (the
        largest, if unsigned), or for strings with None. Arrays of booleans keep their values, and the error names them.
        A run that is refused before it begins changes nothing.

        Args:
            binding: made for this session.
            correlation_id: returned in the result.
            timeout: seconds after which a run that goes on is stopped, at the next node boundary: a running kernel
                finishes first, unless the session is isolated. Costs some tens of microseconds.

        Raises:
            ClosedError: the session has been closed.
            IllegalCallError: the session was made in another process, from which this one was forked.
            InvalidArgumentError: the binding is another session's, or the timeout is not a number of seconds.
            EvaluationTimeoutError: the time limit stopped the run.
            MissingInputError: an input has not been bound.
            SizeMismatchError: an output does not fit the memory it is bound to.
            EvaluationError: an operator failed; the message quotes the engine's.
            DeviceLostError: the device was lost; the session is unusable.
            EngineLostError: the engine process of an isolated session has ended; the session is unusable.
        """
        _require_correlation_id(correlation_id)
        return self._evaluate(self._require_own_binding(binding), correlation_id, timeout)

    def evaluate_async(
        self, binding: LearningModelBinding, correlation_id: str = "", /
    ) -> AsyncOperation[LearningModelEvaluationResult]:
        """Starts `evaluate` in a thread: await the result, or call `get()` on it.

        Cancelling the task that awaits it stops the run at the next node boundary; a running kernel finishes
        first. Evaluations of different bindings run concurrently, those of one binding take turns.

        Raises:
            ClosedError: the session has been closed. The operation raises all other errors.
        """
        _require_correlation_id(correlation_id)
        binding_state = self._require_own_binding(binding)
        self._private_state.require_open()
        return AsyncOperation(lambda stop: binding_state.evaluate(correlation_id, stop))

    def evaluate_features(
        self, features: Mapping[str, object], correlation_id: str = "", /, *, timeout: float | None = None
    ) -> LearningModelEvaluationResult:
        """Evaluates values by name: all inputs, and outputs to write in place.

        Each call is separate: it needs all inputs, and its results have separate memory.

        Args:
            features: values by the names of inputs and outputs, each as `LearningModelBinding.bind` takes it; or a
                table of pandas, polars or pyarrow, or a dict of columns: each input takes the column of its name, or a
                single matrix all columns. Other columns are not used.
            correlation_id: returned in the result.
            timeout: as for `evaluate`; it starts after the bind.

        Raises:
            InvalidArgumentError: the features are not a mapping, two keys name one feature, or the timeout is no number
                of seconds.
            EvaluationTimeoutError: the time limit stopped the run.
            WinMLError: as `LearningModelBinding.bind` and `evaluate` do.
        """
        _require_correlation_id(correlation_id)
        features = self._name_values(features)
        binding_state = BindingState(self._private_state)
        for name, value in features.items():
            binding_state.put(binding_state.prepare(name, value))
        if len(binding_state.values) < len(features):
            self._private_state.require_distinct(features)
        return self._evaluate(binding_state, correlation_id, timeout)

    def evaluate_features_async(
        self, features: Mapping[str, object], correlation_id: str = "", /
    ) -> AsyncOperation[LearningModelEvaluationResult]:
        """Starts `evaluate_features` in a thread, which also decodes, tensorizes and binds.

        Do not change the values until the operation is done. Cancelling it works as with `evaluate_async`.

        Args:
            features: as for `evaluate_features`; the thread loads picture files.
            correlation_id: returned in the result.

        Raises:
            WinMLError: as `evaluate_features`, for errors found before a picture is decoded: a closed session, unknown
                names, wrong types and shapes. The operation raises all other errors.

        Example:
            >>> from winml_py import LearningModel, LearningModelSession
            >>> session = LearningModelSession(LearningModel.load("models/digits.onnx"))
            >>> operation = session.evaluate_features_async({"image": "samples/pictures/seven.png"})
            >>> int(operation.get().outputs["probabilities"].to_numpy().argmax())
            7
        """
        _require_correlation_id(correlation_id)
        features = self._name_values(features)
        binding_state, session_state = BindingState(self._private_state), self._private_state
        session_state.require_distinct(features)
        prepared = [binding_state.prepare(name, value) for name, value in features.items()]

        def run(stop: Stop) -> LearningModelEvaluationResult:
            # At most as many threads decode at once as there are cores: more would decode no faster, hold a picture
            # each, and delay an event loop.
            slots = _core_slots.setdefault(os.getpid(), threading.Semaphore(count_usable_cores()))
            with hold(slots, stop):
                for value in prepared:
                    stop.require_not_requested()
                    binding_state.put(value)
            return binding_state.evaluate(correlation_id, stop)

        return AsyncOperation(run)

    def evaluate_many(
        self,
        inputs: object,
        /,
        *,
        concurrency: int | None = None,
        batch: int | None = None,
        contract: ImageContract | None = None,
        fast_decode: bool = False,
        progress: Callable[[int, int | None], object] | None = None,
        copy: bool = True,
    ) -> EvaluationStream:
        """Evaluates a stream of inputs on several threads: decoding, tensorizing and running overlap.

        Args:
            inputs: an iterable of items, or one item. An array is neither: pass `[array]`, or its rows:
                `list(array)`, or `list(array[:, None])` if each input has a batch dimension.
                An item is a mapping of names to values as `bind` takes them, a table, or for a model of one input the
                value itself; it may also be the path to a table (.csv). A folder yields its pictures, a pattern
                (`photos/**/*.jpg`) its files, both in natural order: 2 before 10; the path to a video, or a
                `VideoReader`, yields its frames. Items are taken as late as possible.
            concurrency: threads; by default the cores this process may use. It helps most with
                `options.intra_op_num_threads = 1`: then each thread has a separate core.
            batch: how many items to evaluate together, at most; the first dimensions must be free. Items whose
                pictures or tensors have different shapes are evaluated one by one. The items of the session's first
                batch are also evaluated one by one. If floats or pictures differ by more than 2 %, or other results
                at all, the stream ends with an `InvalidArgumentError`, because the model mixes the items of a batch.
                If its results are all equal, or not finite, the next batch is compared, too.
            contract: how pictures become the inputs that it fits, in place of the model's contract, and of the items'.
            fast_decode: as for `ImageFeatureValue.load`; pictures of a batch are decoded whole.
            progress: called with the number of results, and the total or None if it is unknown; in order, by the thread
                that takes the results.
            copy: whether to copy arrays, tensors and pictures before taking the next item, which `inputs` may read into
                the same memory (`camera.read(frame)`, `readinto`). Pass False if each item has separate memory. Paths,
                bytes, a `VideoReader`'s frames, and the items of a list or tuple are never copied; nor is memory that
                outputs are written to. Arrays on a GPU are copied there.

        Returns:
            An iterator of results in the order of the inputs, for `for` and for `async for`; each has its `source` and
            `index`. An item that fails yields a result whose `succeeded` is False and whose `error` says why; the
            others go on. An error that `inputs` raises comes after the results of the items before it. Closing the
            session ends the iteration with `ClosedError`, the loss of its device with `DeviceLostError`.

        Raises:
            ClosedError: the session has been closed.
            InvalidArgumentError: an array instead of a list, a number below 1, a batch although the model takes none, a
                contract that fits no input, or a single folder or pattern without files.
            PictureError: a single video that cannot be opened.

        Example:
            >>> from winml_py import LearningModel, LearningModelSession
            >>> session = LearningModelSession(LearningModel.load("models/digits.onnx"))
            >>> for result in session.evaluate_many(["samples/pictures/seven.png", "missing.png"]):
            ...     print(result.index, result.source, result.succeeded)
            0 samples/pictures/seven.png True
            1 missing.png False
        """
        from .stream import EvaluationStream

        self._private_state.require_open()
        return EvaluationStream(
            self._private_state,
            inputs,
            concurrency=concurrency,
            batch=batch,
            contract=contract,
            fast_decode=fast_decode,
            progress=progress,
            copy=copy,
        )

    def close(self) -> None:
        """Frees the engine, unless another session shares it, when the last run in flight returns.

        Calling it twice is harmless. Model, device and results remain readable. In a forked process, the parent's
        engine is not affected.
        """
        self._private_state.close()

    dispose = close

    def __reduce__(self) -> NoReturn:
        raise IllegalCallError(
            "A session belongs to the process that created it and cannot be pickled.",
            hint="Pickle the model and the options, and create the session in the other process.",
        )

    def __repr__(self) -> str:
        state = " closed" if self._private_state.is_closed else " lost" if self.is_lost else ""
        if self._private_state.is_inherited:
            state = " of another process"
        return f"<LearningModelSession {self._model.name!r} on {self._device.kind.name}{state}>"

    def _name_values(self, features: object) -> Mapping[str, object]:
        values = self._private_state.name_values(features)
        if isinstance(values, (dict, Mapping)):  # `dict` first: that check is faster
            return values
        names = [feature.name for feature in self.model.input_features]
        items = ", ".join(f"{name!r}: value" for name in names[:3]) + ", ..." * (len(names) > 3)
        raise InvalidArgumentError(
            f"Expected a dict of input names and values, got {type_name(features)}.", hint=f"Pass {{{items}}}."
        )

    def _require_own_binding(self, binding: LearningModelBinding) -> BindingState:
        if isinstance(binding, LearningModelBinding) and binding._session is self:
            return binding._private_state
        actual, hint = type_name(binding), "LearningModelBinding(session). For a dict, call evaluate_features(dict)."
        if isinstance(binding, LearningModelBinding):
            actual, hint = ("one of another session", "LearningModelBinding(session), or use its session.")
        raise InvalidArgumentError(
            f"Expected a LearningModelBinding created for this session, got {actual}.", hint=f"Create one: {hint}"
        )

    def _evaluate(
        self, binding_state: BindingState, correlation_id: str, timeout: float | None
    ) -> LearningModelEvaluationResult:
        if timeout is None:
            return binding_state.evaluate(correlation_id)
        stop = Stop(require_positive_seconds(timeout, "The timeout"))
        with stop.apply_time_limit():
            return binding_state.evaluate(correlation_id, stop)


class LearningModelBinding(Object, MapView[Any]):
    """The inputs and outputs of an evaluation: a map from feature names to what was bound.

    Tensors of numbers are bound by reference: writing to one before the next `evaluate` changes the input. (`bind`
    copies arrays that are not C-contiguous, such as transposed ones, and float32 arrays for a float16 feature that
    takes pictures.)
    `bind` turns pictures into numbers, in memory that the binding keeps and reuses, and copies strings.
    One thread at a time evaluates a binding (others wait); use one binding per thread.

    Args:
        session: the session to bind for; the binding keeps it alive.

    Raises:
        ClosedError: the session has been closed.
        InvalidArgumentError: not a LearningModelSession.

    Example:
        >>> import numpy as np
        >>> from winml_py import LearningModel, LearningModelBinding, LearningModelSession, ImageFeatureValue
        >>> session = LearningModelSession(LearningModel.load("models/digits.onnx"))
        >>> binding = LearningModelBinding(session)
        >>> binding.bind("image", ImageFeatureValue.load("samples/pictures/seven.png"))
        >>> int(np.argmax(session.evaluate(binding).outputs["probabilities"]))
        7
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, session: LearningModelSession, /) -> None:
        hint = "Call LearningModelBinding(session), where session = LearningModelSession(model)."
        require_type(session, LearningModelSession, hint)
        session._private_state.require_open()
        self._session = session
        self._private_state = BindingState(session._private_state)

    def bind(self, name: str, value: BindableValue, properties: Mapping[str, object] | None = None, /) -> None:
        """Binds a value to an input or an output, in place of the value bound before.

        Args:
            name: the feature's name; case matters only if the model has names that differ in nothing else.
            value: a tensor; a picture (`ImageFeatureValue`, `VideoFrame`, `SoftwareBitmap`, a Pillow image); a numpy
                array or, in the host's memory, an array of another library with DLPack, such as torch; a table or a
                column of pandas, polars or pyarrow, which is copied; a number, for a feature of one element; a list or
                a dict; or a picture or `.npy` file: its path, its bytes, or an open file. An array must have the
                feature's dtype and shape; an image feature also takes a uint8 array of pixels, whose channel order a
                property states.
            properties: `BitmapBounds` (x, y, width, height: the part of the picture to use),
                `BitmapPixelFormat` (the channel order of the model's tensor; for an array bound as a picture, the
                array's), `PixelRange` (the values that the bytes become), `ImageSize` (height, width),
                `ImageContract` (instead of the model's); for a tensor bound to an output of a GPU session,
                `DisableTensorCpuSync` (True: its numbers stay on the GPU).

        Raises:
            InvalidBindingError: no such feature or property, or a value of the wrong kind or type.
            SizeMismatchError: a value of the wrong shape.
            ClosedError: the session has been closed.
            IllegalCallError: the session was made in another process, from which this one was forked.
        """
        bind_properties = (
            BindProperties.read(properties, self._private_state.session_state.is_silent)
            if properties
            else NO_PROPERTIES
        )
        self._private_state.bind(name, value, bind_properties)

    bind_with_properties = bind  # pywinrt 3's name

    def clear(self) -> None:
        """Unbinds everything, and frees the tensors of pictures."""
        self._private_state.clear()

    @property
    def placements(self) -> dict[str, tuple[PicturePlacement, ...]]:
        """Where each bound picture lies in its input's tensor, by the names of inputs: one placement for each picture
        of a batch. They map points, boxes and masks back to the picture.
        """
        return self._private_state.placements

    def __getitem__(self, name: str) -> Any:
        state = self._private_state
        try:
            return state.values[state.session_state.names[name]]
        except KeyError:
            names = ", ".join(state.values) or "nothing"
            raise NotBoundError(f"Nothing is bound to {name!r}.", hint=f"Bound so far: {names}.") from None

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._private_state.values))

    def __len__(self) -> int:
        return len(self._private_state.values)

    def __repr__(self) -> str:
        return f"<LearningModelBinding {self._private_state.values!r}>"


def _make_device_hint(device: object) -> str:
    match device:
        case LearningModelSessionOptions():
            return "Call LearningModelSession(model, options=options)."
        case LearningModelDeviceKind():
            name = device.name.replace("DIRECTX", "GPU")
            return f"Pass LearningModelDevice(LearningModelDeviceKind.{name})."
    return f'Pass LearningModelDevice.find("{device if isinstance(device, str) else "gpu"}").'


def _require_correlation_id(correlation_id: object) -> None:
    """Refuses a correlation id that is not a str: it may be meant as a time limit, which would be ignored."""
    if not isinstance(correlation_id, str):
        raise InvalidArgumentError(
            f"Expected a str as correlation id, got {correlation_id!r}.", hint="Pass a time limit by name: timeout=0.5."
        )


_core_slots: dict[int, threading.Semaphore] = {}  # by process: in a forked one, the parent's might never be released
