"""LearningModelBinding: values bound to a session's features by name."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.cancellation import Stop
from ..base.collections import MapView
from ..base.device_array import DeviceArray, as_device_array, is_cuda_array
from ..base.winrt_object import Object
from ..enums import ImageKernel, Precision, TensorKind
from ..errors import (
    CanceledError,
    DeviceLostError,
    InvalidArgumentError,
    InvalidBindingError,
    MissingInputError,
    NotBoundError,
)
from ..features.bind_properties import BindProperties
from ..features.compatibility import (
    PictureDescriptor,
    check_tensor,
    container_for_engine,
    contract_of,
    picture_contract,
    takes_picture,
)
from ..features.containers import MapValue, SequenceValue
from ..features.descriptors import FeatureDescriptor
from ..features.float16_cast import as_half, is_cast
from ..features.pictures import ImageFeatureValue
from ..features.resolve import FeatureValue, is_pil_image, pixel_format_of, to_feature_value
from ..features.tensor import Tensor
from ..features.tensor_classes import CLASSES_BY_DTYPE, TENSOR_CLASSES, TensorFloat16Bit, TensorString
from ..imaging.batch import BatchTensorizer
from ..imaging.contract import ImageContract
from ..imaging.geometry import BitmapBounds, compute_placement
from .outputs import CastOutput, ImageOutput, OutputSlot, TensorOutput, UnboundOutput, refilled, writable_array

if TYPE_CHECKING:
    from .session import LearningModelSession


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
        self._session = session
        self._lock = threading.Lock()
        model = session.model
        self._inputs = {feature.name: feature for feature in model.input_features}
        self._outputs = {feature.name: feature for feature in model.output_features}
        self._reset()

    def _reset(self) -> None:
        engine = self._session._engine()
        self._native = engine.bind(self._session._lock)
        self._location = engine.location
        self._bound: dict[str, Any] = {}
        self._missing = set(self._inputs)
        self._pictures: dict[str, np.ndarray[Any, Any] | DeviceArray] = {}
        self._tensorizer = BatchTensorizer()
        pictures = self._session._pictures
        self._device_tensorizer = pictures.tensorizer() if pictures is not None else None
        self._slots: dict[str, OutputSlot] = {name: UnboundOutput(feature) for name, feature in self._outputs.items()}

    def bind(self, name: str, value: Any, properties: Mapping[str, Any] | None = None, /) -> None:
        """Binds a value to an input or an output; a name bound before gets the new value.

        Args:
            name: the feature's name; case does not matter unless the model has names that differ in nothing else.
            value: a tensor; a picture (`ImageFeatureValue`, `VideoFrame`, `SoftwareBitmap`, a Pillow image);
                or a numpy array. An array must have the feature's dtype and shape; for an image feature,
                a uint8 array of pixels will do, whose channel order is said by a property.
            properties: `BitmapBounds` (x, y, width, height: the part of the picture to use),
                `BitmapPixelFormat` (the channel order of the model's tensor; of an array bound as a picture,
                its own), `PixelRange` (what the bytes become), `ImageContract` (all of it, in place of what the
                model says); for a tensor bound to an output of a GPU session, `DisableTensorCpuSync` (True: the
                numbers stay in the GPU's memory). Other keys are ignored.

        Raises:
            InvalidBindingError: no such feature, or a value of the wrong kind or type.
            SizeMismatchError: a value of the wrong shape.
            ClosedError: the session has been closed.
        """
        descriptor, is_input = self._find(name)
        read = BindProperties.read(properties)
        with self._lock:
            self._session._require_open()
            if is_input and is_cuda_array(value):
                self._bind_cuda_array(descriptor, as_device_array(value), read)
                self._missing.discard(descriptor.name)
            elif is_input:
                feature, read = to_feature_value(value, descriptor, read)
                try:
                    self._bind_input(descriptor, feature, read)
                except DeviceLostError:  # a picture is tensorized there
                    self._session._is_lost = True
                    raise
                self._missing.discard(descriptor.name)
            else:
                self._bind_output(descriptor, value, read)
            self._bound[descriptor.name] = value

    bind_with_properties = bind  # pywinrt 3's name

    def _find(self, name: str) -> tuple[FeatureDescriptor, bool]:
        """Inputs before outputs, exact spelling before another case."""
        for features, is_input in ((self._inputs, True), (self._outputs, False)):
            if name in features:
                return features[name], is_input
        folded = name.casefold() if isinstance(name, str) else None
        for features, is_input in ((self._inputs, True), (self._outputs, False)):
            for known, descriptor in features.items():
                if known.casefold() == folded:
                    return descriptor, is_input
        raise InvalidBindingError(
            f"The model has no variable with name {name}.",
            hint=f"Its inputs: {', '.join(self._inputs) or 'none'}; its outputs: {', '.join(self._outputs) or 'none'}.",
        )

    def _bind_input(self, descriptor: FeatureDescriptor, value: FeatureValue, properties: BindProperties) -> None:
        if isinstance(value, (MapValue, SequenceValue)):
            self._native.set_input(descriptor.name, container_for_engine(value, descriptor))
            return
        if isinstance(value, ImageFeatureValue):
            contract = picture_contract(value, descriptor, properties)
            assert isinstance(descriptor, PictureDescriptor)
            self._bind_pictures(descriptor, value, contract, properties.bounds)
            return
        if is_cast(value, descriptor):
            value = as_half(value, descriptor)
        check_tensor(value, descriptor)
        if value.is_placeholder:
            raise InvalidBindingError(
                f"The model variable {descriptor.name} is an input, but has no associated resources to bind.",
                hint="Give the tensor data: create_from_array, from_numpy, or write to its to_numpy().",
            )
        if value._device_array is not None:
            self._native.set_input(descriptor.name, self._required_here(value._device_array, descriptor.name))
            self._pictures.pop(descriptor.name, None)
            return
        array = value.to_numpy()
        self._native.set_input(descriptor.name, array.copy() if isinstance(value, TensorString) else array)
        self._pictures.pop(descriptor.name, None)

    def _required_here(self, array: DeviceArray, name: str) -> DeviceArray:
        if array.location != self._location:
            here = f"on {self._location}" if self._location else "on the CPU"
            raise InvalidBindingError(
                f"The model variable {name} cannot be bound to a tensor in the memory of {array.location}: the session "
                f"runs {here}.",
                hint="Bind tensor.to_numpy(), which is a copy in the host's memory.",
            )
        return array

    def _bind_cuda_array(self, descriptor: FeatureDescriptor, array: DeviceArray, properties: BindProperties) -> None:
        """Binds an array that another library has on a CUDA card: a tensor, or the bytes of a picture."""
        self._required_here(array, descriptor.name)
        if array.dtype == np.uint8 and len(array.shape) in (2, 3) and takes_picture(descriptor):
            assert isinstance(descriptor, PictureDescriptor)
            self._bind_cuda_picture(descriptor, array, properties)
            return
        if array.dtype not in CLASSES_BY_DTYPE:
            raise InvalidBindingError(f"There is no tensor of {array.dtype}.", hint="Cast the array on the card.")
        self._bind_input(descriptor, CLASSES_BY_DTYPE[array.dtype]._on_device(array), properties)

    def _bind_cuda_picture(self, descriptor: PictureDescriptor, array: DeviceArray, properties: BindProperties) -> None:
        source = pixel_format_of(array.shape, descriptor, properties)
        contract = contract_of(descriptor, properties._replace(pixel_format=None))
        assert self._device_tensorizer is not None
        size = (array.shape[1], array.shape[0])
        shape = _tensor_shape(descriptor, contract, [size])
        pixels = array.reshaped((1, *array.shape, *(() if len(array.shape) == 3 else (1,))))
        before = self._pictures.get(descriptor.name)
        tensor = self._device_tensorizer.write_pixels(
            pixels,
            source,
            contract,
            shape,
            self._picture_dtype(descriptor),
            properties.bounds,
            before if isinstance(before, DeviceArray) else None,
        )
        self._set_picture(descriptor.name, tensor)

    def _set_picture(self, name: str, tensor: np.ndarray[Any, Any] | DeviceArray) -> None:
        if self._pictures.get(name) is not tensor:
            self._native.set_input(name, tensor)
            self._pictures[name] = tensor

    def _picture_dtype(self, descriptor: PictureDescriptor) -> np.dtype[Any]:
        """The type of the tensor on the device, which computes some float16 models in float32."""
        if descriptor.tensor_kind is TensorKind.FLOAT16 and self._session.precision is Precision.FLOAT32:
            return np.dtype(np.float32)
        return TENSOR_CLASSES[descriptor.tensor_kind].dtype

    def _bind_pictures(
        self,
        descriptor: PictureDescriptor,
        value: ImageFeatureValue,
        contract: ImageContract,
        bounds: BitmapBounds | None,
    ) -> None:
        shape = _tensor_shape(descriptor, contract, value.sizes)
        _, height_axis, width_axis = contract.axes()
        height, width = shape[height_axis], shape[width_axis]
        placements = [compute_placement(*size, width, height, contract.crop_mode, bounds) for size in value.sizes]
        part, target = placements[0]
        shrink = 1 if bounds else min(part.width / target.width, part.height / target.height)
        bitmaps, is_reduced = value._bitmaps(shrink)
        if is_reduced and contract.kernel in (ImageKernel.ANTIALIASED_CUBIC, ImageKernel.ANTIALIASED_LINEAR):
            contract = replace(contract, kernel=ImageKernel.AREA)
        for bitmap in bitmaps:  # before the first is written over what was bound
            bitmap.to_numpy()
        name = descriptor.name
        tensor = self._pictures.get(name)
        if self._device_tensorizer is not None:
            before = tensor if isinstance(tensor, DeviceArray) else None
            dtype = self._picture_dtype(descriptor)
            on_device = self._device_tensorizer.write(bitmaps, contract, shape, dtype, bounds, before)
            if on_device is not None:
                self._set_picture(name, on_device)
                return
        if not isinstance(tensor, np.ndarray) or tensor.shape != shape:
            tensor = TENSOR_CLASSES[descriptor.tensor_kind]._zeros(shape)
        self._tensorizer.write(bitmaps, contract, tensor, bounds)
        self._set_picture(name, tensor)

    def _bind_output(self, descriptor: FeatureDescriptor, bound: Any, properties: BindProperties) -> None:
        name = descriptor.name
        slot = refilled(bound, descriptor)
        if slot is not None:
            self._native.set_output(name, None)
            self._slots[name] = slot
            return
        if is_cuda_array(bound):
            self._bind_cuda_output(descriptor, bound)
            return
        value, properties = to_feature_value(bound, descriptor, properties)
        if isinstance(value, Tensor) and self._location is not None and self._stays(bound, properties):
            self._bind_device_output(descriptor, bound, value)
            return
        if isinstance(value, Tensor) and is_cast(value, descriptor):
            check_tensor(TensorFloat16Bit.create(value.shape or None), descriptor)
            array = writable_array(bound, value)
            self._native.set_output(name, None)
            self._slots[name] = CastOutput(bound, value, array)
            return
        if isinstance(value, Tensor):
            check_tensor(value, descriptor)
            self._native.set_output(name, writable_array(bound, value))
            self._slots[name] = TensorOutput(bound, value)
            return
        if isinstance(value, (MapValue, SequenceValue)):
            container_for_engine(value, descriptor)
            raise InvalidBindingError(
                f"The model variable {name} is an output, and {type(bound).__name__} cannot be written in place.",
                hint="Bind a dict or a list, or leave it unbound.",
            )
        if is_pil_image(bound):
            raise InvalidBindingError(
                f"The model variable {name} is an output, and a Pillow image cannot be written in place.",
                hint="Leave it unbound and call to_pil() on the result, or bind a VideoFrame.",
            )
        contract = picture_contract(value, descriptor, properties)
        bitmaps = [frame.software_bitmap for frame in value.video_frames]
        if any(bitmap.is_read_only for bitmap in bitmaps):
            raise InvalidBindingError(
                f"The model variable {name} is an output, and the picture bound to it is read-only.",
                hint="Bind a VideoFrame of its own, or a copy of the array.",
            )
        self._native.set_output(name, None)
        self._slots[name] = ImageOutput(bound, bitmaps, contract, descriptor)

    def _stays(self, bound: Any, properties: BindProperties) -> bool:
        """Whether the numbers of an output stay on the device: only a tensor can hold them there."""
        return isinstance(bound, Tensor) and (properties.stays_on_device or bound.is_on_device)

    def _bind_device_output(self, descriptor: FeatureDescriptor, bound: Any, value: Tensor) -> None:
        """A tensor whose numbers stay on the device: in the memory it has there, or in what the engine gives it."""
        check_tensor(value, descriptor)
        if value._device_array is not None:
            self._native.set_output(descriptor.name, self._required_here(value._device_array, descriptor.name))
        else:
            self._native.keep_output(descriptor.name)
        self._slots[descriptor.name] = TensorOutput(bound, value)

    def _bind_cuda_output(self, descriptor: FeatureDescriptor, bound: Any) -> None:
        """An array that another library has on a CUDA card, which is written there."""
        array = self._required_here(as_device_array(bound), descriptor.name)
        if array.dtype not in CLASSES_BY_DTYPE:
            raise InvalidBindingError(f"There is no tensor of {array.dtype}.", hint="Bind one of the output's type.")
        value = CLASSES_BY_DTYPE[array.dtype]._on_device(array)
        check_tensor(value, descriptor)
        self._native.set_output(descriptor.name, array)
        self._slots[descriptor.name] = TensorOutput(bound, value)

    def clear(self) -> None:
        """Unbinds everything, and lets go of the memory that pictures were turned into."""
        with self._lock:
            self._reset()

    def _evaluate(self, stop: Stop | None = None) -> dict[str, Any]:
        with self._lock:
            if self._missing:
                raise self._missing_inputs()
            try:
                fresh = self._native.run(stop)
            except CanceledError:
                for slot in self._slots.values():
                    slot.invalidate()
                raise
            return {name: slot.receive(fresh.get(name)) for name, slot in self._slots.items()}

    def _missing_inputs(self) -> MissingInputError:
        missing = [name for name in self._inputs if name in self._missing]
        expected = ", ".join(f"{name} ({self._inputs[name].expects()})" for name in missing)
        return MissingInputError(f"Missing Input: {expected}.", hint="Bind every input before evaluate().")

    def __getitem__(self, name: str) -> Any:
        try:
            return self._bound[name]
        except KeyError:
            bound = ", ".join(self._bound) or "nothing"
            raise NotBoundError(f"Nothing is bound to {name!r}.", hint=f"Bound so far: {bound}.") from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._bound

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._bound))

    def __len__(self) -> int:
        return len(self._bound)

    def __repr__(self) -> str:
        return f"<LearningModelBinding {self._bound!r}>"


def _tensor_shape(
    descriptor: PictureDescriptor, contract: ImageContract, sizes: Sequence[tuple[int, int]]
) -> tuple[int, ...]:
    """The shape of the tensor for pictures of these widths and heights."""
    channels_axis, height_axis, width_axis = contract.axes()
    shape = [len(sizes)] * 4
    shape[channels_axis] = contract.channels
    shape[height_axis] = _model_size(descriptor, height_axis, [height for _, height in sizes])
    shape[width_axis] = _model_size(descriptor, width_axis, [width for width, _ in sizes])
    return tuple(shape)


def _model_size(descriptor: PictureDescriptor, axis: int, sizes: list[int]) -> int:
    """The model's height or width; where it is free, that of the pictures, which must then agree."""
    fixed = descriptor.shape[axis]
    if fixed >= 0:
        return fixed
    if len(set(sizes)) > 1:
        side = "height" if axis == 2 else "width"
        raise InvalidArgumentError(
            f"The model variable {descriptor.name} takes any {side}, but pictures of one batch must agree on it; "
            f"these have {', '.join(map(str, sizes))}.",
            hint="Scale or crop them to one size first.",
        )
    return sizes[0]
