"""prepare: checks a caller's value for an input. It decodes no picture, and owns no memory."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

import numpy as np

from ...enums import BitmapPixelFormat, TensorKind
from ...errors import InvalidArgumentError, InvalidBindingError, SizeMismatchError, WinMLError
from ..base.arrays import (
    Array,
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
from .bind_properties import NO_PROPERTIES, BindProperties
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
from .files import is_file, read_file, require_content
from .pictures import ImageFeatureValue, PreprocessPlan
from .tables import is_tabular, read_table
from .tensor import Tensor, wrap_array, wrap_device_array
from .tensor_classes import CLASSES_BY_DTYPE, TENSOR_CLASSES, TensorString, needs_cast

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
    File = str | os.PathLike[str] | BinaryIO
    BindableValue = Tensor | Picture | DLPackArray | CudaArray | Buffer | np.generic | MapOrSequence | float | File
    """What a caller can bind. Mappings of names to values use `object`: mypy infers that for a dict of mixed values."""


class Prepared(NamedTuple):
    """A caller's value for an input, checked. It owns no memory, and no picture has been decoded for it.

    Attributes:
        feature: the input's descriptor.
        value: what the caller passed.
        converted: an array that fits as it is; a `Tensor`; pictures; pixels in a CUDA device's memory (height x width,
            or height x width x channels); or a map or a sequence as the engine takes it. If it is deferred: a path,
            the bytes of a file, or Pillow images.
        properties: those of the bind that are not used up.
        plan: how pictures become the input's tensor; None for other values.
        pixel_format: of pixels on a device.
        is_deferred: whether `converted` must be opened before it can be checked, by `open_deferred`.
    """

    feature: FeatureDescriptor
    value: object
    converted: Any
    properties: BindProperties = NO_PROPERTIES
    plan: PreprocessPlan | None = None
    pixel_format: BitmapPixelFormat | None = None
    is_deferred: bool = False


def prepare(
    value: object,
    feature: FeatureDescriptor,
    properties: BindProperties = NO_PROPERTIES,
    *,
    location: MemoryLocation | None = None,
    plan: PreprocessPlan | None = None,
    files: bool = False,
) -> Prepared:
    """Checks a caller's value for an input. Every way to pass one calls this.

    Args:
        value: what the caller passes.
        feature: the input.
        properties: those of the bind.
        location: the memory of the session's device; None for the host's.
        plan: that of the pictures bound before; it is reused if it fits.
        files: whether the value may be a file: a path, its bytes, or an open file. Only for values of the program.

    Raises:
        InvalidBindingError: a value that does not fit or has no data, pixels without a stated channel order, memory of
            another device, or properties of pictures for numbers.
        SizeMismatchError: a tensor of another shape, or pictures for a tensor that holds none.
        InvalidArgumentError: a list that does not fill the feature's shape, a masked array, or an open file that cannot
            be read.
        IllegalCallError: a tensor that a failed evaluation was to write.
    """
    if type(value) is np.ndarray and properties is NO_PROPERTIES and _fits_as_it_is(value, feature):
        return Prepared(feature, value, value)  # as nearly always
    if files and not isinstance(value, (Tensor, ImageFeatureValue)) and is_file(value, feature):
        return Prepared(feature, value, require_content(value), properties, is_deferred=True)
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    if isinstance(feature, ShapedDescriptor) and is_pil_image(first):  # Pillow may not have decoded it
        return Prepared(feature, value, value, properties, is_deferred=True)
    takes_rows = isinstance(feature, TensorFeatureDescriptor) and not isinstance(value, (Tensor, ImageFeatureValue))
    table = read_table(value, feature) if takes_rows and is_tabular(value) else value
    source, remaining = identify(table, feature, properties)
    if isinstance(source, ImageFeatureValue):
        if plan is None or not plan.is_for(source.sizes, feature, remaining):
            plan = PreprocessPlan(source.sizes, feature, remaining)
        plan.require_placements()
        return Prepared(feature, value, source, remaining, plan)
    if isinstance(source, DeviceArray):
        require_location(source, feature, location)
        if source.dtype == np.uint8 and len(source.shape) in (2, 3) and takes_picture(feature):
            pixel_format = _find_pixel_format(source.shape, feature, remaining)
            height, width = source.shape[:2]
            plan = PreprocessPlan([(width, height)], feature, remaining._replace(pixel_format=None))
            plan.require_placements()
            return Prepared(feature, value, source, remaining, plan, pixel_format)
        source = wrap_memory(source)
    properties.refuse_picture_properties(feature.name, value)
    if not isinstance(source, Tensor):
        for element in () if isinstance(source, Mapping) else source:  # a map holds no tensors
            _require_data(element, feature)
        converted = convert_for_engine(source, feature)
        if converted is None:
            hint = make_value_hint(source, feature)
            raise make_mismatch_error(InvalidBindingError, feature, format_container(source), hint)
        return Prepared(feature, value, converted)
    check_tensor(source, feature, needs_cast(source, feature))
    _require_data(source, feature)
    storage = private_state(source)
    if storage.device_array is not None:
        storage.require_valid()
        require_location(storage.device_array, feature, location)
    return Prepared(feature, value, source)


def _require_data(value: object, feature: FeatureDescriptor) -> None:
    """Refuses a placeholder: as an input, it would be zeros."""
    if isinstance(value, Tensor) and value.is_placeholder:
        hint = "Create the tensor with create_from_array or from_numpy"
        hint += ", or write to its to_numpy()." if private_state(value).shape else "."
        raise InvalidBindingError(
            f"The model variable {feature.name} is an input, but has no associated resources to bind.", hint=hint
        )


def open_deferred(prepared: Prepared) -> Any:
    """Reads the file, or converts the Pillow images, of a value whose check was deferred."""
    if isinstance(prepared.converted, (str, os.PathLike, bytes, bytearray)):
        return read_file(prepared.converted)
    # Pillow decodes an image on first access, and cannot do so in two threads at once, which may share an image.
    with _pillow_locks.setdefault(os.getpid(), threading.Lock()):
        return identify(prepared.converted, prepared.feature, prepared.properties)[0]


_pillow_locks: dict[int, threading.Lock] = {}  # by process: in a forked one, the parent's might never be released


def _fits_as_it_is(array: Array, feature: FeatureDescriptor) -> bool:
    """Whether an array goes to an input unchanged, as nearly all do. The others are checked."""
    if isinstance(feature, TensorFeatureDescriptor):
        if not feature.has_rank:
            return False
    elif not isinstance(feature, ImageFeatureDescriptor) or len(feature.shape) != 4:
        return False  # for an image, an array of another rank may be pixels
    tensor_class = CLASSES_BY_DTYPE.get(array.dtype)
    if tensor_class is None or tensor_class.tensor_kind is not feature.tensor_kind or tensor_class is TensorString:
        return False
    flags, shape = array.flags, feature.shape
    if not flags.c_contiguous or not flags.aligned:
        return False
    if array.shape == shape:  # first, because most models have fixed sizes
        return True
    return array.ndim == len(shape) and all(
        size in (-1, actual) for actual, size in zip(array.shape, shape, strict=True)
    )


def wrap_memory(array: DeviceArray) -> Tensor:
    """A tensor over CUDA memory; InvalidBindingError where there is none for its element type."""
    if array.dtype not in CLASSES_BY_DTYPE:
        raise InvalidBindingError(f"No tensor class exists for {array.dtype}.", hint="Cast the array on the device.")
    return wrap_device_array(CLASSES_BY_DTYPE[array.dtype], array)


def identify(
    value: Any, descriptor: FeatureDescriptor, properties: BindProperties
) -> tuple[Tensor | ImageFeatureValue | DeviceArray | MapOrSequence, BindProperties]:
    """What a caller's value is for a feature, by Windows ML's list and Python's; and the properties that remain for it.

    Raises:
        WinMLError: as `prepare` does; but nothing is compared with the feature's shape yet.
    """
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
            return pictures, properties._replace(contract=properties.contract or pictures.contract)
        if is_cuda_array(value):
            return as_device_array(value), properties
        if can_export_dlpack(value):
            return identify(as_host_array(value), descriptor, properties)
    # A scalar of numpy is a number, which takes the feature's type and shape as a number of Python does.
    is_number = isinstance(value, np.generic) and _takes_number(descriptor)
    kind = getattr(descriptor, "tensor_kind", TensorKind.STRING)
    takes_objects = kind is TensorKind.STRING or is_untyped(descriptor)  # those of an array of strings
    is_object = isinstance(value, np.ndarray) and value.dtype.kind == "O" and not takes_objects
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
        "specify whether its channels are red, green, blue or blue, green, red.",
        hint=f"Specify the order: {describe_picture(sizes)}. Or bind an array of height x width x channels with "
        '{"BitmapPixelFormat": BitmapPixelFormat.RGB8}.',
    )


def as_picture(value: object) -> ImageFeatureValue | None:
    """The value as pictures, or None where it is not a picture."""
    if isinstance(value, (list, tuple)) and value:
        frames = list[VideoFrame]()
        for element in value:
            frame = _convert_to_frame(element)
            if frame is None:
                return None
            frames.append(frame)
        contracts = {getattr(element, "contract", None) for element in value}
        if len(contracts) > 1:
            hint = "Call session.evaluate_many(pictures), which evaluates them one at a time."
            raise InvalidBindingError("The pictures in a batch have different contracts.", hint=hint)
        return ImageFeatureValue(frames, contract=contracts.pop())
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
    shape: tuple[int, ...] | None = None
    if isinstance(value, (int, float, str, np.generic)):
        if not _takes_number(descriptor):
            return None
        elements, shape = [value], (1,) * len(descriptor.shape)
    elif is_buffer(value):
        return _make_from_buffer(value, descriptor, tensor_class)
    elif not isinstance(value, Sequence) or not value:
        return None
    elif all(map(is_buffer, value)):
        if not all(holds_elements(buffer, tensor_class.dtype) for buffer in value):
            return None
        data = bytearray().join(np.asarray(memoryview(buffer)).tobytes() for buffer in value)
        return tensor_class.create_from_buffer(_infer_shape(descriptor, len(data) // tensor_class.dtype.itemsize), data)
    elif any(isinstance(row, (list, tuple)) for row in value):
        try:
            array = np.array(value, object)  # rows of unequal length become lists, which are no elements
        except (ValueError, TypeError):  # arrays of unequal shapes, or of a library that keeps them on a GPU
            return None
        elements, shape = array.reshape(-1).tolist(), array.shape
    else:
        elements = list(value)
    if not all(is_element(element, descriptor.tensor_kind) for element in elements):
        return None
    shape = _infer_shape(descriptor, len(elements)) if shape is None else shape
    return wrap_array(tensor_class, np.array(elements, tensor_class.dtype).reshape(shape))


def _make_from_buffer(value: Any, descriptor: TensorFeatureDescriptor, tensor_class: type[Tensor]) -> Tensor | None:
    """A tensor of a typed buffer, such as `array.array`, whose memory it shares if it stores the elements alike."""
    array = np.asarray(memoryview(value))
    if isinstance(value, (bytes, bytearray, ByteArray)):  # bytes do not state the type of their elements
        return None
    if array.dtype not in (tensor_class.dtype, tensor_class.view_dtype):
        return None
    # A row takes the feature's shape, as a list does; a memoryview of rows has its own.
    shape = array.shape if array.ndim > 1 else _infer_shape(descriptor, array.size)
    if array.dtype == tensor_class.dtype:
        return tensor_class.create_from_buffer(shape, array)
    return tensor_class.create_from_array(shape, array)


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
            hint=f"Pass {'' if is_fixed else 'a multiple of '}{fixed_count} elements.",
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
            hint="Close what create_reference() returned, or use get_buffer(), which does not need to be closed.",
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
            f"The model variable {descriptor.name} cannot be bound to a tensor in the memory of {array.location}, "
            f"because the session runs {here}.",
            hint=f"Bind {array.host_copy}, a copy in the host's memory.",
        )
