"""A contract as an ONNX graph, so that a GPU crops, scales and tensorizes pictures itself.

Scaling is linear in the pixels: a matrix from the left scales the columns of a picture, one from the right its rows.
Both are found by scaling an identity matrix with the library that scales on the CPU, so that its weights are used.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..enums import BitmapPixelFormat, ImageCropMode, ImageKernel, TensorLayout
from .contract import ImageContract
from .formats import layout_of
from .geometry import Placement, exact_factor
from .tensorize import gray_table

if TYPE_CHECKING:
    import onnx

Array = np.ndarray[Any, Any]

OPSET = 17
IR_VERSION = 8
GRAY_WEIGHTS = (0.2126, 0.7152, 0.0722)
"""ITU-R BT.709's, as Windows ML has them (`CpuTensorizer.h`)."""


class GraphKey(NamedTuple):
    """What the graph depends on: sizes do not count among it.

    Attributes:
        contract: how pictures become numbers.
        source: the pictures' format, one of eight bits a channel.
        is_scaled: whether anything is cropped, scaled or padded.
        half: whether the tensor is float16.
    """

    contract: ImageContract
    source: BitmapPixelFormat
    is_scaled: bool
    half: bool


def tensorize_graph(key: GraphKey) -> bytes:
    """A model from pixels to the tensor.

    Its inputs: `pixels`, uint8, pictures x height x width x channels; and where something is scaled `across`, width x
    target width, `down`, target height x height, and for a letterbox `ground`, 3 x target height x target width, all
    float32. Its output is `tensor`, in the contract's layout, float32 or float16.
    """
    graph = _Graph()
    contract, layout = key.contract, layout_of(key.source)
    is_gray = contract.pixel_format is BitmapPixelFormat.GRAY8
    value = graph.node("Transpose", graph.node("Cast", "pixels", to=1), perm=[0, 3, 1, 2])
    has_colour = not layout.is_gray or (contract.crop_mode is ImageCropMode.LETTERBOX and len(set(contract.pad)) > 1)
    if has_colour:
        order = layout.rgb if is_gray or contract.pixel_format is BitmapPixelFormat.RGB8 else layout.rgb[::-1]
        value = graph.node("Gather", value, graph.constant(np.array(order, np.int64)), axis=1)
    if key.is_scaled:
        value = _scaled(graph, value, contract)
    if is_gray:
        value = _gray(graph, value, has_colour)
    factors, summands = (
        np.array(column, np.float32).reshape(-1, 1, 1) for column in zip(*contract.affine(), strict=True)
    )
    value = graph.node("Add", graph.node("Mul", value, graph.constant(factors)), graph.constant(summands))
    if contract.layout is TensorLayout.NHWC:
        value = graph.node("Transpose", value, perm=[0, 2, 3, 1])
    graph.node("Cast", value, to=10 if key.half else 1, output="tensor")
    return graph.model(key)


def matrices(
    placement: Placement, picture: tuple[int, int], tensor: tuple[int, int], kernel: ImageKernel
) -> tuple[Array, Array]:
    """The matrices `across` and `down` for a picture and a tensor of these heights and widths."""
    part, target = placement
    across = _matrix(picture[1], part.x, part.width, tensor[1], target.x, target.width, kernel)
    down = _matrix(picture[0], part.y, part.height, tensor[0], target.y, target.height, kernel)
    return across, np.ascontiguousarray(down.T)


def ground(placement: Placement, tensor: tuple[int, int], contract: ImageContract) -> Array:
    """The letterbox's colour around the picture, and 0 where that is: 3 x height x width, or 1 for a gray one."""
    levels = contract.pad[::-1] if contract.pixel_format is BitmapPixelFormat.BGR8 else contract.pad
    planes = np.repeat(np.array(levels, np.float32), tensor[0] * tensor[1]).reshape(3, *tensor)
    target = placement.target
    planes[:, target.y : target.y + target.height, target.x : target.x + target.width] = 0
    return planes if len(set(contract.pad)) > 1 else planes[:1]


@lru_cache(maxsize=64)
def _matrix(length: int, start: int, part: int, total: int, at: int, target: int, kernel: ImageKernel) -> Array:
    """Length x total: what each pixel of a row gives to each number of the scaled row."""
    identity = np.eye(part, dtype=np.float32)
    if part != target:
        identity = _resized(identity, target, kernel)
    matrix = np.zeros((length, total), np.float32)
    matrix[start : start + part, at : at + target] = identity
    matrix.flags.writeable = False
    return matrix


def _resized(rows: Array, width: int, kernel: ImageKernel) -> Array:
    antialiased = {ImageKernel.ANTIALIASED_CUBIC: 3, ImageKernel.ANTIALIASED_LINEAR: 2}  # Pillow's BICUBIC, BILINEAR
    if kernel in antialiased:
        from PIL import Image

        part = rows.shape[1]
        factor = exact_factor(part / width)
        if factor > 1:  # means of whole blocks first, as on the CPU
            rows = np.pad(rows, ((0, 0), (0, -part % factor)), mode="edge").reshape(len(rows), -1, factor).mean(axis=2)
        box = (0, 0, part / factor, len(rows))
        image = Image.fromarray(np.ascontiguousarray(rows, np.float32))
        return np.asarray(image.resize((width, len(rows)), Image.Resampling(antialiased[kernel]), box))
    import cv2

    interpolation = {
        ImageKernel.NEAREST: cv2.INTER_NEAREST_EXACT,
        ImageKernel.LINEAR: cv2.INTER_LINEAR,
        ImageKernel.CUBIC: cv2.INTER_CUBIC,
        ImageKernel.AREA: cv2.INTER_AREA,
    }[kernel]
    resized: Array = cv2.resize(rows, (width, len(rows)), interpolation=interpolation)
    return resized


def _scaled(graph: _Graph, value: str, contract: ImageContract) -> str:
    """Pillow rounds to bytes after the rows and again after the columns, OpenCV once at the end."""
    value = graph.node("MatMul", value, "across")
    if contract.kernel in (ImageKernel.ANTIALIASED_CUBIC, ImageKernel.ANTIALIASED_LINEAR):
        value = _rounded(graph, value)
    value = _rounded(graph, graph.node("MatMul", "down", value))
    if contract.crop_mode is ImageCropMode.LETTERBOX:
        value = graph.node("Add", value, "ground")
    return value


def _rounded(graph: _Graph, value: str) -> str:
    """To whole levels of 0 to 255, halves up, as both libraries do."""
    value = graph.node("Floor", graph.node("Add", value, graph.constant(np.float32(0.5))))
    return graph.node("Clip", value, graph.constant(np.float32(0)), graph.constant(np.float32(255)))


def _gray(graph: _Graph, value: str, has_colour: bool) -> str:
    if not has_colour:
        levels = graph.node("Cast", value, to=6)
        return graph.node("Gather", graph.constant(gray_table().astype(np.float32)), levels, axis=0)
    total = ""
    for channel, weight in enumerate(GRAY_WEIGHTS):
        plane = graph.node("Gather", value, graph.constant(np.array([channel], np.int64)), axis=1)
        term = graph.node("Mul", plane, graph.constant(np.float32(weight)))
        total = graph.node("Add", total, term) if total else term
    return graph.node("Floor", total)


class _Graph:
    """Nodes that are written one after the other, each named by its number."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = output or f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def model(self, key: GraphKey) -> bytes:
        from onnx import helper

        channels = layout_of(key.source).channels
        inputs = [helper.make_tensor_value_info("pixels", 2, ["n", "height", "width", channels])]
        if key.is_scaled:
            inputs.append(helper.make_tensor_value_info("across", 1, ["width", "target_width"]))
            inputs.append(helper.make_tensor_value_info("down", 1, ["target_height", "height"]))
            if key.contract.crop_mode is ImageCropMode.LETTERBOX:
                inputs.append(helper.make_tensor_value_info("ground", 1, ["planes", "target_height", "target_width"]))
        outputs = [helper.make_tensor_value_info("tensor", 10 if key.half else 1, ["n", None, None, None])]
        graph = helper.make_graph(self._nodes, "pictures", inputs, outputs, self._constants)
        model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)])
        data: bytes = model.SerializeToString()
        return data
