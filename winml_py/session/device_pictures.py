"""Pictures that are cropped, scaled and tensorized by the device they are bound on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..base.device_array import DeviceArray
from ..enums import BitmapPixelFormat, ImageCropMode, ImageKernel
from ..imaging.bitmap import SoftwareBitmap
from ..imaging.contract import ImageContract
from ..imaging.formats import INTERLEAVED_FORMATS
from ..imaging.geometry import BitmapBounds, compute_placement
from ..imaging.graph import GraphKey, ground, matrices, tensorize_graph
from ..runtime.engine import Engine, EngineBinding, EngineOptions
from ..runtime.request import CompileRequest


class DevicePictures:
    """The small models that turn pictures into tensors on a session's device, each compiled when it is first needed."""

    def __init__(self, compile_model: Callable[[CompileRequest], Engine], lock: AbstractContextManager[object]) -> None:
        self._compile, self._lock = compile_model, lock
        self._engines: dict[GraphKey, Engine] = {}
        self._compiling = threading.Lock()

    def bind(self, key: GraphKey) -> EngineBinding:
        """A binding of the model for `key`, whose output stays on the device."""
        with self._compiling:
            if key not in self._engines:
                request = CompileRequest(
                    tensorize_graph(key), EngineOptions(1, graph_capture=False), has_only_numbers=True
                )
                self._engines[key] = self._compile(request)
            engine = self._engines[key]
        binding = engine.bind(self._lock)
        binding.keep_output("tensor")
        return binding

    def tensorizer(self) -> DeviceTensorizer:
        """What a binding puts pictures into the device's memory with."""
        return DeviceTensorizer(self)

    def close(self) -> None:
        """Frees the models."""
        with self._compiling:
            engines, self._engines = self._engines, {}
        for engine in engines.values():
            engine.close()


class DeviceTensorizer:
    """One binding's way to put pictures into the device's memory. For one thread at a time."""

    def __init__(self, pictures: DevicePictures) -> None:
        self._pictures = pictures
        self._bindings: dict[GraphKey, EngineBinding] = {}

    def write(
        self,
        bitmaps: Sequence[SoftwareBitmap],
        contract: ImageContract,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        bounds: BitmapBounds | None,
        before: DeviceArray | None,
    ) -> DeviceArray | None:
        """Tensorizes pictures on the device.

        Args:
            bitmaps: a batch.
            contract: how they are to lie in the tensor.
            shape: of the tensor.
            dtype: of the tensor: float32 or float16.
            bounds: the part of each picture to use.
            before: memory of an earlier call, which is written again.

        Returns:
            The tensor; or None where the device has no way: pictures of unequal sizes or formats in one batch, formats
            other than those of eight bits side by side, and tensors of bytes.
        """
        formats = {bitmap.bitmap_pixel_format for bitmap in bitmaps}
        sizes = {(bitmap.pixel_height, bitmap.pixel_width) for bitmap in bitmaps}
        if len(formats) > 1 or len(sizes) > 1 or not formats <= set(INTERLEAVED_FORMATS) or dtype.kind != "f":
            return None
        _, height_axis, width_axis = contract.axes()
        model_size = (shape[width_axis], shape[height_axis])
        size = (bitmaps[0].pixel_width, bitmaps[0].pixel_height)
        part, target = compute_placement(*size, *model_size, contract.crop_mode, bounds)
        grows = (part.width < target.width, part.height < target.height)
        if contract.kernel is ImageKernel.AREA and grows[0] != grows[1]:
            return None  # OpenCV's kernel for one side depends on the other
        arrays = [bitmap.to_numpy() for bitmap in bitmaps]
        pixels = np.ascontiguousarray(arrays[0])[None] if len(arrays) == 1 else np.stack(arrays)
        if pixels.ndim == 3:
            pixels = pixels[..., None]
        return self.write_pixels(pixels, formats.pop(), contract, shape, dtype, bounds, before)

    def write_pixels(
        self,
        pixels: np.ndarray[Any, Any] | DeviceArray,
        source: BitmapPixelFormat,
        contract: ImageContract,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        bounds: BitmapBounds | None,
        before: DeviceArray | None,
    ) -> DeviceArray:
        """Tensorizes pixels, pictures x height x width x channels, of the host or on the device; see `write`."""
        _, height_axis, width_axis = contract.axes()
        tensor_size = (shape[height_axis], shape[width_axis])
        picture_size = (pixels.shape[1], pixels.shape[2])
        placement = compute_placement(*picture_size[::-1], *tensor_size[::-1], contract.crop_mode, bounds)
        whole = BitmapBounds(0, 0, *picture_size[::-1])
        is_scaled = picture_size != tensor_size or placement.part != whole or placement.target != whole
        key = GraphKey(contract, source, is_scaled, dtype == np.float16)
        binding = self._bindings.get(key)
        if binding is None:
            binding = self._bindings[key] = self._pictures.bind(key)
        binding.set_input("pixels", pixels)
        if is_scaled:
            across, down = matrices(placement, picture_size, tensor_size, contract.kernel)
            binding.set_input("across", across)
            binding.set_input("down", down)
            if contract.crop_mode is ImageCropMode.LETTERBOX:
                binding.set_input("ground", ground(placement, tensor_size, contract))
        if before is not None and (before.shape, before.dtype) == (shape, dtype):
            binding.set_output("tensor", before)
            binding.run()
            return before
        binding.keep_output("tensor")
        tensor = binding.run()["tensor"]
        assert isinstance(tensor, DeviceArray)
        return tensor
