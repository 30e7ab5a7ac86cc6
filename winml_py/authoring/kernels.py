"""Scaling of pixels as graph nodes, equivalent to Pillow and OpenCV in `imaging/resize.py`.

The antialiased kernels are matrices of weights, computed in the graph by Pillow's formula. `Resize` has no Lanczos,
box or Hamming kernel, and only antialiases from operator set 18 on, to which most models would have to be converted.
For OpenCV's linear and cubic kernels, `Resize` is used.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..core.base.arrays import Array, ScalarType
from ..core.imaging.contract import ImageContract, pad_levels
from ..core.imaging.formats import GRAY_WEIGHTS, LUMA_WEIGHTS, layout_of
from ..core.imaging.geometry import BitmapBounds, Placement, place
from ..core.imaging.resize import KERNELS
from ..core.imaging.tensorize import channel_order, gray_table
from ..core.onnx_file.expressions import Expression, GraphWriter
from ..enums import BitmapPixelFormat, ImageGray, ImageKernel, TensorLayout
from ..errors import NotSupportedError


def require_kernel(kernel: ImageKernel) -> None:
    """Refuses a kernel that no graph can have: `AREA`, whose formula is not implemented here."""
    is_known = kernel in _FILTERS or kernel is ImageKernel.NEAREST or KERNELS[kernel].resize_attributes is not None
    if not is_known:
        raise NotSupportedError(
            f"The kernel {kernel.name} cannot be built into a model.",
            hint="Use another kernel: ImageKernel.ANTIALIASED_BOX also averages pixels.",
        )


def scaled_planes(pixels: Expression, placement: Placement, kernel: ImageKernel) -> Expression:
    """The used part of a picture, scaled.

    uint8 of height x width x channels becomes channels x height x width, integers from 0 to 255 in float32.
    """
    if kernel in _FILTERS:
        return _antialias(pixels, placement, kernel)
    if kernel is ImageKernel.NEAREST:
        return _nearest(pixels, placement)
    return _resize(pixels, placement, kernel)


def _crop(pixels: Expression, placement: Placement) -> Expression:
    x, y, width, height = placement.part
    is_whole = placement.part == (0, 0, *placement.picture[::-1])
    return pixels if is_whole else pixels.slice((y, x), (height, width), (0, 1))


def planes_of(pixels: Expression) -> Expression:
    """Bytes of height x width x channels as float32 of channels x height x width."""
    return pixels.transpose(2, 0, 1).cast(np.float32)


def _nearest(pixels: Expression, placement: Placement) -> Expression:
    part: Any = placement.part
    height, width = map(pixels.graph.as_expression, placement.scaled)
    rows = _nearest_positions(part.height, height) + part.y
    columns = _nearest_positions(part.width, width) + part.x
    return planes_of(pixels.take(rows, 0).take(columns, 1))


def _nearest_positions(side: Expression, scaled: Expression) -> Expression:
    """The pixel nearest to the centre of each result pixel.

    Pillow adds steps up in float64; if a centre lies between two pixels, the rounding errors of its sum decide.
    """
    graph, step = side.graph, side / scaled
    steps = graph.where(graph.range(scaled).equals(0), step * 0.5, step)
    sums = graph.node("CumSum", steps, graph.constant(0, np.int64), dtype=np.float64)
    return sums.apply("Floor").cast(np.int64).at_most(side - 1)


def _resize(pixels: Expression, placement: Placement, kernel: ImageKernel) -> Expression:
    graph, (height, width) = pixels.graph, placement.scaled
    planes = planes_of(_crop(pixels, placement)).unsqueeze(0)
    size, attributes = graph.vector(1, planes.size(1), height, width), KERNELS[kernel].resize_attributes or {}
    scaled = graph.node("Resize", planes, None, None, size, dtype=np.float32, **attributes)  # half_pixel by default
    return scaled.to_levels().reshape(-1, height, width)


def _antialias(pixels: Expression, placement: Placement, kernel: ImageKernel) -> Expression:
    """Scales the width before the height, like Pillow before version 13, and rounds to bytes after each."""
    height, width = map(pixels.graph.as_expression, placement.scaled)
    planes = _crop(pixels, placement).transpose(2, 0, 1)
    # Two quick steps: without a Reshape between them, ONNX Runtime merges them into one that takes ten times as long.
    planes = planes.reshape(pixels.size(2), placement.part.height, placement.part.width)
    rows = _scale_rows(planes.transpose(0, 2, 1), width, kernel).transpose(0, 2, 1)
    return _scale_rows(rows, height, kernel)


def _scale_rows(planes: Expression, scaled: Expression, kernel: ImageKernel) -> Expression:
    """Scales the second axis of channels x rows x columns of whole levels.

    Each step makes a few result rows from the source rows that they use: one matrix for all would be nearly all zeros,
    and take twenty times as long.
    """
    graph, side = planes.graph, planes.size(1)
    scale, tiles = side / scaled, (scaled + (_TILE - 1)) // _TILE
    reach = scale.at_least(1.0) * _FILTERS[kernel][0]
    window = (scale * _TILE + reach * 2 + 2).cast(np.int64).at_most(side)
    centres = (graph.range(tiles * _TILE).at_most(scaled - 1).cast(np.float64) + 0.5) * scale
    begins = (graph.range(tiles) * _TILE).cast(np.float64) * scale + (scale * 0.5 - reach)
    begins = begins.apply("Floor").cast(np.int64).at_least(0).at_most(side - window)
    seen = begins.unsqueeze(1) + graph.range(window)
    weights = _weights(seen.unsqueeze(1), centres.reshape(tiles, _TILE, 1), scale, kernel)
    rows = planes.take(seen, 1).cast(np.float32)
    product = graph.node("MatMul", weights, rows, dtype=np.float32)
    scaled_tiles = product.reshape(planes.size(0), tiles * _TILE, planes.size(2))
    return scaled_tiles.slice((0,), (scaled,), (1,)).to_levels()


_TILE = 16


def _weights(positions: Expression, centres: Expression, scale: Expression, kernel: ImageKernel) -> Expression:
    """The weights of pixels at these positions for results with these centres, float32.

    Pillow computes them in float64: a box's edge often lies between two pixels, and rounding would move it.
    """
    graph, (support, weight_at) = positions.graph, _FILTERS[kernel]
    stretch, pixels = scale.at_least(1.0), positions.cast(np.float64)
    first, end = ((centres + (stretch * reach + 0.5)).apply("Floor") for reach in (-support, support))
    is_seen = (pixels >= first) & (pixels < end)
    weights = graph.where(is_seen, weight_at((pixels - centres + 0.5) * (1.0 / stretch)), 0.0)
    return (weights / weights.sum(2, keepdims=True)).cast(np.float32)


def _box(x: Expression) -> Expression:
    return ((x > -0.5) & (x <= 0.5)).cast(np.float64)


def _linear(x: Expression) -> Expression:
    return (1 - abs(x)).at_least(0)


def _cubic(x: Expression) -> Expression:
    x = abs(x)
    return x.graph.where(x < 1, (x * 1.5 - 2.5) * x * x + 1, (((x - 5) * x + 8) * x - 4) * -0.5)


def _hamming(x: Expression) -> Expression:
    cosine = (x * math.pi + math.pi / 2).apply("Sin")  # before 1.29, ONNX Runtime has no float64 Cos
    return _sinc(x) * (cosine * 0.46 + 0.54)


def _lanczos(x: Expression) -> Expression:
    return _sinc(x) * _sinc(x / 3)


def _sinc(x: Expression) -> Expression:
    where, is_middle = x.graph.where, x.equals(0)
    angle = where(is_middle, 1.0, x * math.pi)
    return where(is_middle, 1.0, angle.apply("Sin") / angle)


_FILTERS = {
    ImageKernel.ANTIALIASED_BOX: (0.5, _box),
    ImageKernel.ANTIALIASED_CUBIC: (2.0, _cubic),
    ImageKernel.ANTIALIASED_HAMMING: (1.0, _hamming),
    ImageKernel.ANTIALIASED_LANCZOS: (3.0, _lanczos),
    ImageKernel.ANTIALIASED_LINEAR: (1.0, _linear),
}
"""The radius of each antialiased kernel, and its weight at a distance from a pixel's centre."""


# From a picture's bytes to a model's tensor, as graph nodes equivalent to `imaging/tensorize.py`.


_GRAY = BitmapPixelFormat.GRAY8


class Preprocessing(NamedTuple):
    """How pictures of a format become a tensor of a type; a height or width of None is free."""

    contract: ImageContract
    source: BitmapPixelFormat
    sides: tuple[int | None, int | None]
    dtype: ScalarType

    def write(self, graph: GraphWriter, picture: str, tensor: str) -> Placement | None:
        """Writes the nodes between two values; returns the picture's placement, None if it keeps its size."""
        pixels = Expression(graph, picture, np.uint8)
        layout = layout_of(self.source)
        if self.contract.gray is ImageGray.LUMA and not layout.is_gray:  # before scaling: see `tensorize`
            weights = [weight for _, weight in sorted(zip(layout.rgb, LUMA_WEIGHTS, strict=True))]
            gray = (pixels.cast(np.float32).weighted_sum(weights, 2) + 0.5).apply("Floor").cast(np.uint8)
            return self._replace(source=_GRAY).write_pixels(graph, gray, tensor)
        return self.write_pixels(graph, pixels, tensor)

    def write_pixels(self, graph: GraphWriter, pixels: Expression, tensor: str) -> Placement | None:
        """The same from a value of height x width x channels in the source's format."""
        placement = None
        (high, wide), scaling = self.sides, self.contract.scaling
        if scaling is not None or high is not None or wide is not None:
            picture: Any = (pixels.size(0), pixels.size(1))  # the rules use these as numbers
            region = BitmapBounds(0, 0, picture[1], picture[0])
            placement = place(region, picture, wide, high, self.contract.crop_mode, scaling)
        is_padded = placement is not None and placement.has_padding
        is_gray = self.source is _GRAY and self.contract.pixel_format is _GRAY
        stays_gray = is_gray and not (is_padded and len(set(self.contract.pad)) > 1)
        planes = self._scale(pixels, placement)
        planes = planes if stays_gray else self._order(planes)
        planes = self._pad(planes, placement) if placement is not None else planes
        numbers = self._numbers(planes, stays_gray)
        if self.contract.layout is TensorLayout.NHWC:
            numbers = numbers.transpose(1, 2, 0)
        graph.node("Unsqueeze", numbers, graph.vector(0), dtype=self.dtype, output=tensor)
        return placement

    def _scale(self, pixels: Expression, placement: Placement | None) -> Expression:
        """Channels x height x width: whole levels in float32, cropped and scaled."""
        if placement is None:
            return planes_of(pixels)
        planes = scaled_planes(pixels, placement, self.contract.kernel)
        if placement.cut == (0, 0, *placement.scaled[::-1]):
            return planes
        x, y, width, height = placement.cut
        return planes.slice((y, x), (height, width), (1, 2))

    def _order(self, planes: Expression) -> Expression:
        """Three planes, in the contract's order."""
        order = channel_order(self.source, self.contract)
        if order == tuple(range(layout_of(self.source).channels)):
            return planes
        return planes.take(planes.graph.constant(order, np.int64), 0)

    def _pad(self, planes: Expression, placement: Placement) -> Expression:
        """Adds the padding around the planes."""
        if not placement.has_padding:
            return planes
        (x, y, width, height), (high, wide) = placement.target, placement.tensor
        pads = planes.graph.vector(0, y, x, 0, high - height - y, wide - width - x)
        levels = pad_levels(self.contract)
        # Pad has one number for all planes, so the levels are subtracted before it and added after it.
        used = levels[:1] if (len(set(self.contract.pad)) == 1) else levels
        colour = planes.graph.constant(np.reshape(used, (-1, 1, 1)), np.float32)
        return planes.graph.node("Pad", planes - colour, pads, dtype=np.float32) + colour

    def _numbers(self, planes: Expression, stays_gray: bool) -> Expression:
        """The tensor's number for each level."""
        table = _table(self.contract, self.dtype)
        is_luma = self.contract.gray is ImageGray.LUMA
        if stays_gray:
            table = table if is_luma else table[:, gray_table()]
        elif is_luma:
            planes = (planes.weighted_sum(LUMA_WEIGHTS, 0) + 0.5).apply("Floor")
        elif self.contract.pixel_format is _GRAY:
            # Like Windows ML's gray: mixed in float32, then truncated to an integer.
            planes = planes.weighted_sum(GRAY_WEIGHTS, 0).apply("Floor")
        if (table == np.arange(256)).all():
            return planes.cast(self.dtype)
        return _look_up(planes, table, self.dtype)


def _table(contract: ImageContract, dtype: ScalarType) -> Array:
    """The number for each level of each channel, as in `tensorize`: channels x 256."""
    is_computed = dtype is np.float32 and (contract.mean or contract.std) and contract.layout is TensorLayout.NCHW
    if not is_computed:
        return contract.numbers(np.dtype(dtype))
    import cv2

    levels = np.arange(256, dtype=np.uint8)[None]
    rows = [
        cv2.addWeighted(levels, factor, levels, 0, summand, dtype=cv2.CV_32F) for factor, summand in contract.affine()
    ]
    return np.concatenate(rows)


def _look_up(planes: Expression, table: Array, dtype: ScalarType) -> Expression:
    """Looks up levels in a table of numbers: exact in any arithmetic of the runtime."""
    graph, positions = planes.graph, planes.cast(np.int32)
    if (table == table[:1]).all():
        return graph.constant(table[0], dtype).take(positions, 0)
    begins = graph.constant(np.arange(len(table)).reshape(-1, 1, 1) * 256, np.int32)
    return graph.constant(table.reshape(-1), dtype).take(positions + begins, 0)
