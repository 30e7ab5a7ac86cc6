"""Checks values for inputs and outputs. It touches no engine and decodes no picture: it is quick, and never waits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...errors import InvalidBindingError
from ..base.device_array import DeviceArray, MemoryLocation
from ..base.messages import type_name
from ..features.bind_properties import BindProperties
from ..features.conversion import check_tensor, is_pil_image
from ..features.descriptors import FeatureDescriptor
from ..features.resolve import Bindable, DevicePixels, DeviceTensor, HostTensor, PictureFit, Pictures, resolve
from ..features.tensor import Tensor, storage_of
from ..runtime.engine import DeviceEngineBinding
from .outputs import CastOutput, ImageOutput, OutputSlot, TensorOutput, refilled, writable_array


def checked_input(
    value: Any,
    descriptor: FeatureDescriptor,
    properties: BindProperties,
    location: MemoryLocation | None,
    before: PictureFit | None = None,
) -> Bindable:
    """What a caller binds to an input of a session that runs at a location.

    Raises:
        InvalidBindingError: a tensor without data, or in the memory of another device.
        WinMLError: as `resolve` does, and where a picture does not fit into the tensor.
    """
    found = resolve(value, descriptor, properties, before)
    if isinstance(found, HostTensor):
        _require_data(found.tensor, descriptor)
    elif isinstance(found, (DeviceTensor, DevicePixels)):
        if isinstance(value, Tensor):
            storage_of(value).require_valid()
        _require_here(found.array, descriptor.name, location)
    elif isinstance(found, Pictures):
        found.fit.placements  # noqa: B018 - it is asked for its errors
    return found


def _require_data(tensor: Tensor, descriptor: FeatureDescriptor) -> None:
    if tensor.is_placeholder:
        raise InvalidBindingError(
            f"The model variable {descriptor.name} is an input, but has no associated resources to bind.",
            hint="Give the tensor data: create_from_array, from_numpy"
            + (", or write to its to_numpy()." if tensor.shape else "."),
        )


def _require_here(array: DeviceArray, name: str, location: MemoryLocation | None) -> None:
    if array.location != location:
        here = f"on {location}" if location else "on the CPU"
        raise InvalidBindingError(
            f"The model variable {name} cannot be bound to a tensor in the memory of {array.location}: the session "
            f"runs {here}.",
            hint=f"Bind {array.host_copy}, which is a copy in the host's memory.",
        )


class CheckedOutput(NamedTuple):
    """What happens to an output, and the memory that the engine writes it to: None is the engine's own.

    Attributes:
        slot: receives the output.
        memory: see above.
        stays_on_device: whether it is left in the device's memory.
    """

    slot: OutputSlot
    memory: np.ndarray[Any, Any] | DeviceArray | None = None
    stays_on_device: bool = False

    def set(self, binding: DeviceEngineBinding, name: str) -> None:
        """Binds the memory to the engine's output of that name."""
        if self.stays_on_device:
            binding.keep_output(name)
        else:
            binding.set_output(name, self.memory)


def checked_output(
    bound: Any, descriptor: FeatureDescriptor, properties: BindProperties, location: MemoryLocation | None
) -> CheckedOutput:
    """What a caller binds to an output of a session that runs at a location.

    Raises:
        WinMLError: as `resolve` does, and where it cannot be written in place.
    """
    slot = refilled(bound, descriptor)
    if slot is not None:
        return CheckedOutput(slot)
    value = resolve(bound, descriptor, properties)
    if isinstance(value, DeviceTensor):
        _require_here(value.array, descriptor.name, location)
        return CheckedOutput(TensorOutput(bound, value.tensor), value.array)
    if isinstance(value, HostTensor):
        is_kept = properties.stays_on_device and isinstance(bound, Tensor) and location is not None
        return _kept(bound, value.tensor, descriptor) if is_kept else _host_memory(bound, value, descriptor)
    if isinstance(value, Pictures) and not is_pil_image(bound):
        return CheckedOutput(ImageOutput(bound, value.value, value.contract, descriptor))
    what = "a Pillow image" if is_pil_image(bound) else type_name(bound)
    raise InvalidBindingError(
        f"The model variable {descriptor.name} is an output, and {what} cannot be written in place.",
        hint="Bind a tensor, an array, a VideoFrame, a dict or a list; or leave it unbound: results have to_pil().",
    )


def _kept(bound: Any, tensor: Tensor, descriptor: FeatureDescriptor) -> CheckedOutput:
    check_tensor(tensor, descriptor)  # nothing is cast there
    return CheckedOutput(TensorOutput(bound, tensor), stays_on_device=True)


def _host_memory(bound: Any, value: HostTensor, descriptor: FeatureDescriptor) -> CheckedOutput:
    array = writable_array(bound, value.tensor)
    if value.is_cast:
        return CheckedOutput(CastOutput(bound, value.tensor, array, descriptor))
    return CheckedOutput(TensorOutput(bound, value.tensor, array), array)
