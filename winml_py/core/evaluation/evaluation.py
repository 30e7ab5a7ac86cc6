"""LearningModelBinding and its state: the values bound to inputs and outputs, and the run on them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from ...enums import Precision
from ...errors import (
    ClosedError,
    DeviceLostError,
    EvaluationError,
    InvalidArgumentError,
    InvalidBindingError,
    MissingInputError,
    NotBoundError,
    NotSupportedError,
)
from ..base.arrays import Array, DeviceArray, MemoryLocation
from ..base.cancellation import Stop, held
from ..base.collections import MapView
from ..base.messages import logger, type_name
from ..base.winrt_object import HasPrivateState, Object, private_state
from ..features.descriptors import FeatureDescriptor, ImageFeatureDescriptor
from ..features.pictures import NO_PROPERTIES, BindProperties, ImageFeatureValue, PreprocessPlan
from ..features.resolve import (
    Bindable,
    Container,
    DevicePixels,
    DeviceTensor,
    HostTensor,
    Pictures,
    check_tensor,
    is_pil_image,
    resolve,
)
from ..features.tensor import Tensor
from ..features.tensor_classes import TensorString, as_half
from ..imaging.formats import BufferCache
from ..imaging.picture_placement import PicturePlacement
from ..imaging.tensorize import tensorize_batch
from ..runtime.runs import Bound, StaysOnDevice
from .outputs import (
    ImageOutput,
    OutputSlot,
    TensorOutput,
    require_no_overlap,
    slot_for_container,
    writable_array,
)
from .session_state import SessionState

if TYPE_CHECKING:
    from ..features.resolve import BoundValue


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

    def bind(self, name: str, value: BoundValue, properties: Mapping[str, object] | None = None, /) -> None:
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
        self._private_state.bind(name, value, BindProperties.read(properties, self._is_silent))

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
        try:
            return self._private_state.bound[name]
        except KeyError:
            bound = ", ".join(self._private_state.bound) or "nothing"
            raise NotBoundError(f"Nothing is bound to {name!r}.", hint=f"Bound so far: {bound}.") from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._private_state.bound

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._private_state.bound))

    def __len__(self) -> int:
        return len(self._private_state.bound)

    def __repr__(self) -> str:
        return f"<LearningModelBinding {self._private_state.bound!r}>"


Checks = tuple[Callable[[], object], ...]  # what is called before a run that reads or writes something


class WrittenPictures(NamedTuple):
    """Pictures in the tensor of their input."""

    plan: PreprocessPlan
    tensor: Array | DeviceArray


class BindingState:
    """The private state of a binding. Its lock makes threads that use one binding take turns.

    Attributes:
        session_state: what it runs on.
        bound: the caller's objects, by the names of features.
        pictures: by the names of inputs. A picture of the same size overwrites the previous one.
    """

    def __init__(self, session_state: SessionState) -> None:
        self.session_state = session_state
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._values = Bound(lock=self.session_state.lock)
        self.pictures: dict[str, WrittenPictures] = {}
        self._buffer_caches: list[BufferCache] = []
        device_pictures = self.session_state.pictures
        self._device_tensorizer = device_pictures.tensorizer() if device_pictures is not None else None
        self.bound: dict[str, Any] = {}
        self._checks: dict[str, Checks] = {}
        self._is_checked = True
        self._slots: dict[str, OutputSlot] = {**self.session_state.unbound_outputs}

    def clear(self) -> None:
        """Unbinds everything, and frees the tensors of pictures."""
        self.session_state.require_open()  # before the lock, which might never be released in a forked process
        with self._lock:
            self._reset()

    def forget(self) -> None:
        """Unbinds everything before other values are bound: inputs become missing, and outputs new objects.

        The engine's bindings and the tensors of pictures stay, because making them again costs more than most runs.
        """
        with self._lock:
            for name in list(self._values.outputs):
                self._values.set_output(name, None)
            for name in self.bound.keys() & self._slots.keys():
                self._slots[name] = self.session_state.unbound_outputs[name]
            self.bound, self._checks = {}, {}

    def bind(self, name: str, value: object, properties: BindProperties = NO_PROPERTIES) -> None:
        """Binds a value to a feature; raises as `SessionState.find`, `bind_input` and `bind_output` do."""
        plain = (
            self.session_state.plain.get(name) if type(value) is np.ndarray and properties is NO_PROPERTIES else None
        )
        if plain is not None and plain.takes(value):  # type: ignore[arg-type]  # as nearly always
            self.session_state.require_open()
            with self._lock:
                self._set_array(name, value, value)
            return
        descriptor, is_input = self.session_state.find(name)
        bind = self.bind_input if is_input else self.bind_output
        bind(descriptor, value, properties)

    def bind_input(self, descriptor: FeatureDescriptor, value: object, properties: BindProperties) -> None:
        """Binds a value to an input; raises as `check_input` does, and if the session is closed."""
        self.session_state.require_open()  # before a picture is decoded, and before the lock, as in `clear`
        before = self.pictures.get(descriptor.name)
        bindable = check_input(value, descriptor, properties, self.session_state, before.plan if before else None)
        self.set_input(descriptor, value, bindable)

    def set_input(self, descriptor: FeatureDescriptor, value: object, bindable: Bindable) -> None:
        """Binds a value with the result of its `check_input`."""
        name = descriptor.name
        with self._lock:
            if isinstance(bindable, (Pictures, DevicePixels)):
                self._write_pictures(bindable)
                self._note(name, value)
                return
            if isinstance(bindable, Container):
                read: Any = bindable.converted
            elif isinstance(bindable, DeviceTensor):
                read = bindable.array
            else:
                tensor = bindable.tensor
                read = (as_half(tensor, descriptor) if bindable.is_cast else tensor).to_numpy()
                if isinstance(tensor, TensorString):  # strings share no memory that a later write could reach
                    read = read.copy()
            checks = _waits_for(read)
            if isinstance(value, Tensor):  # which another evaluation may write
                checks = (private_state(value).require_valid, *checks)
            self._set_array(name, value, read, checks)

    def _set_array(self, name: str, value: object, read: Any, checks: Checks = ()) -> None:
        self._values.set_input(name, read)
        self._note(name, value, checks)
        # The engine no longer reads the previous picture's tensor. If it were kept, the next picture would be written
        # there, and not bound.
        self.pictures.pop(name, None)

    def _note(self, name: str, value: object, checks: Checks = ()) -> None:
        self.bound[name] = value
        self._checks.pop(name, None)
        if checks:
            self._checks[name] = checks

    def _write_pictures(self, pictures: Pictures | DevicePixels) -> None:
        """Writes pictures into their tensor: on the device if it can, else on the CPU."""
        plan = pictures.plan
        name = plan.descriptor.name
        written, device = self.pictures.get(name), self._device_tensorizer
        before = written.tensor if written else None
        tensor: Array | DeviceArray | None = None
        try:
            if isinstance(pictures, DevicePixels):
                assert device is not None  # without it, `check_input` refuses pixels on a device
                tensor = device.write_pixels(pictures, before)
            else:
                bitmaps, placements = pictures.decode()
                if device is not None:
                    tensor = device.write(plan, bitmaps, placements, before)
                if tensor is None:
                    tensor = memory = plan.memory(before)
                    tensorize_batch(bitmaps, plan.contract, placements, memory, self._buffer_caches)
        except DeviceLostError as error:  # raised by tensorizing on the device
            self.session_state.lose(error)
            raise
        self.pictures[name] = WrittenPictures(plan, tensor)
        # A picture of the same size overwrites the previous one, in memory that the engine already reads.
        if tensor is not before:
            self._values.set_input(name, tensor)

    def bind_output(self, descriptor: FeatureDescriptor, bound: object, properties: BindProperties) -> None:
        """Binds an object to an output; raises as `check_output` does, and if the session is closed."""
        self.session_state.require_open()
        self.set_output(descriptor, bound, check_output(bound, descriptor, properties, self.session_state))

    def set_output(self, descriptor: FeatureDescriptor, bound: object, checked: CheckedOutput) -> None:
        """Binds an object with the result of its `check_output`."""
        name = descriptor.name
        with self._lock:
            self._values.set_output(name, checked.memory)
            self._slots[name] = checked.slot
            self._note(name, bound, _waits_for(checked.memory))
            self._is_checked = False

    def run(self, stop: Stop | None = None) -> dict[str, Any]:
        """Runs the model; returns the caller's object for each output, by name.

        Raises:
            MissingInputError: an input has not been bound.
            IllegalCallError: an input is a tensor that a failed evaluation was to write.
            WinMLError: the engine's error.
        """
        engine = self.session_state.require_open()  # before the lock, as in `clear`
        with self._lock if stop is None else held(self._lock, stop):
            if not self.session_state.input_names <= self.bound.keys():
                missing = [feature for name, feature in self.session_state.inputs.items() if name not in self.bound]
                expected = ", ".join(f"{feature.name} ({feature.expects()})" for feature in missing)
                raise MissingInputError(f"Missing Input: {expected}.", hint="Bind every input before evaluate().")
            for checks in self._checks.values():
                for check in checks:
                    check()
            if not self._is_checked:  # not at bind, where two outputs may just be swapping their arrays
                require_no_overlap(self._slots)
                self._is_checked = True
            has_begun = True
            try:
                try:
                    fresh = engine.run(self._values, stop)
                except (ClosedError, InvalidBindingError):  # the engine raises these before it writes anything
                    has_begun = False
                    raise
                return {name: slot.receive(fresh.get(name)) for name, slot in self._slots.items()}
            except BaseException as error:
                if isinstance(error, DeviceLostError):
                    self.session_state.lose(error)
                if has_begun:
                    self._invalidate_outputs()
                if type(error) is EvaluationError:
                    self._explain(error)
                raise

    def _invalidate_outputs(self) -> None:
        """Invalidates bound outputs, which may be half written, or hold the numbers of an earlier run."""
        for name, slot in self._slots.items():
            try:
                slot.invalidate()
            except Exception as error:  # memory that can no longer be written must not hide why the run ended
                logger.warning("The output %s keeps its contents from before the failed run: %s", name, error)

    def _explain(self, error: EvaluationError) -> None:
        """If a picture kept its own size, which is often the cause, raises the error with a hint to state a size."""
        kept_sizes = ", ".join(
            f"the picture for {name} kept its own size, {plan.sizes[0][0]}x{plan.sizes[0][1]}"
            for name, plan in self._plans().items()
            if plan.keeps_own_size
        )
        if not kept_sizes or error.__cause__ is not None:  # a custom operator raised it
            return
        raise EvaluationError(
            f"{error.message} The model takes any size, and {kept_sizes}.",
            hint="If the model was made for one, state it: ImageContract(size=(height, width)), or a scaling with "
            "pad_multiple for sides that must be multiples of a stride.",
        ) from error

    @property
    def placements(self) -> dict[str, tuple[PicturePlacement, ...]]:
        """Where the bound pictures lie in their tensors, by the names of inputs."""
        return {name: tuple(map(PicturePlacement, plan.placements)) for name, plan in self._plans().items()}

    def _plans(self) -> dict[str, PreprocessPlan]:
        return {name: written.plan for name, written in self.pictures.items() if name in self.bound}


def _waits_for(memory: object) -> Checks:
    # Another library may still be working on its arrays on the device.
    return (memory.wait,) if isinstance(memory, DeviceArray) and memory.handle is None else ()


def bind_features(session_state: SessionState, features: Mapping[str, object]) -> BindingState:
    """Binds values by the names of inputs and outputs.

    Raises:
        WinMLError: as `BindingState.bind` does.
    """
    binding_state = BindingState(session_state)
    for name, value in features.items():
        if type(value) is not np.ndarray and isinstance(value, (str, bytes, os.PathLike)):
            descriptor, is_input = session_state.find(name)
            if is_input and is_picture_file(value, descriptor):
                value = ImageFeatureValue.load(value)
        binding_state.bind(name, value)
    if len(binding_state.bound) < len(features):
        require_distinct(features, session_state)
    return binding_state


def require_distinct(names: Iterable[str], session_state: SessionState) -> None:
    """Refuses two names of one feature: one of their values would be dropped in silence."""
    spellings: dict[str, str] = {}
    for name in names:
        descriptor, is_input = session_state.find(name)
        before = spellings.setdefault(descriptor.name, name)
        if before != name:
            what = "input" if is_input else "output"
            raise InvalidArgumentError(f"{before!r} and {name!r} name the same {what}.", hint="Leave one of them out.")


def is_picture_file(value: object, descriptor: FeatureDescriptor) -> TypeGuard[str | os.PathLike[str] | bytes]:
    """Whether the feature is an image, and the value the path or the bytes of a picture file."""
    return isinstance(value, (str, os.PathLike, bytes)) and isinstance(descriptor, ImageFeatureDescriptor)


# Checks of bound values. They use no engine and decode no picture, so they are quick and never wait.


def check_input(
    value: object,
    descriptor: FeatureDescriptor,
    properties: BindProperties,
    session_state: SessionState,
    before: PreprocessPlan | None = None,
) -> Bindable:
    """Checks a value for an input, and returns what to bind.

    Raises:
        InvalidBindingError: a tensor without data, or in the memory of another device.
        WinMLError: as `resolve` does, and if a picture does not fit into the tensor.
    """
    bindable = resolve(value, descriptor, properties, before)
    if isinstance(bindable, HostTensor) and bindable.tensor.is_placeholder:
        write = ", or write to its to_numpy()." if bindable.tensor.shape else "."
        raise InvalidBindingError(
            f"The model variable {descriptor.name} is an input, but has no associated resources to bind.",
            hint=f"Give the tensor data: create_from_array, from_numpy{write}",
        )
    if isinstance(bindable, (DeviceTensor, DevicePixels)):
        if isinstance(value, Tensor):
            private_state(value).require_valid()
        _require_here(bindable.array, descriptor.name, session_state.location)
    if (
        isinstance(bindable, (Pictures, DevicePixels)) and bindable.plan.placements
    ):  # here, so that bind raises the errors
        contracts = session_state.missing_contracts
        if not bindable.plan.is_stated or contracts.proven is not None:
            contracts.warn(bindable.plan, properties)
    return bindable


def _require_here(array: DeviceArray, name: str, location: MemoryLocation | None) -> None:
    if array.location != location:
        here = f"on {location}" if location else "on the CPU"
        raise InvalidBindingError(
            f"The model variable {name} cannot be bound to a tensor in the memory of {array.location}: the session "
            f"runs {here}.",
            hint=f"Bind {array.host_copy}, a copy in the host's memory.",
        )


class CheckedOutput(NamedTuple):
    """How an output is received, and where the engine writes it.

    Attributes:
        slot: receives the output.
        memory: the host's or the device's, or `StaysOnDevice`; None if the engine allocates it.
    """

    slot: OutputSlot
    memory: Array | DeviceArray | StaysOnDevice | None = None


def check_output(
    bound: object, descriptor: FeatureDescriptor, properties: BindProperties, session_state: SessionState
) -> CheckedOutput:
    """Checks an object for an output, and returns what to bind.

    Raises:
        NotSupportedError: memory on the device for float16 numbers that are computed in float32.
        WinMLError: as `resolve` does, and if the object cannot be written in place.
    """
    slot = slot_for_container(bound, descriptor)
    if slot is not None:
        return CheckedOutput(slot)
    value = resolve(bound, descriptor, properties)
    if isinstance(value, DeviceTensor):
        _require_here(value.array, descriptor.name, session_state.location)
        if value.array.dtype == np.float16 and session_state.engine.explanation.precision is Precision.FLOAT32:
            raise NotSupportedError(
                f"The output {descriptor.name} is computed in float32 and cannot be written to float16 memory on the "
                "device.",
                hint="Bind a tensor without memory, or make the session with another precision.",
            )
        return CheckedOutput(TensorOutput(bound, value.tensor, value.array), value.array)
    if isinstance(value, HostTensor):
        if properties.stays_on_device and isinstance(bound, Tensor) and session_state.location is not None:
            check_tensor(value.tensor, descriptor)  # the device casts nothing
            return CheckedOutput(TensorOutput(bound, value.tensor), StaysOnDevice())
        array = writable_array(bound, value.tensor)
        slot = TensorOutput(bound, value.tensor, array, value.is_cast)
        return CheckedOutput(slot, None if value.is_cast else array)
    if isinstance(value, Pictures) and not is_pil_image(bound):
        return CheckedOutput(ImageOutput(bound, value.value, value.plan.contract, descriptor))
    what = "a Pillow image" if is_pil_image(bound) else type_name(bound)
    raise InvalidBindingError(
        f"The model variable {descriptor.name} is an output, but {what} cannot be written in place.",
        hint="Bind a tensor, an array, a VideoFrame, a dict or a list; or leave it unbound: results have to_pil().",
    )
