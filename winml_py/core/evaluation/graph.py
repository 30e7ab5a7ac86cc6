"""A contract as an ONNX graph, so that a GPU crops, scales and tensorizes pictures itself.

Scaling is linear in the pixels: a matrix from the left scales the columns of a picture, one from the right its rows.
Both are made by scaling an identity matrix with the library that scales on the CPU (Pillow or OpenCV): the GPU gets the
same weights, and we need not copy the code that computes them. What is rounded, and when, is as on the CPU, too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...enums import BitmapPixelFormat, ImageKernel, TensorLayout
from ..base.arrays import Array
from ..imaging.contract import ImageContract, has_gray_padding
from ..imaging.formats import GRAY_WEIGHTS, layout_of
from ..imaging.geometry import Placement
from ..imaging.resize import KERNELS, block_size, crop, resize, scale_with_pillow, scales_height_first
from ..imaging.tensorize import channel_order, gray_table

if TYPE_CHECKING:
    import onnx


FLOAT, UINT8, INT32, FLOAT16 = 1, 2, 6, 10  # onnx.TensorProto.DataType, without importing onnx for it
OPSET = 17
IR_VERSION = 8


class GraphKey(NamedTuple):
    """What the graph depends on. Sizes are not part of it: the matrices are inputs.

    Attributes:
        contract: how pictures become numbers.
        source: the pictures' format, one of eight bits a channel.
        is_scaled: whether anything is cropped, scaled or padded.
        has_padding: whether there is room around the picture in the tensor.
        half: whether the tensor is float16.
        block: width and height of the blocks of pixels that are averaged before the picture is scaled.
        height_first: whether the height is scaled before the width; see `scales_height_first`.
    """

    contract: ImageContract
    source: BitmapPixelFormat
    is_scaled: bool
    has_padding: bool
    half: bool
    block: tuple[int, int]
    height_first: bool

    @classmethod
    def of(cls, contract: ImageContract, source: BitmapPixelFormat, placement: Placement, half: bool) -> GraphKey:
        """The key for pictures that go to this placement."""
        block, height_first = _block(placement, contract), False
        if KERNELS[contract.kernel].is_antialiased:
            height_first = scales_height_first(*_sizes(placement), _is_close(contract))
        return cls(contract, source, not placement.is_identity, placement.has_padding, half, block, height_first)


def tensorize_graph(key: GraphKey) -> bytes:
    """A model from pixels to the tensor.

    Its inputs: `pixels`, uint8, pictures x height x width x channels; those of `scaling_inputs`, where something is
    scaled; where the picture does not fill the tensor, `padding`, 1 or 3 x tensor height x tensor width, float32. Its
    output is
    `tensor`, in the contract's layout, float32 or float16.
    """
    graph = _Graph()
    contract, layout = key.contract, layout_of(key.source)
    is_gray = contract.pixel_format is BitmapPixelFormat.GRAY8
    pixels = graph.input("pixels", UINT8, "n", "height", "width", layout.channels)
    value = graph.node("Transpose", graph.node("Cast", pixels, to=FLOAT), perm=[0, 3, 1, 2])
    has_colour = not layout.is_gray or (key.has_padding and not has_gray_padding(contract))
    if has_colour:
        order = np.array(channel_order(key.source, contract), np.int64)
        value = graph.node("Gather", value, graph.constant(order), axis=1)
    if key.is_scaled:
        value = _scaled(graph, value, key)
    if is_gray:
        value = _gray(graph, value, has_colour)
    factors, summands = np.array(contract.affine(), np.float32).T.reshape(2, -1, 1, 1)
    value = graph.node("Add", graph.node("Mul", value, graph.constant(factors)), graph.constant(summands))
    if contract.layout is TensorLayout.NHWC:
        value = graph.node("Transpose", value, perm=[0, 2, 3, 1])
    kind = FLOAT16 if key.half else FLOAT
    graph.node("Cast", value, to=kind, output="tensor")
    return graph.model("tensor", kind)


def scaling_inputs(placement: Placement, contract: ImageContract) -> dict[str, Array]:
    """The inputs that bring a picture to its place in the tensor.

    These are `across`, width x tensor width, and `down`, tensor height x height, float32. Where blocks are averaged
    first, they are for the picture of the averages, and `columns` and `rows` say which pixels the blocks are made of.
    """
    part, scaled, cut, target, picture, tensor = placement
    across_axis = _Axis(scaled[1], cut.x, cut.width, tensor[1], target.x)
    down_axis = _Axis(scaled[0], cut.y, cut.height, tensor[0], target.y)
    kernel, (block_width, block_height) = contract.kernel, _block(placement, contract)
    if (block_width, block_height) == (1, 1):
        across = _matrix(picture[1], part.x, part.width, across_axis, kernel)
        down = _matrix(picture[0], part.y, part.height, down_axis, kernel)
        return {"across": across, "down": np.ascontiguousarray(down.T)}
    across = _matrix_of_means(part.width, block_width, across_axis, kernel)
    down = _matrix_of_means(part.height, block_height, down_axis, kernel)
    columns = _in_blocks(part.x, part.width, block_width)
    rows = _in_blocks(part.y, part.height, block_height)
    return {"across": across, "down": np.ascontiguousarray(down.T), "columns": columns, "rows": rows}


class _Axis(NamedTuple):
    """How a row is scaled and cut: to `scaled` numbers, of which `left` from `start` go to the tensor's row at `at`."""

    scaled: int
    start: int
    left: int
    tensor: int
    at: int

    def cut(self, matrix: Array) -> Array:
        """The columns that are left."""
        return matrix[:, self.start : self.start + self.left]


def _block(placement: Placement, contract: ImageContract) -> tuple[int, int]:
    if not KERNELS[contract.kernel].is_antialiased:
        return 1, 1
    return block_size(*_sizes(placement), _is_close(contract))


def _sizes(placement: Placement) -> tuple[int, int, int, int]:
    """Width and height of the part, and of what it is scaled to."""
    (height, width), part = placement.scaled, placement.part
    return part.width, part.height, width, height


def _is_close(contract: ImageContract) -> bool:
    return contract.scaling is not None


def _in_blocks(start: int, part: int, block: int) -> Array:
    """The positions of the pixels of whole blocks; the last pixel is repeated where the last block is not full."""
    return (start + np.minimum(np.arange(-(-part // block) * block), part - 1)).astype(np.int32)


def padding(placement: Placement, contract: ImageContract) -> Array:
    """The colour around the picture, and 0 where the picture is: 3 x height x width; 1 x height x width if gray."""
    levels = contract.pad[::-1] if contract.pixel_format is BitmapPixelFormat.BGR8 else contract.pad
    image = np.full((*placement.tensor, 3), levels, np.float32)
    crop(image, placement.target)[:] = 0
    planes = np.ascontiguousarray(image.transpose(2, 0, 1))
    return planes[:1] if has_gray_padding(contract) else planes


@lru_cache(maxsize=64)
def _matrix(length: int, start: int, part: int, axis: _Axis, kernel: ImageKernel) -> Array:
    """Length x tensor: what each pixel of a row gives to each number of the tensor's row."""
    matrix = np.zeros((length, axis.tensor), np.float32)
    identity = np.eye(part, dtype=np.float32)
    matrix[start : start + part, axis.at : axis.at + axis.left] = axis.cut(
        resize(identity, axis.scaled, part, kernel, is_close=True)
    )
    matrix.flags.writeable = False
    return matrix


@lru_cache(maxsize=64)
def _matrix_of_means(part: int, block: int, axis: _Axis, kernel: ImageKernel) -> Array:
    """Blocks x tensor: what the average of each block gives to each number of the tensor's row."""
    blocks = -(-part // block)
    matrix = np.zeros((blocks, axis.tensor), np.float32)
    identity, used = np.eye(blocks, dtype=np.float32), (part / block, float(blocks))
    whole = scale_with_pillow(identity, axis.scaled, blocks, KERNELS[kernel].pillow, used)
    matrix[:, axis.at : axis.at + axis.left] = axis.cut(whole)
    matrix.flags.writeable = False
    return matrix


def _scaled(graph: _Graph, value: str, key: GraphKey) -> str:
    if key.block != (1, 1):
        value = _averaged(graph, value, *key.block)
    across = graph.input("across", FLOAT, "columns_used", "tensor_width")
    down = graph.input("down", FLOAT, "tensor_height", "rows_used")
    for is_height in (key.height_first, not key.height_first):
        value = graph.node("MatMul", *((down, value) if is_height else (value, across)))
        if KERNELS[key.contract.kernel].is_antialiased:  # which rounds after each
            value = _rounded(graph, value)
    if not KERNELS[key.contract.kernel].is_antialiased:
        value = _rounded(graph, value)
    if not key.has_padding:
        return value
    around = graph.input("padding", FLOAT, "planes", "tensor_height", "tensor_width")
    return graph.node("Add", value, around)


def _averaged(graph: _Graph, value: str, width: int, height: int) -> str:
    """The means of blocks of pixels, in whole levels, as OpenCV rounds them."""
    value = graph.node("Gather", value, graph.input("columns", INT32, "column_count"), axis=3)
    value = graph.node("Gather", value, graph.input("rows", INT32, "row_count"), axis=2)
    value = graph.node("AveragePool", value, kernel_shape=[height, width], strides=[height, width])
    if width == height == 2:  # OpenCV has code of its own for these, which rounds halves up
        return _rounded(graph, value)
    magic = graph.constant(np.float32(1 << 23))  # float32 has no digits after the point there: halves go to even
    return graph.node("Sub", graph.node("Add", value, magic), magic)


def _rounded(graph: _Graph, value: str) -> str:
    """To whole levels of 0 to 255, halves up, as both libraries do."""
    value = graph.node("Floor", graph.node("Add", value, graph.constant(np.float32(0.5))))
    return graph.node("Clip", value, graph.constant(np.float32(0)), graph.constant(np.float32(255)))


def _gray(graph: _Graph, value: str, has_colour: bool) -> str:
    if not has_colour:
        levels = graph.node("Cast", value, to=INT32)
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
        self._inputs: list[onnx.ValueInfoProto] = []
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def input(self, name: str, kind: int, *shape: str | int) -> str:
        from onnx import helper

        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        name = output or f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, value: object) -> str:
        from onnx import numpy_helper

        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def model(self, output: str, kind: int) -> bytes:
        from onnx import helper

        outputs = [helper.make_tensor_value_info(output, kind, ["n", None, None, None])]
        graph = helper.make_graph(self._nodes, "pictures", self._inputs, outputs, self._constants)
        model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)])
        return bytes(model.SerializeToString())
