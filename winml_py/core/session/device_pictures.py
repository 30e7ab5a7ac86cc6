"""Pictures that the session's device crops, scales and tensorizes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...enums import BitmapPixelFormat, ImageGray, ImageKernel, TensorKind
from ..base.arrays import Array, DeviceArray, ScalarType
from ..features.pictures import PreprocessPlan
from ..imaging.bitmap import SoftwareBitmap
from ..imaging.contract import ImageContract, Placement
from ..imaging.contract_nodes import write_tensor
from ..imaging.pixels import INTERLEAVED_FORMATS, KERNELS, crop, find_layout, resize, scales_height_first
from ..onnx_file.expressions import Expression, GraphWriter, onnx_type
from ..runtime.engine import Engine, EngineOptions
from ..runtime.request import CompileRequest
from ..runtime.runs import Bound, StaysOnDevice

if TYPE_CHECKING:
    import onnx


class PictureModels:
    """The small models that turn pictures into tensors on a session's device, each compiled when it is first needed.

    Args:
        compile_model: compiles a model for the device.
        lock: held while the device is used.
        has_float32: whether the device computes float16 models in float32, so that their tensors are float32.
    """

    def __init__(
        self, compile_model: Callable[[CompileRequest], Engine], lock: AbstractContextManager[object], has_float32: bool
    ) -> None:
        self.lock = lock
        self.has_float32 = has_float32
        self._compile_model = compile_model
        self._engines: dict[GraphKey, Engine] = {}
        self._compiling = threading.Lock()

    def run(self, key: GraphKey, bound: Bound) -> Mapping[str, Any]:
        """Runs the model for `key`."""
        with self._compiling:
            if key not in self._engines:
                self._engines[key] = self._compile_model(CompileRequest(make_picture_model(key), EngineOptions(1)))
            engine = self._engines[key]
        return engine.run(bound)

    def make_tensorizer(self) -> DeviceTensorizer:
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

    def __init__(self, models: PictureModels) -> None:
        self._models = models
        self._bound: dict[GraphKey, Bound] = {}

    def write(
        self, plan: PreprocessPlan, bitmaps: Sequence[SoftwareBitmap], placements: Sequence[Placement], previous: object
    ) -> DeviceArray | None:
        """Tensorizes pictures on the device.

        Args:
            plan: how they become the tensor.
            bitmaps: a batch.
            placements: which part of each goes where in the tensor.
            previous: the tensor of an earlier call; its memory is reused if it fits.

        Returns:
            The tensor; or None if the CPU must do it: for pictures of unequal sizes or formats in one batch, formats
            other than the interleaved ones of 8 bits, and tensors of bytes.
        """
        source = bitmaps[0].bitmap_pixel_format
        placement = placements[0]
        are_alike = all(bitmap.bitmap_pixel_format == source for bitmap in bitmaps) and len(set(placements)) == 1
        if not are_alike or source not in INTERLEAVED_FORMATS or plan.descriptor.tensor_kind is TensorKind.UINT8:
            return None
        across, down = placement.shrink
        if plan.contract.kernel is ImageKernel.AREA and (across < 1) != (down < 1):
            return None  # OpenCV's kernel for one side depends on the other, but the matrices are made separately
        if plan.contract.gray is ImageGray.EXACT_LUMA:
            return None  # it needs float64, which WebGPU lacks
        arrays = [bitmap.to_numpy() for bitmap in bitmaps]
        pixels = np.ascontiguousarray(arrays[0])[None] if len(arrays) == 1 else np.stack(arrays)
        if pixels.ndim == 3:
            pixels = pixels[..., None]
        return self._run(pixels, source, plan, placement, previous)

    def write_pixels(
        self, array: DeviceArray, pixel_format: BitmapPixelFormat, plan: PreprocessPlan, previous: object
    ) -> DeviceArray:
        """Tensorizes a picture whose pixels are on the device; see `write`."""
        array.wait()
        shape = (*array.shape, 1) if len(array.shape) == 2 else array.shape  # gray
        return self._run(array.reshape((1, *shape)), pixel_format, plan, plan.placements[0], previous)

    def _run(
        self,
        pixels: Array | DeviceArray,
        source: BitmapPixelFormat,
        plan: PreprocessPlan,
        placement: Placement,
        previous: object,
    ) -> DeviceArray:
        """Tensorizes pixels, pictures x height x width x channels, which are on the host or the device."""
        contract = plan.contract
        is_half = plan.descriptor.tensor_kind is TensorKind.FLOAT16 and not self._models.has_float32
        (height, width), part = placement.scaled, placement.part
        is_antialiased = KERNELS[contract.kernel].is_antialiased
        is_height_first = is_antialiased and scales_height_first(part.width, part.height, width, height)
        key = GraphKey(contract, source, not placement.is_identity, placement.has_padding, is_half, is_height_first)
        bound = self._bound.setdefault(key, Bound(lock=self._models.lock))
        bound.set_input("pixels", pixels)
        if key.is_scaled:
            for name, value in compute_scaling_inputs(placement, contract).items():
                bound.set_input(name, value)
        if key.has_padding:
            bound.set_input("padding", make_padding(placement))
        dtype = np.dtype(np.float16 if is_half else np.float32)
        if isinstance(previous, DeviceArray) and previous.shape == plan.shape and previous.dtype == dtype:
            bound.set_output("tensor", previous)
        else:
            bound.set_output("tensor", StaysOnDevice())
        outputs = self._models.run(key, bound)
        tensor: DeviceArray = outputs.get("tensor", previous)  # missing if it was written into the previous tensor
        return tensor


# A contract as an ONNX graph, so that a GPU crops, scales and tensorizes pictures itself.
#
# Scaling is linear in the pixels: a matrix from the left scales the columns of a picture, one from the right its rows.
# Both are made by scaling an identity matrix with the library that scales on the CPU (Pillow or OpenCV): the GPU gets
# the same weights without a copy of the code that computes them. Rounding is as on the CPU, too.


# Operator set and format of ONNX 1.12, which belong together: all supported ONNX Runtimes and plugins know both.
OPSET = 17
IR_VERSION = 8


class GraphKey(NamedTuple):
    """What the graph depends on; not on sizes, because the matrices are inputs.

    Attributes:
        contract: how pictures become numbers.
        source: the pictures' format, with eight bits per channel.
        is_scaled: whether anything is cropped, scaled or padded.
        has_padding: whether there is room around the picture in the tensor.
        is_half: whether the tensor is float16.
        is_height_first: whether the height is scaled before the width; see `scales_height_first`.
    """

    contract: ImageContract
    source: BitmapPixelFormat
    is_scaled: bool
    has_padding: bool
    is_half: bool
    is_height_first: bool


def make_picture_model(key: GraphKey) -> bytes:
    """A model from pixels to the tensor.

    Inputs:
        pixels: uint8, pictures x height x width x channels.
        across, down: if pictures are scaled; see `compute_scaling_inputs`.
        padding: if the picture does not fill the tensor; see `make_padding`.

    The output `tensor` is in the contract's layout, float32 or float16.
    """
    graph = _PictureGraph()
    pixels = graph.add_input("pixels", np.uint8, "n", "height", "width", find_layout(key.source).channels)
    scale, pad = partial(_scale, graph, key), partial(_pad, graph) if key.has_padding else None
    numbers = write_tensor(pixels, key.contract, key.source, scale, pad, batch_axes=1)
    dtype: ScalarType = np.float16 if key.is_half else np.float32
    return graph.make_model(graph.node("Cast", numbers, dtype=dtype, to=onnx_type(dtype), output="tensor"))


def compute_scaling_inputs(placement: Placement, contract: ImageContract) -> dict[str, Array]:
    """The matrices that put a picture in its place in the tensor.

    These are `across`, width x tensor width, and `down`, tensor height x height, float32.
    """
    part, scaled, cut, target, picture, tensor = placement
    kernel = contract.kernel
    across = _compute_matrix(kernel, picture[1], part.x, part.width, scaled[1], cut.x, cut.width, tensor[1], target.x)
    down = _compute_matrix(kernel, picture[0], part.y, part.height, scaled[0], cut.y, cut.height, tensor[0], target.y)
    return {"across": across, "down": np.ascontiguousarray(down.T)}


def make_padding(placement: Placement) -> Array:
    """Tensor height x width: 1 around the picture, and 0 inside it."""
    padding = np.ones(placement.tensor, np.float32)
    crop(padding, placement.target)[:] = 0
    return padding


@lru_cache(maxsize=64)
def _compute_matrix(
    kernel: ImageKernel,
    picture: int,
    part_start: int,
    part_size: int,
    scaled: int,
    cut_start: int,
    cut_size: int,
    tensor: int,
    target_start: int,
) -> Array:
    """Picture x tensor: the weight of each pixel of a row, or a column, in each number of the tensor's.

    A part of `picture` pixels is scaled to `scaled` numbers, and a cut of these goes to a place among the `tensor`
    numbers.
    """
    weights = resize(np.eye(part_size, dtype=np.float32), scaled, part_size, kernel)
    matrix = np.zeros((picture, tensor), np.float32)
    matrix[part_start : part_start + part_size, target_start : target_start + cut_size] = weights[
        :, cut_start : cut_start + cut_size
    ]
    matrix.flags.writeable = False  # the cache gives the same array to every caller
    return matrix


def _scale(graph: _PictureGraph, key: GraphKey, pixels: Expression) -> Expression:
    planes = pixels.cast(np.float32).transpose(0, 3, 1, 2)
    if not key.is_scaled:
        return planes
    if find_layout(key.source).channels == 4 and key.contract.gray is ImageGray.WINDOWS:  # no tensor has an alpha
        planes = planes.take(graph.constant((0, 1, 2), np.int64), 1)
    across = graph.add_input("across", np.float32, "columns_used", "tensor_width")
    down = graph.add_input("down", np.float32, "tensor_height", "rows_used")
    rounds_twice = KERNELS[key.contract.kernel].is_antialiased  # these kernels round after each side
    for is_height in (key.is_height_first, not key.is_height_first):
        factors = (down, planes) if is_height else (planes, across)
        planes = graph.node("MatMul", *factors, dtype=np.float32)
        if rounds_twice:
            planes = planes.to_levels()
    return planes if rounds_twice else planes.to_levels()


def _pad(graph: _PictureGraph, planes: Expression, colour: Expression) -> Expression:
    return planes + graph.add_input("padding", np.float32, "tensor_height", "tensor_width") * colour


class _PictureGraph(GraphWriter):
    """Expressions as a separate model, with inputs."""

    def __init__(self) -> None:
        super().__init__("")
        self._inputs: list[onnx.ValueInfoProto] = []

    def add_input(self, name: str, dtype: ScalarType, *shape: str | int) -> Expression:
        from onnx import helper

        self._inputs.append(helper.make_tensor_value_info(name, onnx_type(dtype), shape))
        return Expression(self, name, dtype)

    def make_model(self, output: Expression) -> bytes:
        from onnx import helper

        outputs = [helper.make_tensor_value_info(output.name, output.onnx_type, ["n", None, None, None])]
        graph = helper.make_graph(self.nodes, "pictures", self._inputs, outputs)
        model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)])
        return bytes(model.SerializeToString())
