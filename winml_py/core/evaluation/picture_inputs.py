"""Pictures that are bound to inputs: where they are tensorized, and the memory that holds the tensors."""

from __future__ import annotations

import numpy as np

from ...enums import Precision, TensorKind
from ..base.arrays import Array, DeviceArray, DType
from ..features.descriptors import FeatureDescriptor, ShapedDescriptor
from ..features.pictures import ImageFeatureValue, PictureFit, bitmaps_of
from ..features.resolve import DevicePixels, Pictures
from ..features.tensor import zeros
from ..features.tensor_classes import TENSOR_CLASSES
from ..imaging.picture_placement import PicturePlacement
from ..imaging.tensorize import BatchTensorizer
from ..model.contracts import MissingContracts
from .compiled import Compiled

PictureTensor = Array | DeviceArray


class PictureInputs:
    """The tensors of the pictures that are bound to one binding's inputs.

    The memory is kept from bind to bind: a picture of the same size is written over the one before it.

    Attributes:
        tensors: the tensor of each input that a picture is bound to, by name.
        placements: where the pictures lie in it.
        own_sizes: width and height of pictures that keep their size, because nothing states one.
        tensorizer: writes pictures into the host's memory.
        device_tensorizer: writes them into the device's memory; None for engines on the host.
    """

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self.tensors: dict[str, PictureTensor] = {}
        self.placements: dict[str, tuple[PicturePlacement, ...]] = {}
        self.own_sizes: dict[str, tuple[int, int]] = {}
        self.tensorizer = BatchTensorizer()
        self.device_tensorizer = compiled.pictures.tensorizer() if compiled.pictures is not None else None

    def forget(self, name: str) -> None:
        """A tensor has been bound to the input."""
        for values_by_name in (self.tensors, self.placements, self.own_sizes):
            values_by_name.pop(name, None)

    def write(self, pictures: Pictures) -> PictureTensor:
        """The pictures as a tensor: on the device where it can, else by the CPU."""
        value, fit = pictures
        contract, descriptor, placements = fit.contract, fit.descriptor, fit.placements
        self._note(descriptor.name, fit.picture_placements, fit.keeps_own_size)
        bitmaps = bitmaps_of(value, fit.shrink)
        size = bitmaps[0].pixel_width, bitmaps[0].pixel_height
        if size != fit.sizes[0]:  # a JPEG, which was decoded smaller
            placements = [placements[0].reduced_to(*size)]
        for bitmap in bitmaps:  # a closed one raises here, before the first is written over what was bound
            bitmap.to_numpy()
        before = self.tensors.get(descriptor.name)
        if self.device_tensorizer is not None:
            memory = before if isinstance(before, DeviceArray) else None
            dtype = self._device_dtype(descriptor)
            written = self.device_tensorizer.write(bitmaps, contract, fit.shape, dtype, placements, memory)
            if written is not None:
                return written
        if not isinstance(before, np.ndarray) or before.shape != fit.shape:
            before = zeros(TENSOR_CLASSES[descriptor.tensor_kind], fit.shape)
        self.tensorizer.write(bitmaps, contract, before, placements)
        return before

    def write_pixels(self, pixels: DevicePixels) -> DeviceArray:
        """The bytes of a picture on the device as a tensor there."""
        array, before = pixels.array, self.tensors.get(pixels.descriptor.name)
        array.wait()
        self._note(pixels.descriptor.name, (PicturePlacement(pixels.placement),), False)
        assert self.device_tensorizer is not None  # where there is none, pixels of a device have been refused
        return self.device_tensorizer.write_pixels(
            array.reshape((1, *array.shape, *(() if len(array.shape) == 3 else (1,)))),
            pixels.pixel_format,
            pixels.contract,
            pixels.shape,
            self._device_dtype(pixels.descriptor),
            pixels.placement,
            before if isinstance(before, DeviceArray) else None,
        )

    def _note(self, name: str, placements: tuple[PicturePlacement, ...], keeps_own_size: bool) -> None:
        self.placements[name] = placements
        self.own_sizes.pop(name, None)
        if keeps_own_size:
            self.own_sizes[name] = (placements[0].picture_width, placements[0].picture_height)

    def _device_dtype(self, descriptor: ShapedDescriptor) -> DType:
        """The type of the tensor on the device, which computes some float16 models in float32."""
        precision = self._compiled.engine.explanation.precision
        if descriptor.tensor_kind is TensorKind.FLOAT16 and precision is Precision.FLOAT32:
            return np.dtype(np.float32)
        return TENSOR_CLASSES[descriptor.tensor_kind].dtype


def tensor_of(value: ImageFeatureValue, feature: FeatureDescriptor) -> Array:
    """The tensor that pictures become where they are bound to a feature, for what compares results without a binding.

    Warns, as a bind does, where nothing states a contract.
    """
    fit = PictureFit(value, feature)
    MissingContracts(is_silent=False).tell(Pictures(value, fit))
    tensor = zeros(TENSOR_CLASSES[fit.descriptor.tensor_kind], fit.shape)
    BatchTensorizer().write(bitmaps_of(value, 1), fit.contract, tensor, fit.placements)
    return tensor
