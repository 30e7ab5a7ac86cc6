"""Pictures that are cropped, scaled and tensorized by the device they are bound on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import numpy as np

from ...enums import BitmapPixelFormat, ImageKernel
from ..base.arrays import Array, DeviceArray
from ..imaging.bitmap import SoftwareBitmap
from ..imaging.contract import ImageContract
from ..imaging.formats import INTERLEAVED_FORMATS
from ..imaging.geometry import Placement
from ..runtime.engine import DeviceEngine, DeviceEngineBinding, Engine, EngineOptions
from ..runtime.request import CompileRequest
from .graph import GraphKey, padding, scaling_inputs, tensorize_graph


class DevicePictures:
    """The small models that turn pictures into tensors on a session's device, each compiled when it is first needed.

    Args:
        compile_model: compiles a model for the device.
        lock: held while the device is talked to.
    """

    def __init__(self, compile_model: Callable[[CompileRequest], Engine], lock: AbstractContextManager[object]) -> None:
        self._compile_model, self._lock = compile_model, lock
        self._engines: dict[GraphKey, DeviceEngine] = {}
        self._compiling = threading.Lock()

    def bind(self, key: GraphKey) -> DeviceEngineBinding:
        """A binding of the model for `key`, whose output stays on the device."""
        with self._compiling:
            if key not in self._engines:
                options = EngineOptions(1, graph_capture=False)
                request = CompileRequest(tensorize_graph(key), options, has_only_numbers=True)
                # The session's own engine has memory there that can be bound: so has this one.
                compiled = self._compile_model(request).device
                assert compiled is not None
                self._engines[key] = compiled
            engine = self._engines[key]
        binding = engine.bind(self._lock)
        binding.keep_output("tensor")
        return binding

    def tensorizer(self) -> DeviceTensorizer:
        """The tensorizer of one binding."""
        return DeviceTensorizer(self)

    def close(self) -> None:
        """Frees the models."""
        with self._compiling:
            engines, self._engines = self._engines, {}
        for engine in engines.values():
            engine.close()


class DeviceTensorizer:
    """Puts one binding's pictures into the device's memory. For one thread at a time."""

    def __init__(self, pictures: DevicePictures) -> None:
        self._pictures = pictures
        self._bindings: dict[GraphKey, DeviceEngineBinding] = {}

    def write(
        self,
        bitmaps: Sequence[SoftwareBitmap],
        contract: ImageContract,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        placements: Sequence[Placement],
        before: DeviceArray | None,
    ) -> DeviceArray | None:
        """Tensorizes pictures on the device.

        Args:
            bitmaps: a batch.
            contract: how they become numbers.
            shape: of the tensor.
            dtype: of the tensor: float32 or float16.
            placements: which part of each picture goes where in the tensor.
            before: memory of an earlier call, which is written again.

        Returns:
            The tensor; or None where the CPU must do it: pictures of unequal sizes or formats in one batch, formats
            other than the interleaved ones of 8 bits, and tensors of bytes.
        """
        source, placement = bitmaps[0].bitmap_pixel_format, placements[0]
        are_alike = all(bitmap.bitmap_pixel_format == source for bitmap in bitmaps) and len(set(placements)) == 1
        if not are_alike or source not in INTERLEAVED_FORMATS or dtype.kind != "f":
            return None
        across, down = placement.shrink
        if contract.kernel is ImageKernel.AREA and (across < 1) != (down < 1):
            return None  # OpenCV's kernel for one side depends on the other, and the matrices are made side by side
        arrays = [bitmap.to_numpy() for bitmap in bitmaps]
        pixels = np.ascontiguousarray(arrays[0])[None] if len(arrays) == 1 else np.stack(arrays)
        if pixels.ndim == 3:
            pixels = pixels[..., None]
        return self.write_pixels(pixels, source, contract, shape, dtype, placement, before)

    def write_pixels(
        self,
        pixels: Array | DeviceArray,
        source: BitmapPixelFormat,
        contract: ImageContract,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        placement: Placement,
        before: DeviceArray | None,
    ) -> DeviceArray:
        """Tensorizes pixels, pictures x height x width x channels, of the host or on the device; see `write`."""
        key = GraphKey.of(contract, source, placement, dtype == np.float16)
        binding = self._bindings.get(key)
        if binding is None:
            binding = self._bindings[key] = self._pictures.bind(key)
        binding.set_input("pixels", pixels)
        if key.is_scaled:
            for name, value in scaling_inputs(placement, contract).items():
                binding.set_input(name, value)
        if key.has_padding:
            binding.set_input("padding", padding(placement, contract))
        if before is not None and (before.shape, before.dtype) == (shape, dtype):
            binding.set_output("tensor", before)
            binding.run()
            return before
        binding.keep_output("tensor")
        return cast(DeviceArray, binding.run()["tensor"])  # because it was kept
