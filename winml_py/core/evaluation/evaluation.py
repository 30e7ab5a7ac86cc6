"""LearningModelBinding, and the evaluation behind it: what is bound to each input and output, and the run on it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
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
from ..features.tensor import Tensor, TensorStorage
from ..features.tensor_classes import TensorString, as_half
from ..imaging.formats import BufferCache
from ..imaging.geometry import Placement
from ..imaging.picture_placement import PicturePlacement
from ..imaging.tensorize import tensorize_batch
from ..runtime.runs import Bound, Kept
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

    Tensors of numbers are bound by reference: writing to one before the next `evaluate` changes the input. (An array
    that is not C-contiguous, such as a transposed one, has no such memory: it is copied at `bind`; so is float32 where
    a float16 feature takes pictures.)
    Pictures are turned into numbers at `bind`, into memory that the binding keeps and reuses; strings are copied.
    A binding is evaluated by one thread at a time (others wait); use one binding a thread.

    Args:
        session: the session to bind for; the binding keeps it alive.

    Raises:
        ClosedError: the session has been closed.
        InvalidArgumentError: it is no session.

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
        """Binds a value to an input or an output; a name bound before gets the new value.

        Args:
            name: the feature's name; case does not matter unless the model has names that differ in nothing else.
            value: a tensor; a picture (`ImageFeatureValue`, `VideoFrame`, `SoftwareBitmap`, a Pillow image);
                an array of numpy or, in the host's memory, of another library that has DLPack, such as torch; or a
                number, for a feature of one element. An array must have the feature's dtype and shape; for an image
                feature, a uint8 array of pixels will do, whose channel order is said by a property.
            properties: `BitmapBounds` (x, y, width, height: the part of the picture to use),
                `BitmapPixelFormat` (the channel order of the model's tensor; of an array bound as a picture,
                its own), `PixelRange` (what the bytes become), `ImageContract` (all of it, in place of what the
                model says); for a tensor bound to an output of a GPU session, `DisableTensorCpuSync` (True: the
                numbers stay in the GPU's memory).

        Raises:
            InvalidBindingError: no such feature or property, or a value of the wrong kind or type.
            SizeMismatchError: a value of the wrong shape.
            ClosedError: the session has been closed.
            IllegalCallError: another process made the session, and this one was forked from it.
        """
        self._private_state.bind(name, value, BindProperties.read(properties, self._is_silent))

    bind_with_properties = bind  # pywinrt 3's name

    def clear(self) -> None:
        """Unbinds everything, and lets go of the memory that pictures were turned into."""
        self._private_state.clear()

    @property
    def placements(self) -> dict[str, tuple[PicturePlacement, ...]]:
        """Where each picture that is bound lies in its input's tensor, by the names of inputs: one for each picture
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


class BindingState:
    """The inside of a binding. Its lock makes threads that use one binding take turns.

    Attributes:
        compiled: what it runs on.
        bound: the caller's own objects, by the names of features.
        picture_tensors: the tensors of pictures, by the names of inputs. A picture of the same size is written over the
            one before it.
    """

    def __init__(self, session_state: SessionState) -> None:
        self.session_state = session_state
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._values = Bound(lock=self.session_state.lock)
        self.picture_tensors: dict[str, Array | DeviceArray] = {}
        self._placements: dict[str, list[Placement]] = {}
        self._fits: dict[str, PreprocessPlan] = {}
        self._buffer_caches: list[BufferCache] = []
        device_pictures = self.session_state.pictures
        self._device_tensorizer = device_pictures.tensorizer() if device_pictures is not None else None
        # The tensors among the inputs, which another evaluation may write.
        self._bound_tensors: dict[str, TensorStorage] = {}
        # Arrays of other libraries on the device, which these may still be working on.
        self._shared_arrays: dict[str, DeviceArray] = {}
        self.bound: dict[str, Any] = {}
        self._is_checked = True
        self._slots: dict[str, OutputSlot] = {**self.session_state.unbound_outputs}

    def clear(self) -> None:
        """Unbinds everything, and lets go of the memory that pictures were turned into."""
        self.session_state.require_open()  # before the lock, which in a forked process nobody might release
        with self._lock:
            self._reset()

    def forget(self) -> None:
        """Unbinds everything, for other values to come: what is not bound again is missing, or a new object.

        What the engine keeps and the memory of pictures stay, because making them again costs more than most runs.
        """
        with self._lock:
            for name in list(self._values.outputs):
                self._values.set_output(name, None)
            for name in self.bound.keys() & self._slots.keys():
                self._slots[name] = self.session_state.unbound_outputs[name]
            self._bound_tensors, self.bound, self._shared_arrays = {}, {}, {}

    def bind(self, name: str, value: object, properties: BindProperties = NO_PROPERTIES) -> None:
        """Binds a value to the input or output of a name; raises as `Compiled.find`, `bind_input` and `bind_output`."""
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
        """Binds a value to an input; raises as `check_input` does, and where the session is closed."""
        self.session_state.require_open()  # before a picture is decoded, and before the lock, as in `clear`
        bindable = check_input(value, descriptor, properties, self.session_state, self._fits.get(descriptor.name))
        self.set_input(descriptor, value, bindable)

    def set_input(self, descriptor: FeatureDescriptor, value: object, bindable: Bindable) -> None:
        """Binds what `check_input` found in a value."""
        name = descriptor.name
        with self._lock:
            if isinstance(bindable, (Pictures, DevicePixels)):
                self._write_pictures(bindable)
                self._bound_tensors.pop(name, None)
                self._shared_arrays.pop(name, None)
                self.bound[name] = value
                return
            if isinstance(bindable, Container):
                read: Any = bindable.converted
            elif isinstance(bindable, DeviceTensor):
                read = bindable.array
            else:
                tensor = bindable.tensor
                read = (as_half(tensor, descriptor) if bindable.is_cast else tensor).to_numpy()
                if isinstance(tensor, TensorString):  # strings have no common memory that a later write could reach
                    read = read.copy()
            self._set_array(name, value, read)
            if isinstance(value, Tensor):
                self._bound_tensors[name] = private_state(value)

    def _set_array(self, name: str, value: object, read: Any) -> None:
        self._values.set_input(name, read)
        self.bound[name] = value
        if self._bound_tensors:
            self._bound_tensors.pop(name, None)
        if self._shared_arrays or isinstance(read, DeviceArray):
            self._note_array(name, read)
        # The memory of the picture before is no longer what the engine reads. Kept, the next picture would be written
        # there and not be bound.
        if self.picture_tensors.pop(name, None) is not None:
            del self._placements[name]

    def _write_pictures(self, pictures: Pictures | DevicePixels) -> None:
        """Has pictures written into their tensor: on the device where it can, else by the CPU."""
        name = pictures.descriptor.name
        before, device = self.picture_tensors.get(name), self._device_tensorizer
        tensor: Array | DeviceArray | None = None
        try:
            if isinstance(pictures, DevicePixels):
                assert device is not None  # where there is none, pixels of a device have been refused
                tensor = device.write_pixels(pictures, before)
            else:
                fit = self._fits[name] = pictures.fit
                bitmaps, placements = pictures.decode()
                if device is not None:
                    tensor = device.write(fit, bitmaps, placements, before)
                if tensor is None:
                    tensor = memory = fit.memory(before)
                    tensorize_batch(bitmaps, fit.contract, placements, memory, self._buffer_caches)
        except DeviceLostError as error:  # a picture is tensorized there
            self.session_state.lose(error)
            raise
        self._placements[name] = pictures.placements
        # A picture of the same size is written over the one before, in memory that the engine reads already.
        if tensor is not before:
            self._values.set_input(name, tensor)
            self.picture_tensors[name] = tensor

    def _note_array(self, name: str, array: object) -> None:
        """Notes an array on the device that is bound, if it is another library's."""
        if isinstance(array, DeviceArray) and array.handle is None:
            self._shared_arrays[name] = array
        else:
            self._shared_arrays.pop(name, None)

    def bind_output(self, descriptor: FeatureDescriptor, bound: object, properties: BindProperties) -> None:
        """Binds what an output is to be written into; raises as `check_output`, and where the session is closed."""
        self.session_state.require_open()
        self.set_output(descriptor, bound, check_output(bound, descriptor, properties, self.session_state))

    def set_output(self, descriptor: FeatureDescriptor, bound: object, checked: CheckedOutput) -> None:
        """Binds what `check_output` found in a value."""
        name = descriptor.name
        with self._lock:
            self._values.set_output(name, checked.memory)
            self._note_array(name, checked.memory)
            self._slots[name] = checked.slot
            self.bound[name] = bound
            self._is_checked = False

    def run(self, stop: Stop | None = None) -> dict[str, Any]:
        """Runs the model; gives the caller's object for each output, by name.

        Raises:
            MissingInputError: an input has not been bound.
            IllegalCallError: an input is a tensor that another evaluation was to write, and that failed.
            WinMLError: what the engine raises.
        """
        engine = self.session_state.require_open()  # before the lock, as in `clear`
        with self._lock if stop is None else held(self._lock, stop):
            if not self.session_state.input_names <= self.bound.keys():
                missing = [feature for name, feature in self.session_state.inputs.items() if name not in self.bound]
                expected = ", ".join(f"{feature.name} ({feature.expects()})" for feature in missing)
                raise MissingInputError(f"Missing Input: {expected}.", hint="Bind every input before evaluate().")
            for storage in self._bound_tensors.values():
                storage.require_valid()
            if not self._is_checked:  # not at bind, where two outputs may just be swapping their arrays
                require_no_overlap(self._slots)
                self._is_checked = True
            for array in self._shared_arrays.values():
                array.wait()
            has_begun = True
            try:
                try:
                    fresh = engine.run(self._values, stop)
                except (ClosedError, InvalidBindingError):  # these it raises before it writes anything
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
        """Whatever ended the run, what is bound may be half written, or hold the numbers of an earlier run."""
        for name, slot in self._slots.items():
            try:
                slot.invalidate()
            except Exception as error:  # memory that cannot be written any more must not hide why the run ended
                logger.warning("The output %s keeps what it held before a run that failed: %s", name, error)

    def _explain(self, error: EvaluationError) -> None:
        """Where a picture kept its own size, raises the error with how to state one: that is often the reason."""
        fits = [(name, fit) for name, fit in self._fits.items() if name in self.bound and name in self._placements]
        kept_sizes = ", ".join(
            f"the picture for {name} kept its own size, {fit.sizes[0][0]}x{fit.sizes[0][1]}"
            for name, fit in fits
            if fit.keeps_own_size
        )
        if not kept_sizes or error.__cause__ is not None:  # an operator of the program's own said why
            return
        raise EvaluationError(
            f"{error.message} The model takes any size, and {kept_sizes}.",
            hint="If the model was made for one, state it: ImageContract(size=(height, width)), or a scaling with "
            "pad_multiple for sides that must be multiples of a stride.",
        ) from error

    @property
    def placements(self) -> dict[str, tuple[PicturePlacement, ...]]:
        """Where the pictures that are bound lie in their tensors, by the names of inputs."""
        return {
            name: tuple(map(PicturePlacement, batch)) for name, batch in self._placements.items() if name in self.bound
        }


def bind_features(session_state: SessionState, features: Mapping[str, object]) -> BindingState:
    """An evaluation of values by the names of inputs and outputs.

    Raises:
        WinMLError: as a bind does.
    """
    evaluation = BindingState(session_state)
    for name, value in features.items():
        if type(value) is not np.ndarray and isinstance(value, (str, bytes, os.PathLike)):
            descriptor, is_input = session_state.find(name)
            if is_input and is_picture_file(value, descriptor):
                value = ImageFeatureValue.load(value)
        evaluation.bind(name, value)
    return evaluation


def is_picture_file(value: object, descriptor: FeatureDescriptor) -> TypeGuard[str | os.PathLike[str] | bytes]:
    """Whether a value is the path or the bytes of a picture file, for an image; elsewhere it may be a text."""
    return isinstance(value, (str, os.PathLike, bytes)) and isinstance(descriptor, ImageFeatureDescriptor)


# What is bound, looked at: no engine is touched and no picture decoded, so that this is quick and never waits.


def check_input(
    value: object,
    descriptor: FeatureDescriptor,
    properties: BindProperties,
    session_state: SessionState,
    before: PreprocessPlan | None = None,
) -> Bindable:
    """What a caller binds to an input of a session.

    Raises:
        InvalidBindingError: a tensor without data, or in the memory of another device.
        WinMLError: as `resolve` does, and where a picture does not fit into the tensor.
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
    if isinstance(bindable, (Pictures, DevicePixels)) and bindable.placements:  # found here, for the errors of a bind
        contracts = session_state.missing_contracts
        if not bindable.is_stated or contracts.proven is not None:
            contracts.warn(bindable, properties)
    return bindable


def _require_here(array: DeviceArray, name: str, location: MemoryLocation | None) -> None:
    if array.location != location:
        here = f"on {location}" if location else "on the CPU"
        raise InvalidBindingError(
            f"The model variable {name} cannot be bound to a tensor in the memory of {array.location}: the session "
            f"runs {here}.",
            hint=f"Bind {array.host_copy}, which is a copy in the host's memory.",
        )


class CheckedOutput(NamedTuple):
    """What happens to an output, and what the engine is told: None leaves the memory to it.

    Attributes:
        slot: receives the output.
        memory: the host's or the device's, or `Kept`.
    """

    slot: OutputSlot
    memory: Array | DeviceArray | Kept | None = None


def check_output(
    bound: object, descriptor: FeatureDescriptor, properties: BindProperties, session_state: SessionState
) -> CheckedOutput:
    """What a caller binds to an output of a session.

    Raises:
        NotSupportedError: memory on the device for float16 numbers, which are computed in float32.
        WinMLError: as `resolve` does, and where it cannot be written in place.
    """
    slot = slot_for_container(bound, descriptor)
    if slot is not None:
        return CheckedOutput(slot)
    value = resolve(bound, descriptor, properties)
    if isinstance(value, DeviceTensor):
        _require_here(value.array, descriptor.name, session_state.location)
        if value.array.dtype == np.float16 and session_state.engine.explanation.precision is Precision.FLOAT32:
            raise NotSupportedError(
                f"The output {descriptor.name} is computed in float32, and cannot be written to float16 memory on the "
                "device.",
                hint="Bind a tensor without memory, or make the session with another precision.",
            )
        return CheckedOutput(TensorOutput(bound, value.tensor, value.array), value.array)
    if isinstance(value, HostTensor):
        if properties.stays_on_device and isinstance(bound, Tensor) and session_state.location is not None:
            check_tensor(value.tensor, descriptor)  # nothing is cast there
            return CheckedOutput(TensorOutput(bound, value.tensor), Kept())
        array = writable_array(bound, value.tensor)
        slot = TensorOutput(bound, value.tensor, array, value.is_cast)
        return CheckedOutput(slot, None if value.is_cast else array)
    if isinstance(value, Pictures) and not is_pil_image(bound):
        return CheckedOutput(ImageOutput(bound, value.value, value.contract, descriptor))
    what = "a Pillow image" if is_pil_image(bound) else type_name(bound)
    raise InvalidBindingError(
        f"The model variable {descriptor.name} is an output, and {what} cannot be written in place.",
        hint="Bind a tensor, an array, a VideoFrame, a dict or a list; or leave it unbound: results have to_pil().",
    )
