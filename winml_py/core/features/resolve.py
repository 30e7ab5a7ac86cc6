"""resolve: determines what a caller binds to an input, and whether that is the file of a picture.

Windows ML's kinds of values (`FeatureValues.h`) and Python's become one of five classes. Later code dispatches on the
class alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ...enums import BitmapPixelFormat, TensorKind
from ...errors import InvalidArgumentError, InvalidBindingError, SizeMismatchError, WinMLError
from ..base.arrays import (
    DeviceArray,
    DType,
    MemoryLocation,
    as_device_array,
    as_host_array,
    can_export_dlpack,
    is_cuda_array,
)
from ..base.buffers import ByteArray
from ..base.winrt_object import private_state
from ..imaging.bitmap import SoftwareBitmap, VideoFrame
from .advice import (
    describe_picture,
    describe_size_mismatch,
    describe_value,
    make_kind_hint,
    make_value_hint,
    takes_picture,
)
from .bind_properties import BindProperties
from .containers import MapOrSequence, as_tensor, convert_for_engine, format_container, is_element
from .descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    SequenceFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
    format_tensor,
    is_untyped,
    make_mismatch_error,
)
from .pictures import ImageFeatureValue, PreprocessPlan
from .tensor import Tensor, wrap_array, wrap_device_array
from .tensor_classes import CLASSES_BY_DTYPE, TENSOR_CLASSES, needs_cast

if TYPE_CHECKING:
    from PIL.Image import Image
    from typing_extensions import Buffer  # in `collections.abc` from Python 3.12 on

    class DLPackArray(Protocol):
        """An array of numpy, torch, JAX and others."""

        def __dlpack__(self, *args: Any, **options: Any) -> Any: ...

    class CudaArray(Protocol):
        """An array of CuPy, numba and others."""

        @property
        def __cuda_array_interface__(self) -> Any: ...

    Picture = ImageFeatureValue | VideoFrame | SoftwareBitmap | Image
    BindableValue = Tensor | Picture | DLPackArray | CudaArray | Buffer | np.generic | MapOrSequence | float | str
    """What a caller can bind. Mappings of names to values use `object`: mypy infers that for a dict of mixed values."""

FeatureValue = Tensor | ImageFeatureValue | MapOrSequence
"""The intermediate form of a bound value."""


class HostTensor(NamedTuple):
    """A tensor in the host's memory, or a placeholder without memory.

    Attributes:
        tensor: one that fits the feature.
        is_cast: whether it is float32 and the feature float16: its numbers are cast when they are copied.
    """

    tensor: Tensor
    is_cast: bool = False


class DeviceTensor(NamedTuple):
    """A tensor in a device's memory: ours, or an array of another library on a CUDA device."""

    tensor: Tensor
    array: DeviceArray


class PlannedPictures(NamedTuple):
    """Pictures, and how they become the feature's tensor."""

    value: ImageFeatureValue
    plan: PreprocessPlan


class DevicePixels(NamedTuple):
    """The bytes of one picture in a CUDA device's memory: height x width, or height x width x channels."""

    array: DeviceArray
    pixel_format: BitmapPixelFormat
    plan: PreprocessPlan


class Container(NamedTuple):
    """A map or a sequence, as the engine takes it."""

    converted: dict[Any, Any] | list[Any]


ResolvedValue = HostTensor | DeviceTensor | PlannedPictures | DevicePixels | Container


def resolve(
    value: object, descriptor: FeatureDescriptor, properties: BindProperties, previous: PreprocessPlan | None = None
) -> ResolvedValue:
    """Determines what a caller's value is, and checks it against the feature it is bound to.

    Args:
        value: what the caller binds.
        descriptor: the feature.
        properties: those of the bind.
        previous: the plan of the pictures bound before; it is reused if it fits.

    Raises:
        InvalidBindingError: a value that does not fit, or pixels without a stated channel order.
        SizeMismatchError: a tensor of another shape, or pictures for a tensor that holds none.
        InvalidArgumentError: a list that does not fill the descriptor's shape, or a masked array.
    """
    feature_value, properties = _convert_to_feature_value(value, descriptor, properties)
    if isinstance(feature_value, ImageFeatureValue):
        if previous is not None and previous.is_for(feature_value.sizes, descriptor, properties):
            return PlannedPictures(feature_value, previous)
        return PlannedPictures(feature_value, PreprocessPlan(feature_value.sizes, descriptor, properties))
    if isinstance(feature_value, DeviceArray):
        return _resolve_cuda(feature_value, descriptor, properties)
    if not isinstance(feature_value, Tensor):
        converted = convert_for_engine(feature_value, descriptor)
        if converted is None:
            hint = make_value_hint(feature_value, descriptor)
            raise make_mismatch_error(InvalidBindingError, descriptor, format_container(feature_value), hint)
        return Container(converted)
    is_cast = needs_cast(feature_value, descriptor)
    check_tensor(feature_value, descriptor, is_cast)
    if is_cast:
        return HostTensor(feature_value, is_cast)
    device_array = private_state(feature_value).device_array
    return HostTensor(feature_value) if device_array is None else DeviceTensor(feature_value, device_array)


def _resolve_cuda(array: DeviceArray, descriptor: FeatureDescriptor, properties: BindProperties) -> ResolvedValue:
    if array.dtype == np.uint8 and len(array.shape) in (2, 3) and takes_picture(descriptor):
        pixel_format = _find_pixel_format(array.shape, descriptor, properties)
        height, width = array.shape[:2]
        plan = PreprocessPlan([(width, height)], descriptor, properties._replace(pixel_format=None))
        return DevicePixels(array, pixel_format, plan)
    if array.dtype not in CLASSES_BY_DTYPE:
        raise InvalidBindingError(f"There is no tensor class for {array.dtype}.", hint="Cast the array on the device.")
    tensor = wrap_device_array(CLASSES_BY_DTYPE[array.dtype], array)
    check_tensor(tensor, descriptor)
    return DeviceTensor(tensor, array)


def _convert_to_feature_value(
    value: Any, descriptor: FeatureDescriptor, properties: BindProperties
) -> tuple[FeatureValue | DeviceArray, BindProperties]:
    """The feature value, or CUDA memory, for what a caller binds; and the properties that remain for it."""
    if isinstance(value, np.ndarray):
        # Bytes for an image are pixels, unless they have its four dimensions. The pixel format then describes the
        # array, which does not state it, and is used up. A frame states its own format, so for a frame the property
        # gives the order of the tensor's channels.
        is_image = isinstance(descriptor, ImageFeatureDescriptor) or properties.contract is not None
        if is_image and value.dtype == np.uint8 and value.ndim != 4:
            pixel_format = _find_pixel_format(value.shape, descriptor, properties)
            return ImageFeatureValue.from_array(value, pixel_format), properties._replace(pixel_format=None)
    elif not isinstance(value, Tensor):
        pictures = as_picture(value)
        if pictures is not None:
            return pictures, properties
        if is_cuda_array(value):
            return as_device_array(value), properties
        if can_export_dlpack(value):
            return _convert_to_feature_value(as_host_array(value), descriptor, properties)
    # A scalar of numpy is a number, which takes the feature's type and shape as a number of Python does.
    is_number = isinstance(value, np.generic) and _takes_number(descriptor)
    is_object = isinstance(value, np.ndarray) and value.dtype.kind == "O" and not _takes_objects(descriptor)
    tensor = None if is_number or is_object else as_tensor(value)
    if tensor is None:
        is_list = isinstance(descriptor, SequenceFeatureDescriptor) and isinstance(value, (list, tuple))
        if is_list or isinstance(value, Mapping):
            return value, properties
        if isinstance(descriptor, TensorFeatureDescriptor):
            tensor = _make_tensor(value, descriptor)
    if tensor is None:
        raise InvalidBindingError(
            f"The model variable {descriptor.name} cannot be bound with the provided type: "
            f"it expects {descriptor.expects()}, got {describe_value(value)}.",
            hint=make_value_hint(value, descriptor),
        )
    return tensor, properties


def _find_pixel_format(
    sizes: tuple[int, ...], descriptor: FeatureDescriptor, properties: BindProperties
) -> BitmapPixelFormat:
    """The pixel format of an array of these sizes; InvalidBindingError where nothing states it."""
    if properties.pixel_format is not None:
        return properties.pixel_format
    if len(sizes) == 2 or sizes[2:] == (1,):
        return BitmapPixelFormat.GRAY8
    raise InvalidBindingError(
        f"The model variable {descriptor.name} is a picture, but an array of {'x'.join(map(str, sizes))} does not "
        "state whether its channels are red, green, blue or blue, green, red.",
        hint=f"State it: {describe_picture(sizes)}. Or bind an array of height x width x channels with "
        '{"BitmapPixelFormat": BitmapPixelFormat.RGB8}.',
    )


def as_picture(value: object) -> ImageFeatureValue | None:
    """The value as pictures, or None where it is not a picture."""
    if isinstance(value, (list, tuple)) and value:
        frames = [_convert_to_frame(element) for element in value]
        pictures = [frame for frame in frames if frame is not None]
        return ImageFeatureValue(pictures) if len(pictures) == len(value) else None
    if isinstance(value, ImageFeatureValue):
        return value
    frame = _convert_to_frame(value)
    return None if frame is None else ImageFeatureValue.create_from_video_frame(frame)


def _convert_to_frame(value: Any) -> VideoFrame | None:
    if isinstance(value, VideoFrame):
        return value
    if isinstance(value, ImageFeatureValue) and len(value.video_frames) == 1:
        return value.video_frame
    if isinstance(value, SoftwareBitmap):
        return VideoFrame.create_with_software_bitmap(value)
    if is_pil_image(value):
        return VideoFrame.create_with_software_bitmap(SoftwareBitmap.from_pil(value))
    return None


def is_pil_image(value: object) -> bool:
    """Whether the value is a Pillow image; does not import Pillow."""
    return any(cls.__module__ == "PIL.Image" and cls.__name__ == "Image" for cls in type(value).__mro__)


def is_buffer(value: Any) -> bool:
    """Whether a value offers its memory: bytes, bytearray, memoryview, array.array and the like."""
    if isinstance(value, ByteArray):
        return True
    if isinstance(value, (str, np.ndarray, np.generic, Tensor)):  # a numpy scalar is a number, though it has memory
        return False
    try:
        memoryview(value).release()
    except (TypeError, ValueError, BufferError):
        return False
    return True


def _takes_objects(descriptor: FeatureDescriptor) -> bool:
    """Whether an array of objects can fit: one of strings."""
    return getattr(descriptor, "tensor_kind", TensorKind.STRING) is TensorKind.STRING or is_untyped(descriptor)


def _takes_number(descriptor: FeatureDescriptor) -> bool:
    """Whether a feature is a tensor that can have one element."""
    return isinstance(descriptor, TensorFeatureDescriptor) and all(size in (1, -1) for size in descriptor.shape)


def holds_elements(buffer: Any, dtype: DType) -> bool:
    """Whether the memory of a buffer can be read as elements of a dtype: it has that dtype, or is plain bytes."""
    actual = np.asarray(memoryview(buffer)).dtype
    return dtype.kind != "O" and (actual == dtype or actual in (np.uint8, "S1"))


def _make_tensor(value: Any, descriptor: TensorFeatureDescriptor) -> Tensor | None:
    """A number, a buffer, or a list of either as a tensor; None where it does not fit the feature's kind.

    A list is a vector in WinRT and takes the feature's shape, which must have as many elements and at most one free
    size (else InvalidArgumentError). A list of lists has its own shape.
    """
    tensor_class = TENSOR_CLASSES.get(descriptor.tensor_kind)
    if tensor_class is None:
        return None
    if isinstance(value, (int, float, str, np.generic)):
        shape = (1,) * len(descriptor.shape)
        return _make_from_elements([value], shape, tensor_class) if _takes_number(descriptor) else None
    if is_buffer(value):
        return _make_from_buffer(value, descriptor, tensor_class)
    if not isinstance(value, Sequence) or not value:
        return None
    if all(map(is_buffer, value)):
        if not all(holds_elements(buffer, tensor_class.dtype) for buffer in value):
            return None
        data = bytearray().join(np.asarray(memoryview(buffer)).tobytes() for buffer in value)
        return tensor_class.create_from_buffer(_infer_shape(descriptor, len(data) // tensor_class.dtype.itemsize), data)
    if any(isinstance(row, (list, tuple)) for row in value):
        try:
            array = np.array(value, object)  # rows of unequal length become lists, which are no elements
        except (ValueError, TypeError):  # arrays of unequal shapes, or of a library that keeps them on a GPU
            return None
        return _make_from_elements(array.reshape(-1).tolist(), array.shape, tensor_class)
    if not all(is_element(element, descriptor.tensor_kind) for element in value):
        return None
    return _make_from_elements(list(value), _infer_shape(descriptor, len(value)), tensor_class)


def _make_from_elements(elements: list[Any], shape: tuple[int, ...], tensor_class: type[Tensor]) -> Tensor | None:
    if not all(is_element(element, tensor_class.tensor_kind) for element in elements):
        return None
    return wrap_array(tensor_class, np.array(elements, tensor_class.dtype).reshape(shape))


def _make_from_buffer(value: Any, descriptor: TensorFeatureDescriptor, tensor_class: type[Tensor]) -> Tensor | None:
    """A tensor of a typed buffer, such as `array.array`, whose memory it shares if the elements are those in memory."""
    array = np.asarray(memoryview(value))
    if isinstance(value, (bytes, bytearray, ByteArray)):  # bytes do not state the type of their elements
        return None
    if array.dtype == tensor_class.dtype:
        return tensor_class.create_from_buffer(_infer_shape(descriptor, array.size), array)
    if array.dtype == tensor_class.view_dtype:
        return tensor_class.create_from_array(_infer_shape(descriptor, array.size), array)
    return None


def _infer_shape(descriptor: TensorFeatureDescriptor, count: int) -> tuple[int, ...]:
    """The descriptor's shape, with its one free size taken from the number of elements."""
    sizes = descriptor.shape
    is_fixed = -1 not in sizes
    fixed_count = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) > 1 or not descriptor.has_rank:
        raise InvalidArgumentError(
            f"The model variable {descriptor.name} expects {descriptor.expects()}: a plain list of {count} elements "
            "does not determine the free sizes.",
            hint="Bind an array or a tensor, which has a shape.",
        )
    fits = count == fixed_count if is_fixed else fixed_count > 0 and count % fixed_count == 0
    if not fits:
        raise InvalidArgumentError(
            f"The model variable {descriptor.name} expects {descriptor.expects()}, got {count} elements.",
            hint=f"It takes {'' if is_fixed else 'a multiple of '}{fixed_count}.",
        )
    return tuple(count // fixed_count if size == -1 else size for size in sizes)


def check_tensor(value: Tensor, descriptor: FeatureDescriptor, is_cast: bool = False) -> None:
    """Refuses a tensor that does not fit, by Windows ML's table in `FeatureCompatibility.h`; a placeholder may have any
    shape.

    Args:
        value: the tensor.
        descriptor: the feature.
        is_cast: whether its numbers are cast to the feature's element type.
    """
    if not isinstance(descriptor, ShapedDescriptor):
        raise _make_tensor_error(InvalidBindingError, descriptor, value, make_value_hint(value, descriptor))
    if value.tensor_kind != descriptor.tensor_kind and not is_cast and not is_untyped(descriptor):
        raise _make_tensor_error(InvalidBindingError, descriptor, value, make_kind_hint(value, descriptor))
    if not value.is_placeholder:
        check_shape(value, descriptor)
    if value.has_open_references:
        raise InvalidBindingError(
            "The tensor has outstanding memory buffer references that must be closed prior to evaluation!",
            hint="Close what create_reference() returned, or use get_buffer(), which needs no closing.",
        )


def check_shape(value: Tensor, descriptor: FeatureDescriptor) -> None:
    """Refuses a tensor whose shape does not fit; that of a placeholder may be free or unknown."""
    shape = private_state(value).shape
    if shape is None or not isinstance(descriptor, ShapedDescriptor) or not getattr(descriptor, "has_rank", True):
        return
    if hint := describe_size_mismatch(shape, descriptor):
        raise _make_tensor_error(SizeMismatchError, descriptor, value, hint)


def _make_tensor_error(kind: type[WinMLError], descriptor: FeatureDescriptor, value: Tensor, hint: str) -> WinMLError:
    return make_mismatch_error(kind, descriptor, format_tensor(value.tensor_kind, tuple(value.shape)), hint)


def require_location(array: DeviceArray, descriptor: FeatureDescriptor, location: MemoryLocation | None) -> None:
    """Refuses memory on another device than that of the session; a location of None is the host."""
    if array.location != location:
        here = f"on {location}" if location else "on the CPU"
        raise InvalidBindingError(
            f"The model variable {descriptor.name} cannot be bound to a tensor in the memory of {array.location}: the "
            f"session runs {here}.",
            hint=f"Bind {array.host_copy}, a copy in the host's memory.",
        )
