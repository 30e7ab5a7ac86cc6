"""From the bytes of a picture to a model's tensor, as nodes of a graph: what `imaging/tensorize.py` does."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.imaging.contract import ImageContract, has_gray_padding
from ..core.imaging.formats import GRAY_WEIGHTS, layout_of
from ..core.imaging.tensorize import channel_order, gray_table
from ..enums import BitmapPixelFormat, TensorLayout
from .kernels import planes_of, scaled_planes
from .placement import GraphPlacement, graph_placement
from .values import DType, Graph, Value

Array = np.ndarray[Any, Any]

_GRAY = BitmapPixelFormat.GRAY8


class Preprocessing(NamedTuple):
    """How the pictures of one input become its tensor.

    Attributes:
        contract: how they become numbers.
        source: their own format, one of eight bits a channel.
        sides: height and width of the tensor; None where nothing fixes them.
        dtype: of the tensor: float32, float16 or uint8.
    """

    contract: ImageContract
    source: BitmapPixelFormat
    sides: tuple[int | None, int | None]
    dtype: DType

    def write(self, graph: Graph, picture: str, tensor: str) -> GraphPlacement | None:
        """Writes the nodes from one value to the other, by their names.

        Returns:
            Where the picture lies in the tensor; None where it fills it in its own size.
        """
        pixels = Value(graph, picture, np.uint8)
        placement = graph_placement(pixels.size(1), pixels.size(0), self.sides, self.contract)
        is_padded = placement is not None and placement.target is not None
        is_gray = self.source is _GRAY and self.contract.pixel_format is _GRAY
        stays_gray = is_gray and not (is_padded and not has_gray_padding(self.contract))
        planes = self._scaled(pixels, placement)
        planes = planes if stays_gray else self._ordered(planes)
        planes = self._padded(planes, placement) if placement is not None else planes
        numbers = self._numbers(planes, stays_gray)
        if self.contract.layout is TensorLayout.NHWC:
            numbers = numbers.transposed(1, 2, 0)
        graph.node("Unsqueeze", numbers, graph.vector(0), dtype=self.dtype, output=tensor)
        return placement

    def _scaled(self, pixels: Value, placement: GraphPlacement | None) -> Value:
        """Channels x height x width: whole levels in float32, cropped and scaled."""
        if placement is None:
            return planes_of(pixels)
        planes = scaled_planes(pixels, placement, self.contract.kernel, self.contract.scaling is not None)
        if placement.cut is None:
            return planes
        x, y, width, height = placement.cut
        return planes.part((y, x), (height, width), (1, 2))

    def _ordered(self, planes: Value) -> Value:
        """Three planes, in the contract's order."""
        order = channel_order(self.source, self.contract)
        if order == tuple(range(layout_of(self.source).channels)):
            return planes
        return planes.take(planes.graph.constant(order, np.int64), 0)

    def _padded(self, planes: Value, placement: GraphPlacement) -> Value:
        """With the padding around it."""
        if placement.target is None:
            return planes
        (x, y, width, height), (high, wide) = placement.target, placement.tensor
        pads = planes.graph.vector(0, y, x, 0, high - height - y, wide - width - x)
        levels = self.contract.pad[::-1] if self.contract.pixel_format is BitmapPixelFormat.BGR8 else self.contract.pad
        # Pad has one number for all planes: the levels are taken away before it, and come back after it
        used = levels[:1] if has_gray_padding(self.contract) else levels
        colour = planes.graph.constant(np.reshape(used, (-1, 1, 1)), np.float32)
        return planes.graph.node("Pad", planes - colour, pads, dtype=np.float32) + colour

    def _numbers(self, planes: Value, stays_gray: bool) -> Value:
        """The tensor's number for each level."""
        table = _table(self.contract, self.dtype)
        if stays_gray:
            table = table[:, gray_table()]
        elif self.contract.pixel_format is _GRAY:
            planes = _mixed(planes)
        if (table == np.arange(256)).all():
            return planes.cast(self.dtype)
        return _looked_up(planes, table, self.dtype)


def _mixed(planes: Value) -> Value:
    """The gray of red, green and blue, as Windows ML mixes it: in float32, without what is after the point."""
    red, green, blue = (
        planes.take(planes.graph.constant([channel], np.int64), 0) * weight
        for channel, weight in enumerate(GRAY_WEIGHTS)
    )
    return (red + green + blue).apply("Floor")


def _table(contract: ImageContract, dtype: DType) -> Array:
    """The number for each level of each channel: channels x 256, as `tensorize` makes them."""
    is_computed = dtype is np.float32 and (contract.mean or contract.std) and contract.layout is TensorLayout.NCHW
    if not is_computed:
        return contract.numbers(np.dtype(dtype))
    import cv2

    levels = np.arange(256, dtype=np.uint8)[None]
    rows = [
        cv2.addWeighted(levels, factor, levels, 0, summand, dtype=cv2.CV_32F) for factor, summand in contract.affine()
    ]
    return np.concatenate(rows)


def _looked_up(planes: Value, table: Array, dtype: DType) -> Value:
    """The numbers of a table for levels: exact whatever the arithmetic of the runtime is."""
    graph, positions = planes.graph, planes.cast(np.int32)
    if (table == table[:1]).all():
        return graph.constant(table[0], dtype).take(positions, 0)
    begins = graph.constant(np.arange(len(table)).reshape(-1, 1, 1) * 256, np.int32)
    return graph.constant(table.reshape(-1), dtype).take(positions + begins, 0)
