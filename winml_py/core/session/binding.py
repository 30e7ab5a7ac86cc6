"""LearningModelBinding, and BindingState, which binds values to a model's inputs and outputs and runs it on them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import (
    ClosedError,
    DeviceLostError,
    EvaluationError,
    InvalidArgumentError,
    InvalidBindingError,
    MissingInputError,
    NotBoundError,
    WinMLError,
)
from ..base.arrays import Array, DeviceArray
from ..base.cancellation import Stop, hold
from ..base.collections import MapView
from ..base.machine import count_usable_cores
from ..base.messages import logger, type_name
from ..base.winrt_object import HasPrivateState, Object, private_state
from ..features.bind_properties import NO_PROPERTIES, BindProperties
from ..features.pictures import ImageFeatureValue, PreprocessPlan, is_picture_file
from ..features.resolve import (
    Container,
    DevicePixels,
    DeviceTensor,
    HostTensor,
    PlannedPictures,
    as_picture,
    is_pil_image,
)
from ..features.tensor import Tensor
from ..features.tensor_classes import TensorString, cast_to_half
from ..imaging.formats import BufferCache
from ..imaging.picture_placement import PicturePlacement
from ..imaging.tensorize import tensorize_batch
from ..runtime.runs import Bound
from .outputs import OutputSlot, ResolvedOutput, TensorOutput, require_no_overlap
from .session_state import CheckedValue, SessionState

if TYPE_CHECKING:
    from ..features.resolve import BindableValue


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

    def __init__(self, session: HasPrivateState[SessionState], /) -> None:
        session_state = private_state(session) if hasattr(session, "_private_state") else None
        if not isinstance(session_state, SessionState):
            raise InvalidArgumentError(
                f"Expected a LearningModelSession, got {type_name(session)}.",
                hint="Write LearningModelBinding(session), where session = LearningModelSession(model).",
            )
        session_state.require_open()
        self._session = session  # a session that nobody else holds would close its engine
        self._is_silent = session_state.is_silent
        self._private_state = BindingState(session_state)

    def bind(self, name: str, value: BindableValue, properties: Mapping[str, object] | None = None, /) -> None:
        """Binds a value to an input or an output, in place of the value bound before.

        Args:
            name: the feature's name; case matters only if the model has names that differ in nothing else.
            value: a tensor; a picture (`ImageFeatureValue`, `VideoFrame`, `SoftwareBitmap`, a Pillow image);
                a numpy array or, in the host's memory, an array of another library with DLPack, such as torch; or a
                number, for a feature of one element. An array must have the feature's dtype and shape; an image
                feature also takes a uint8 array of pixels, whose channel order a property states.
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
        bind_properties = BindProperties.read(properties, self._is_silent) if properties else NO_PROPERTIES
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


class BindingState:
    """The private state of a binding. Its lock makes threads that use one binding take turns.

    Attributes:
        session_state: the compiled model.
        values: the caller's values, by the names of features.
        bound: what the engine reads and writes for them.
        plans: how pictures became the tensors of their inputs, by the names of inputs. A picture of the same size is
            written into the same tensor.
    """

    def __init__(self, session_state: SessionState) -> None:
        self.session_state = session_state
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self.values: dict[str, Any] = {}
        self.bound = Bound(lock=self.session_state.lock)
        self.plans: dict[str, PreprocessPlan] = {}
        self._buffer_caches: list[BufferCache] = []
        models = self.session_state.picture_models
        self._device_tensorizer = models.make_tensorizer() if models is not None else None
        self._before_run: dict[str, list[Callable[[], object]]] = {}
        self._is_ready = False  # whether `_require_ready` has passed since the last bind
        self._slots: dict[str, OutputSlot] = {**self.session_state.unbound_outputs}

    def clear(self) -> None:
        """Unbinds everything, and frees the tensors of pictures."""
        self.session_state.require_open()  # before the lock, which might never be released in a forked process
        with self._lock:
            self._reset()

    def forget(self) -> None:
        """Unbinds all values, so that others can be bound: inputs are missing then, and outputs become new objects.

        The engine's bindings and the tensors of pictures stay, because making them again costs more than most runs.
        """
        with self._lock:
            for name in list(self.bound.outputs):
                self.bound.set_output(name, None)
            for name in self.values.keys() & self._slots.keys():
                self._slots[name] = self.session_state.unbound_outputs[name]
            self.values = {}
            self._before_run = {}
            self._is_ready = False

    def bind(self, name: str, value: object, properties: BindProperties = NO_PROPERTIES) -> None:
        """Binds a value to a feature; raises as `SessionState.check` does."""
        if type(value) is np.ndarray and properties is NO_PROPERTIES and self.session_state.is_plain(name, value):
            self.session_state.require_open()
            self.set(name, value, value)  # as nearly always
        else:
            name, checked = self.session_state.check(name, value, properties, self.plans)
            self.set(name, value, checked)

    def set(self, name: str, value: object, checked: CheckedValue) -> None:
        """Binds a value that `SessionState.check` has checked."""
        with self._lock:
            before_run: list[Callable[[], object]] = []
            match checked:
                case np.ndarray():
                    self._set_input(name, checked)
                case HostTensor(tensor, is_cast):
                    array = (cast_to_half(tensor, self.session_state.inputs[name]) if is_cast else tensor).to_numpy()
                    # strings share no memory that a later write could reach
                    self._set_input(name, array.copy() if isinstance(tensor, TensorString) else array)
                case PlannedPictures() | DevicePixels():
                    self._write_pictures(checked)
                case ResolvedOutput(slot, memory):
                    self.bound.set_output(name, memory)
                    self._slots[name] = slot
                    before_run += _collect_waits(memory)
                case DeviceTensor(array=device_array):
                    self._set_input(name, device_array)
                    before_run += _collect_waits(device_array)
                case Container(converted):
                    self._set_input(name, converted)
            if isinstance(value, Tensor) and not isinstance(checked, ResolvedOutput):  # another evaluation may write it
                before_run.append(private_state(value).require_valid)
            self.values[name] = value
            self._before_run.pop(name, None)
            if before_run:
                self._before_run[name] = before_run
            self._is_ready = False

    def _set_input(self, name: str, value: Any) -> None:
        self.bound.set_input(name, value)
        # The engine no longer reads the tensor of the previous picture: the next one must not be written there.
        self.plans.pop(name, None)

    def _write_pictures(self, pictures: PlannedPictures | DevicePixels) -> None:
        """Writes pictures into their tensor: on the device if it can, else on the CPU."""
        plan = pictures.plan
        name = plan.descriptor.name
        tensorizer = self._device_tensorizer
        previous: Any = self.bound.inputs[name] if name in self.plans else None
        tensor: Array | DeviceArray | None = None
        try:
            if isinstance(pictures, DevicePixels):
                assert tensorizer is not None  # without it, the check refuses pixels on a device
                tensor = tensorizer.write_pixels(pictures, previous)
            else:
                bitmaps, placements = plan.decode(pictures.value)
                if tensorizer is not None:
                    tensor = tensorizer.write(plan, bitmaps, placements, previous)
                if tensor is None:
                    tensor = memory = plan.reuse_or_allocate(previous)
                    tensorize_batch(bitmaps, plan.contract, placements, memory, self._buffer_caches)
        except DeviceLostError as error:  # raised by tensorizing on the device
            self.session_state.lose(error)
            raise
        self.plans[name] = plan
        # A picture of the same size overwrites the previous one, in memory that the engine already reads.
        if tensor is not previous:
            self.bound.set_input(name, tensor)

    def run(self, stop: Stop | None = None) -> tuple[dict[str, Any], dict[str, tuple[PicturePlacement, ...]]]:
        """Runs the model; returns the caller's object for each output, by name, and the evaluated `placements`.

        Raises:
            MissingInputError: an input has not been bound.
            InvalidBindingError: two outputs are bound to the same memory.
            IllegalCallError: an input is a tensor that a failed evaluation was to write.
            WinMLError: the engine's error.
        """
        engine = self.session_state.require_open()  # before the lock, as in `clear`
        with self._lock if stop is None else hold(self._lock, stop):
            if not self._is_ready:
                self._require_ready()
            for calls in self._before_run.values():
                for call in calls:
                    call()
            may_have_written = True
            try:
                try:
                    fresh = engine.run(self.bound, stop)
                except (ClosedError, InvalidBindingError):  # the engine raises these before it writes anything
                    may_have_written = False
                    raise
                except EvaluationError as error:
                    self._explain(error)
                    raise
                outputs = {name: slot.receive(fresh.get(name)) for name, slot in self._slots.items()}
                return outputs, self.placements  # before the lock is released, and another thread binds a picture
            except BaseException as error:
                if isinstance(error, DeviceLostError):
                    self.session_state.lose(error)
                if may_have_written:
                    self._invalidate_outputs(error)
                raise

    def _require_ready(self) -> None:
        """Refuses missing inputs and overlapping outputs: not at bind, where two outputs may be swapping arrays."""
        if not self.values.keys() >= self.session_state.input_names:
            missing = [feature for name, feature in self.session_state.inputs.items() if name not in self.values]
            expected = ", ".join(f"{feature.name} ({feature.expects()})" for feature in missing)
            raise MissingInputError(f"Missing Input: {expected}.", hint="Bind every input before evaluate().")
        if len(self.values) > len(self.session_state.input_names) + 1:
            require_no_overlap(self._slots)
        self._is_ready = True

    def _invalidate_outputs(self, reason: BaseException) -> None:
        """Invalidates bound outputs, which may be half written, or hold the numbers of an earlier run.

        Args:
            reason: why the run ended; it then says which outputs cannot show that they are invalid.
        """
        kept = []
        for name, slot in self._slots.items():
            try:
                slot.invalidate()
            except Exception as error:  # memory that can no longer be written must not hide why the run ended
                logger.warning("The output %s keeps its contents from before the failed run: %s", name, error)
            if isinstance(slot, TensorOutput) and slot.keeps_values:
                kept.append(name)
        if kept:
            text = f"Arrays of booleans cannot show that they are invalid: do not read {', '.join(kept)}."
            if isinstance(reason, WinMLError):
                reason.hint = f"{reason.hint} {text}".lstrip()
                reason.args = (f"{reason.message} {reason.hint}",)
            else:
                reason.add_note(text)

    def _explain(self, error: EvaluationError) -> None:
        """Adds a hint to the engine's error, and raises it, if a picture kept its own size: that is often the cause."""
        if type(error) is not EvaluationError or error.__cause__ is not None:  # a custom operator raised the cause
            return
        free_sizes = [
            f"the picture for {name} kept its own size, {plan.sizes[0][0]}x{plan.sizes[0][1]}"
            for name, plan in self._plans_in_use().items()
            if plan.keeps_own_size
        ]
        if not free_sizes:
            return
        raise EvaluationError(
            f"{error.message} The model takes any size, and {', '.join(free_sizes)}.",
            hint=f"{error.hint} If the model was made for one, state it: ImageContract(size=(height, width)), or a "
            "scaling with pad_multiple for sides that must be multiples of a stride.".lstrip(),
            hresult=error.hresult,
        ) from error

    @property
    def placements(self) -> dict[str, tuple[PicturePlacement, ...]]:
        """Where the bound pictures lie in their tensors, by the names of inputs."""
        if not self.plans:  # as in most evaluations of arrays
            return {}
        return {name: tuple(map(PicturePlacement, plan.placements)) for name, plan in self._plans_in_use().items()}

    def _plans_in_use(self) -> dict[str, PreprocessPlan]:
        return {name: plan for name, plan in self.plans.items() if name in self.values}


def _collect_waits(memory: object) -> list[Callable[[], object]]:
    # Another library may still be working on its arrays on the device.
    return [memory.wait] if isinstance(memory, DeviceArray) and memory.handle is None else []


# The values of one call: `bind_features` binds them at once. An asynchronous call checks them in the caller's thread
# with `check_features`, and its own thread binds them with `bind_checked`.


def bind_features(session_state: SessionState, features: Mapping[str, object]) -> BindingState:
    """Binds values by the names of inputs and outputs.

    Raises:
        WinMLError: as `BindingState.bind` does.
    """
    binding_state = BindingState(session_state)
    for name, value in features.items():
        if type(value) is not np.ndarray:
            descriptor, is_input = session_state.find(name)
            if is_input and is_picture_file(value, descriptor):
                value = ImageFeatureValue.load(value)
        binding_state.bind(name, value)
    if len(binding_state.values) < len(features):
        session_state.require_distinct(features)
    return binding_state


class CheckedFeature(NamedTuple):
    """A value that another thread will bind.

    Attributes:
        name: the feature's.
        value: the caller's.
        checked: the result of the check; None for a picture, which must be decoded before it can be checked.
    """

    name: str
    value: object
    checked: CheckedValue | None


def check_features(session_state: SessionState, features: Mapping[str, object]) -> list[CheckedFeature]:
    """Checks values for `bind_checked`.

    Raises:
        WinMLError: as a bind does, except for pictures that must be decoded first.
    """
    session_state.require_open()
    session_state.require_distinct(features)
    checked_features = []
    for name, value in features.items():
        descriptor, is_input = session_state.find(name)
        elements = value if isinstance(value, (list, tuple)) else [value]
        needs_decoding = is_picture_file(value, descriptor) or any(map(is_pil_image, elements))
        checked = None
        if not is_input or not needs_decoding:
            name, checked = session_state.check(name, value)
        checked_features.append(CheckedFeature(name, value, checked))
    return checked_features


def bind_checked(session_state: SessionState, features: Iterable[CheckedFeature], stop: Stop) -> BindingState:
    """Binds values that `check_features` has checked; loads and decodes the pictures among them.

    At most as many threads do this at once as there are cores: more would decode no faster, hold a picture each, and
    delay an event loop.

    Raises:
        CanceledError: the stop was requested.
        WinMLError: as a bind does.
    """
    binding_state = BindingState(session_state)
    with hold(_get_core_slots(os.getpid()), stop):
        for name, value, checked in features:
            stop.require_not_requested()
            if checked is not None:
                binding_state.set(name, value, checked)
            elif is_picture_file(value, session_state.find(name)[0]):
                binding_state.bind(name, ImageFeatureValue.load(value))
            else:
                binding_state.bind(name, _convert_picture(value))
    return binding_state


def _convert_picture(value: object) -> Any:
    """Converts Pillow images, in one thread at a time because threads may share an image; returns others as they are.

    Pillow decodes an image on first access, and cannot do so in two threads at once.
    """
    with _get_pillow_lock(os.getpid()):
        return as_picture(value) or value


# One for each process: in a forked one, the parent's would never be released.
@cache
def _get_pillow_lock(process: int) -> threading.Lock:
    return threading.Lock()


@cache
def _get_core_slots(process: int) -> threading.Semaphore:
    return threading.Semaphore(count_usable_cores())
