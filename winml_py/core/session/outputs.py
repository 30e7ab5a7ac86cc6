"""Outputs: what can be bound to one, and how each run writes it in place or makes a new value."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from itertools import combinations
from typing import Any

import numpy as np

from ...enums import Precision, TensorKind
from ...errors import EvaluationError, InvalidBindingError, NotSupportedError, SizeMismatchError
from ..base.arrays import Array, DeviceArray, as_host_array, as_unmasked_array, can_export_dlpack
from ..base.buffers import Buffer
from ..base.messages import type_name
from ..base.winrt_object import private_state
from ..features.bind_properties import BindProperties
from ..features.containers import convert_for_engine, is_element
from ..features.descriptors import (
    FeatureDescriptor,
    MapFeatureDescriptor,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
    is_untyped,
    make_mismatch_error,
)
from ..features.pictures import ImageFeatureValue, PreprocessPlan
from ..features.prepare import (
    check_shape,
    check_tensor,
    holds_elements,
    identify,
    is_buffer,
    is_pil_image,
    require_location,
    wrap_memory,
)
from ..features.tensor import Tensor, wrap_array
from ..features.tensor_classes import TENSOR_CLASSES, TensorString, needs_cast
from ..imaging.bitmap import VideoFrame
from ..imaging.contract import ImageContract
from ..imaging.detensorize import detensorize
from ..imaging.pixels import BufferCache
from ..runtime.engine import Engine
from ..runtime.runs import StaysOnDevice, Value, make_output_shape_error
from .result import Memory, OutputSlot, convert_to_python, make_output_error, require_pictures


class ContainerOutput(OutputSlot):
    """An output bound to a dict or a list, which is cleared and refilled."""

    def __init__(self, descriptor: FeatureDescriptor, value: Any) -> None:
        super().__init__(descriptor, value)
        self.targets = (value,)

    def receive(self, value: Value | DeviceArray | None) -> Any:
        """Refills the bound object: a list with the elements of a tensor or a sequence, a dict with those of a map."""
        content: Any
        if isinstance(value, np.ndarray):
            content = _require_array(value, self._descriptor).reshape(-1).tolist()
        else:
            content = convert_to_python(value, self._descriptor)
        self.value.clear()
        if isinstance(self.value, MutableMapping):
            self.value.update(content)
        else:
            self.value.extend(content)
        return self.value

    def invalidate(self) -> None:
        """Empties the bound object."""
        self.value.clear()


class BuffersOutput(OutputSlot):
    """An output bound to several buffers, which are filled one after the other."""

    def __init__(self, descriptor: TensorFeatureDescriptor, value: list[Any]) -> None:
        super().__init__(descriptor, value)
        if descriptor.tensor_kind is TensorKind.STRING:
            raise InvalidBindingError("Strings cannot be written into buffers.", hint="Bind an empty list.")
        dtype = TENSOR_CLASSES[descriptor.tensor_kind].dtype
        if not all(holds_elements(buffer, dtype) for buffer in value):
            raise InvalidBindingError(
                f"The output {descriptor.name} has elements of {dtype}, but buffers of another type are bound to it.",
                hint="Bind an array of that type, or buffers of bytes, such as bytearray.",
            )
        # An empty memoryview cannot be cast, and receives nothing.
        views = [memoryview(buffer) for buffer in value]
        if any(view.nbytes and (view.readonly or not view.c_contiguous) for view in views):
            raise InvalidBindingError(
                "An output cannot be bound to buffers that are read-only or have gaps.", hint="Bind a bytearray."
            )
        self._parts = [view.cast("B") if view.nbytes else memoryview(b"") for view in views]
        self.targets = [np.frombuffer(part, np.uint8) for part in self._parts if part.nbytes]

    def receive(self, value: Value | DeviceArray | None) -> Any:
        """Copies the tensor's bytes."""
        data = _require_array(value, self._descriptor).tobytes()
        sizes = [part.nbytes for part in self._parts]
        if sum(sizes) != len(data):
            raise SizeMismatchError(
                f"The model variable {self._descriptor.name} has {len(data)} bytes, but buffers of {sum(sizes)} bytes "
                "are bound to it.",
                hint="Bind buffers whose sizes add up to that of the output.",
            )
        start = 0
        for part, size in zip(self._parts, sizes, strict=True):
            if size:  # the view of an empty part is read-only
                part[:] = data[start : start + size]
            start += size
        for buffer in self.value:
            if isinstance(buffer, Buffer):
                buffer.length = buffer.capacity
        return self.value

    def invalidate(self) -> None:
        """Sets all bits, which makes floats NaN; the `length` of WinRT buffers becomes 0."""
        for part in self._parts:
            if part.nbytes:  # an empty part may be the empty view, which cannot be written
                part[:] = b"\xff" * part.nbytes
        for buffer in self.value:
            if isinstance(buffer, Buffer):
                buffer.length = 0


class TensorOutput(OutputSlot):
    """An output bound to a tensor or an array: the engine writes into its memory, or a placeholder takes the engine's.

    Args:
        descriptor: the output's.
        value: the bound object.
        tensor: it, or a tensor over its memory.
        array: where the output is written; None for a placeholder.
        memory: `array` if the engine writes it; None if the output is copied there: strings, and numbers that are cast.
    """

    def __init__(
        self,
        descriptor: FeatureDescriptor,
        value: object,
        tensor: Tensor,
        array: Array | DeviceArray | None = None,
        memory: Memory = None,
    ) -> None:
        super().__init__(descriptor, value)
        self.memory = memory
        self._storage = private_state(tensor)
        self._shape = self._storage.shape
        self._array = array
        self.targets = (value, array if isinstance(array, np.ndarray) else None)

    @property
    def is_stale(self) -> bool:
        """Whether the bound tensor has other memory than at the bind. A placeholder of a stated shape may get it by
        a read or a run. Later runs write to it, so that views of it stay valid.
        """
        if self._array is not None:
            return self._storage.has_other_memory(self._array)
        is_free = self.memory is not None or self._shape is None or -1 in self._shape
        return not is_free and self._storage.array is not None

    def receive(self, value: Value | DeviceArray | None) -> Any:
        """Returns the bound object."""
        self._storage.require_open()
        if isinstance(value, (np.ndarray, DeviceArray)):  # else the engine wrote into the memory
            self._take(value)
        self._storage.is_invalid = False
        return self.value

    def _take(self, value: Array | DeviceArray) -> None:
        shape = value.shape if self._shape is None else self._shape
        is_fitting = len(shape) == len(value.shape)
        if not is_fitting or any(size not in (-1, actual) for size, actual in zip(shape, value.shape, strict=True)):
            raise make_output_shape_error(self.name, shape, value.shape)
        dtype = self._storage.owner.dtype
        if value.dtype != dtype and (value.dtype, dtype) != (np.float16, np.float32):  # a float16 picture is cast
            raise EvaluationError(
                f"The output {self.name} has {value.dtype} elements, but memory of {dtype} is bound to it.",
                hint=f"Bind an array or a tensor of {value.dtype}.",
            )
        if isinstance(self._array, np.ndarray) and isinstance(value, np.ndarray):
            np.copyto(self._array, value)
        elif isinstance(value, np.ndarray):
            self._storage.adopt(value.astype(dtype, copy=False))
        else:
            self._storage.adopt(value)

    @property
    def keeps_values(self) -> bool:
        """Whether nothing can show that the bound object is invalid: it is an array of booleans."""
        return not isinstance(self.value, Tensor) and self._array is not None and self._array.dtype == np.bool_

    def invalidate(self) -> None:
        """Marks a tensor as invalid; fills an array, which cannot be marked."""
        self._storage.is_invalid = True
        if not isinstance(self.value, Tensor) and self._array is not None:
            invalidate(self._array)


class ImageOutput(OutputSlot):
    """An output bound to pictures: the result is stretched to their sizes, and written in place."""

    def __init__(
        self, descriptor: FeatureDescriptor, value: object, pictures: ImageFeatureValue, contract: ImageContract
    ) -> None:
        super().__init__(descriptor, value)
        self._bitmaps = [frame.software_bitmap for frame in pictures.video_frames]
        if any(bitmap.is_read_only for bitmap in self._bitmaps):
            raise InvalidBindingError(
                f"The model variable {descriptor.name} is an output, but the picture bound to it is read-only.",
                hint="Bind a new VideoFrame, or a copy of the array.",
            )
        self._contract = contract
        self._buffers = BufferCache()
        self.targets = [bitmap.to_numpy() if bitmap.is_valid else bitmap for bitmap in self._bitmaps]

    def receive(self, value: Value | DeviceArray | None) -> Any:
        """Writes the pictures and returns the bound object."""
        array = _require_array(value, self._descriptor)
        require_pictures(array, self._contract, self._descriptor)
        if len(array) != len(self._bitmaps):
            raise SizeMismatchError(
                f"The model variable {self._descriptor.name} takes a batch of {len(array)} pictures, but "
                f"{len(self._bitmaps)} are bound to it.",
                hint="Bind one frame for each picture in the batch.",
            )
        for tensor, bitmap in zip(array, self._bitmaps, strict=True):
            bitmap.is_valid = True
            detensorize(tensor, self._contract, bitmap, self._buffers)
        return self.value

    def invalidate(self) -> None:
        """Makes reading the pictures an error until a run succeeds."""
        for bitmap in self._bitmaps:
            bitmap.is_valid = False


def prepare_output(
    destination: object, descriptor: FeatureDescriptor, properties: BindProperties, engine: Engine
) -> OutputSlot:
    """Checks what a caller binds to an output, and returns the slot that receives the output.

    Raises:
        NotSupportedError: memory on the device for float16 numbers that are computed in float32.
        WinMLError: as `prepare` does, and if the object cannot be written in place.
    """
    slot = make_container_slot(destination, descriptor) or make_text_slot(destination, descriptor)
    if slot is not None:
        properties.refuse_picture_properties(descriptor.name, destination)
        return slot
    source, remaining = identify(destination, descriptor, properties)
    if isinstance(source, ImageFeatureValue):
        properties.refuse_input_properties(descriptor.name)
        if not is_pil_image(destination):
            plan = PreprocessPlan(source.sizes, descriptor, remaining)
            return ImageOutput(descriptor, destination, source, plan.contract)
    else:
        properties.refuse_picture_properties(descriptor.name, destination)
    if isinstance(source, DeviceArray):
        source = wrap_memory(source)
    if isinstance(source, Tensor):
        is_cast = needs_cast(source, descriptor)
        check_tensor(source, descriptor, is_cast)
        check_shape(source, descriptor)  # also that of a placeholder, which an input refuses anyway
        device_array = private_state(source).device_array
        if device_array is not None:
            require_location(device_array, descriptor, engine.location)
            if device_array.dtype == np.float16 and engine.explanation.precision is Precision.FLOAT32:
                raise NotSupportedError(
                    f"The output {descriptor.name} is computed in float32 and cannot be written to float16 memory on "
                    "the device.",
                    hint="Bind a tensor without memory, or create the session with another precision.",
                )
            return TensorOutput(descriptor, destination, source, device_array, device_array)
        if properties.stays_on_device and isinstance(destination, Tensor) and engine.location is not None:
            check_tensor(source, descriptor)  # a device casts no tensor
            return TensorOutput(descriptor, destination, source, memory=StaysOnDevice())
        array = require_writable_array(destination, source)
        is_copied = is_cast or isinstance(source, TensorString) or is_untyped(descriptor)
        return TensorOutput(descriptor, destination, source, array, None if is_copied else array)
    actual = "a Pillow image" if is_pil_image(destination) else type_name(destination)
    raise InvalidBindingError(
        f"The model variable {descriptor.name} is an output, but {actual} cannot be written in place.",
        hint="Bind a tensor, an array, a VideoFrame, a dict or a list; or leave it unbound, and use the result's "
        "to_pil().",
    )


def invalidate(array: Array | DeviceArray) -> None:
    """Fills an array that a failed run was to write, so that no old numbers are taken for a result.

    Floats become NaN, and integers the value of their type that is least likely a result: the least, or for unsigned
    types the largest; strings become None. Booleans stay: neither value would show that it is invalid.
    """
    if array.dtype.kind == "f":
        array.fill(np.nan)
    elif array.dtype.kind in "iu":
        info = np.iinfo(array.dtype)
        array.fill(info.min or info.max)
    elif isinstance(array, np.ndarray) and array.dtype.kind == "O":
        array.fill(None)


def make_container_slot(destination: object, descriptor: FeatureDescriptor) -> OutputSlot | None:
    """The slot for a dict, a list or a list of buffers bound to an output; None for other values, and for pictures.

    Raises:
        InvalidBindingError: a dict for an output that is not a map, or a list for one that is not a sequence or tensor.
    """
    if isinstance(destination, MutableMapping):
        fits = isinstance(descriptor, MapFeatureDescriptor)
    elif isinstance(destination, list):
        if destination and all(isinstance(element, VideoFrame) for element in destination):
            return None
        if destination and all(map(is_buffer, destination)) and isinstance(descriptor, TensorFeatureDescriptor):
            return BuffersOutput(descriptor, destination)
        fits = _can_hold(destination, descriptor)
    else:
        return None
    if not fits:
        hint = "Bind an object of the descriptor's kind, or leave the output unbound."
        raise make_mismatch_error(InvalidBindingError, descriptor, type_name(destination), hint)
    return ContainerOutput(descriptor, destination)


def _can_hold(elements: list[Any], descriptor: FeatureDescriptor) -> bool:
    """Whether a list is empty, or its elements have the type of the output's: WinRT's vectors are of one type."""
    if isinstance(descriptor, SequenceFeatureDescriptor):
        return not elements or convert_for_engine(elements, descriptor) is not None
    if isinstance(descriptor, TensorFeatureDescriptor):
        return all(is_element(element, descriptor.tensor_kind) for element in elements)
    return False


def make_text_slot(destination: object, descriptor: FeatureDescriptor) -> OutputSlot | None:
    """The slot for an array bound to an output of strings, which may hold anything before; None for other values.

    Raises:
        InvalidBindingError: strings of limited length, or a read-only array.
        SizeMismatchError: an array of another shape.
    """
    if not isinstance(destination, np.ndarray) or destination.dtype.kind not in "OU":
        return None
    if getattr(descriptor, "tensor_kind", None) is not TensorKind.STRING and not is_untyped(descriptor):
        return None
    if destination.dtype.kind == "U":
        raise InvalidBindingError(
            f"The output {descriptor.name} has strings of any length, but an array of {destination.dtype} would "
            "truncate them.",
            hint=f"Bind np.empty({destination.shape}, object).",
        )
    tensor = wrap_array(TensorString, as_unmasked_array(destination))
    check_tensor(tensor, descriptor)
    return TensorOutput(descriptor, destination, tensor, require_writable_array(destination, tensor))


def require_writable_array(destination: Any, tensor: Tensor) -> Array | None:
    """The memory of an output tensor; None for a placeholder.

    Raises:
        InvalidBindingError: the memory is read-only, or not the bound object's.
    """
    if tensor.is_placeholder:
        return None
    array = private_state(tensor).memory()
    if not isinstance(destination, (Tensor, np.ndarray)) and can_export_dlpack(destination):
        destination = as_host_array(destination)
    is_view = is_buffer(destination) and np.shares_memory(np.frombuffer(destination, np.uint8), array)
    if not isinstance(destination, (Tensor, np.ndarray)) and not is_view:
        raise InvalidBindingError(
            f"An output cannot be written into {type_name(destination)}.", hint="Bind an array, a tensor or a list."
        )
    if not array.flags.writeable:
        raise InvalidBindingError("An output cannot be bound to read-only memory.", hint="Bind a copy of the array.")
    # Empty arrays share no memory, and nothing is written to them.
    if isinstance(destination, np.ndarray) and not np.shares_memory(destination, array) and array.size:
        raise InvalidBindingError(
            "An output cannot be bound to an array that is not C-contiguous: the engine would write to a copy.",
            hint="Bind np.ascontiguousarray(array), or a tensor.",
        )
    return array


def _require_array(value: Value | DeviceArray | None, descriptor: FeatureDescriptor) -> Array:
    tensor_class = TENSOR_CLASSES.get(getattr(descriptor, "tensor_kind", TensorKind.UNDEFINED))
    if isinstance(value, np.ndarray) and (tensor_class is None or value.dtype == tensor_class.dtype):
        return value
    raise make_output_error(descriptor, value, tensor_class.dtype if tensor_class else None)


def require_no_overlap(slots: Mapping[str, OutputSlot]) -> None:
    """Refuses outputs that would be written over each other.

    Raises:
        InvalidBindingError: two of them share memory, or are the same object.
    """
    named_targets = [(name, target) for name, slot in slots.items() for target in slot.targets if target is not None]
    for (first_name, first), (second_name, second) in combinations(named_targets, 2):
        if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
            overlap = np.shares_memory(first, second)
        else:
            overlap = first is second
        if overlap and first_name != second_name:
            raise InvalidBindingError(
                f"The outputs {first_name} and {second_name} are bound to the same memory: one would overwrite the "
                "other.",
                hint="Bind a separate array to each output, or leave one unbound.",
            )
