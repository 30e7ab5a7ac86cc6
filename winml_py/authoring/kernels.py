"""Scaling of pixels as graph nodes, equivalent to Pillow and OpenCV in `imaging/resize.py`.

Weights are computed in the graph, by the formulas of the two. ONNX's `Resize` has neither Lanczos, box, Hamming nor
area kernels, only antialiases from operator set 18 on, and computes in floats, which differ between runtimes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core.base.arrays import ScalarType
from ..core.imaging.contract import SCALE_AND_SHIFT, ImageContract, order_pad_levels
from ..core.imaging.formats import GRAY_WEIGHTS, LUMA_WEIGHTS, find_layout
from ..core.imaging.geometry import BitmapBounds, Placement, place
from ..core.imaging.resize import KERNELS, scales_height_first
from ..core.imaging.tensorize import find_channel_order, make_gray_table
from ..core.onnx_file.expressions import Expression, GraphWriter
from ..enums import BitmapPixelFormat, ImageGray, ImageKernel, TensorLayout


def scale_to_planes(pixels: Expression, placement: Placement, contract: ImageContract) -> Expression:
    """The used part of a picture, scaled: uint8 of height x width x channels becomes channels x height x width."""
    graph, kernel = pixels.graph, contract.kernel
    height, width = (graph.as_expression(side) for side in placement.scaled)
    if kernel is ImageKernel.NEAREST:
        return _nearest(pixels, placement.part, height, width)
    if placement.part != (0, 0, *placement.picture[::-1]):
        part = placement.part
        pixels = pixels.slice((part.y, part.x), (part.height, part.width), (0, 1))
    high, wide = pixels.size(0), pixels.size(1)
    if kernel is ImageKernel.LINEAR:
        return _linear_planes(pixels, height, width, _linear_taps)
    if kernel is ImageKernel.AREA:
        grown = partial(_linear_planes, pixels, height, width, _enlarging_taps)
        shrinks = (height <= high) & (width <= wide)
        return graph.either(shrinks, lambda: _scale_then_round(pixels, height, width, _AREA), grown)
    if kernel is ImageKernel.CUBIC:
        return _scale_then_round(pixels, height, width, _CUBIC)
    if kernel is ImageKernel.ANTIALIASED_LINEAR and not contract.exact:
        return _antialias(pixels, height, width, contract, is_height_first=True)
    turns = scales_height_first(wide, high, width, height)  # type: ignore[arg-type]
    if not isinstance(turns, Expression):
        return _antialias(pixels, height, width, contract)
    # Such pictures are turned, scaled width first, and turned back.
    turned = graph.either(turns, lambda: pixels.transpose(1, 0, 2), lambda: pixels.apply("Identity"))
    sides = graph.where(turns, width, height), graph.where(turns, height, width)
    planes = _antialias(turned, *sides, contract)
    return graph.either(turns, lambda: planes.transpose(0, 2, 1), lambda: planes.apply("Identity"))


def move_channels_first(pixels: Expression) -> Expression:
    """Height x width x channels as channels x height x width."""
    return pixels.transpose(2, 0, 1)


def _nearest(pixels: Expression, part: Any, height: Expression, width: Expression) -> Expression:
    rows = _nearest_positions(part.height, height) + part.y
    columns = _nearest_positions(part.width, width) + part.x
    return move_channels_first(pixels.take(rows, 0).take(columns, 1))


def _nearest_positions(side: Expression, scaled: Expression) -> Expression:
    """The pixel nearest to the centre of each result pixel.

    Pillow adds steps up in float64; if a centre lies between two pixels, the rounding errors of its sum decide.
    """
    graph, step = side.graph, side / scaled
    steps = graph.where(graph.range(scaled).equals(0), step * 0.5, step)
    sums = graph.node("CumSum", steps, graph.constant(0, np.int64), dtype=np.float64)
    return sums.apply("Floor").cast(np.int64).at_most(side - 1)


_GRAY = BitmapPixelFormat.GRAY8


# OpenCV's linear kernel, in its fixed point: weights of 11 bits; a sum along a row loses its last 4 bits, its product
# with the weight of the row 16.


Taps = Callable[[Expression, Expression], tuple[Expression, Expression]]


def _linear_taps(side: Expression, scaled: Expression) -> tuple[Expression, Expression]:
    """The first of the two pixels of each result, and the weight of the second."""
    at = (side.graph.range(scaled) + 0.5) * (side / scaled) - 0.5
    first = math.floor(at)
    return first, at - first


def _enlarging_taps(side: Expression, scaled: Expression) -> tuple[Expression, Expression]:
    """The same for `AREA` where a side grows: a pixel that covers a result is copied.

    Which one that is depends on OpenCV's roundings: its factor is 1 / (1 / factor), and its weight a float32.
    """
    index, growth = side.graph.range(scaled), scaled / side
    # ONNX Runtime would make index * (1 / growth) a division, which rounds once less.
    first = math.floor(index * growth.apply("Reciprocal")).at_most(side - 1)
    second = ((index + 1) - (first + 1) * growth).cast(np.float32)
    return first, ((second - second.apply("Floor")) * (second > 0).cast(np.float32)).cast(np.float64)


def _linear_planes(pixels: Expression, height: Expression, width: Expression, taps: Taps) -> Expression:
    graph, channels = pixels.graph, pixels.size(2)
    high, wide = pixels.size(0), pixels.size(1)
    top, down = taps(high, height)
    left, across = taps(wide, width)
    (top, bottom), (left, right) = (
        [pixel.at_least(0).at_most(side - 1) for pixel in (first, first + 1)]
        for first, side in ((top, high), (left, wide))
    )
    # Only the rows that are used, if they are fewer.
    pairs = graph.node("Concat", graph.range(high), top, bottom, dtype=np.int64, axis=0)
    is_fewer = height * 2 < high
    count = graph.where(is_fewer, height * 2, high)
    rows = pixels.take(pairs.slice((graph.where(is_fewer, high, 0),), (count,), (0,)), 0)
    columns = rows.reshape(count, wide * channels).transpose(1, 0).reshape(wide, channels * count)
    second = (across * 2048).apply("Round").cast(np.float32).reshape(-1, 1)
    left_levels, right_levels = (columns.take(pixels, 0).cast(np.float32) for pixels in (left, right))
    sums = left_levels * ((2048 - second) * (1 / 16)) + right_levels * (second * (1 / 16))
    sums = sums.cast(np.int32).cast(np.float32)
    planes = sums.reshape(width * channels, count).transpose(1, 0)
    second = (down * 2048).apply("Round").cast(np.float32).reshape(-1, 1)
    above = graph.where(is_fewer, graph.range(height), top)
    below = graph.where(is_fewer, graph.range(height) + height, bottom)
    parts = ((planes.take(above, 0), 2048 - second), (planes.take(below, 0), second))
    first, last = ((rows * (weight * (1 / 65536))).cast(np.int32) for rows, weight in parts)
    levels = _to_bytes((first + last).cast(np.float32) + 0.5, 4)
    return move_channels_first(levels.reshape(height, width, channels))


# The other kernels: sums of many pixels. Weights are multiples of 2**-15, so every sum of levels is exact in float32,
# in whatever order a runtime adds.


class _Filter(NamedTuple):
    """A kernel along one side.

    Attributes:
        radius: how far it reaches, in pixels, or in results where a picture shrinks.
        weight_at: its weight at a distance.
        is_stretched: whether it becomes wider where a picture shrinks.
    """

    radius: float
    weight_at: Callable[[Expression], Expression]
    is_stretched: bool = True


def _antialias(
    pixels: Expression, height: Expression, width: Expression, contract: ImageContract, is_height_first: bool = False
) -> Expression:
    """Scales one side, rounds to bytes with halves up, and scales the other."""
    graph, (high, wide, channels) = pixels.graph, (pixels.size(axis) for axis in range(3))
    kernel, is_exact = _FILTERS[contract.kernel], contract.exact or not KERNELS[contract.kernel].fast
    unit = graph.constant(2.0**22, np.float64) if is_exact else None

    def scaled(is_fine: bool) -> Expression:
        def scale(rows: Expression, scaled: Expression) -> Expression:
            steps = _Steps.of(rows, scaled, kernel, unit, is_fine)
            return steps.run(lambda index: [_half_up(*steps.sums(rows, index))])[0]

        rows = pixels.reshape(high, wide * channels)
        if is_height_first:
            columns = _turned(scale(rows, height), wide)
            return _turned(scale(columns, width), channels * height).reshape(channels, height, width)
        columns = scale(_turned(rows, wide), width).reshape(width * channels, high)
        return move_channels_first(scale(_turned(columns, high), height).reshape(height, width, channels))

    # What differs by a level after the first side may differ by two after a side that grows, and as Windows ML's gray.
    if is_exact or contract.pixel_format is _GRAY:
        return scaled(is_fine=True)
    shrinks = (height <= high) & (width <= wide)
    return graph.either(shrinks, lambda: scaled(is_fine=False), lambda: scaled(is_fine=True))


def _scale_then_round(pixels: Expression, height: Expression, width: Expression, kernel: _Filter) -> Expression:
    """Scales both sides, and rounds once, as OpenCV does. Between them, a number has two bytes: see `_to_two_bytes`."""
    graph, (high, wide, channels) = pixels.graph, (pixels.size(axis) for axis in range(3))
    rows = pixels.reshape(high, wide * channels)
    unit = graph.constant(2.0**15, np.float64)
    if kernel is _CUBIC:  # OpenCV's weights are floats, but have 11 bits where a side is too short for its quick way
        unit = graph.where(high.at_most(wide) < 4, 2.0**11, unit)
    down = _Steps.of(rows, height, kernel, unit)
    halves = down.run(lambda index: _to_two_bytes(*down.sums(rows, index)))
    coarse, fine = (_turned(half, wide) for half in halves)
    across = _Steps.of(coarse, width, kernel, unit)
    if kernel is _AREA:  # OpenCV's factor is a float32, and it rounds halves to even, but up for squares of four pixels
        shrinks = high / height, wide / width
        divisors = (_least_power(shrink, range(21)).cast(np.float32) for shrink in shrinks)
        factor = math.prod(divisors, start=(1 / (shrinks[0] * shrinks[1])).cast(np.float32))
        summand = (shrinks[0].equals(2.0) & shrinks[1].equals(2.0)).cast(np.float32) * 0.125

    def levels(index: Expression) -> list[Expression]:
        total = across.weights[0].take(index, 0).sum(2, keepdims=True) * 65.0
        sums = across.sums(coarse, index)[0] * 2.0 + across.sums(fine, index)[0] * (1 / 128) - total
        return [_to_bytes(sums * factor + summand if kernel is _AREA else sums)]

    return _turned(across.run(levels)[0], channels * height).reshape(channels, height, width)


def _half_up(sums: Expression, rest: Expression | None = None) -> Expression:
    """The nearest levels, halves up, of sums of 2**-15, and of a rest of 2**-22."""
    if rest is None:
        return _to_bytes(sums + 2**-16)  # no sum lies between two levels then
    whole = (sums + 0.5).apply("Floor")
    return _to_bytes(whole + ((sums - whole + 0.5) + rest).apply("Floor"))


def _turned(rows: Expression, first: Expression) -> Expression:
    """The matrix with its sides exchanged, reshaped to so many rows."""
    return rows.transpose(1, 0).reshape(first, -1)


def _to_bytes(numbers: Expression, unit: float = 1, zero: int = 0) -> Expression:
    """The nearest bytes, halves to even: numbers / unit + zero."""
    graph = numbers.graph
    parameters = graph.constant(unit, np.float32), graph.constant(zero, np.uint8)
    return graph.node("QuantizeLinear", numbers, *parameters, dtype=np.uint8)


def _to_two_bytes(numbers: Expression) -> list[Expression]:
    """Numbers of -64 to 446 as c and f: c * 2 + f / 128 - 65."""
    shifted = numbers + 64
    coarse = _to_bytes(shifted, 2)
    return [coarse, _to_bytes(shifted - coarse.cast(np.float32) * 2, 1 / 128, 128)]


class _Steps(NamedTuple):
    """The scaling of a matrix's rows, in steps that work on what fits into a processor's cache.

    A step makes some tiles of a few result rows, each from the rows that it uses: one matrix for all would be nearly
    all zeros, and take twenty times as long.

    Attributes:
        steps: how many there are.
        seen: steps x tiles x the source rows of a tile.
        weights: steps x tiles x results of a tile x source rows; two, if their rest has a matrix of its own.
        scaled: the result rows.
        length: of a row.
    """

    steps: Expression
    seen: Expression
    weights: tuple[Expression, ...]
    scaled: Expression
    length: Expression

    @classmethod
    def of(
        cls, rows: Expression, scaled: Expression, kernel: _Filter, unit: Expression | None, is_fine: bool = False
    ) -> _Steps:
        """The steps of these rows to `scaled` rows.

        Weights are multiples of 1 / `unit`, by default of cykooz-resizer's. If not `is_fine`, they are multiples of
        2**-15 at the finest.
        """
        graph, side, length = rows.graph, rows.size(0), rows.size(1)
        scale = side / scaled
        stretch = scale.at_least(1.0) if kernel.is_stretched else graph.constant(1, np.float64)
        reach, beyond = stretch * kernel.radius, 0 if kernel.is_stretched else 2
        window = (scale * _TILE + reach * 2 + 2).cast(np.int64).at_most(side + 2 * beyond)
        if kernel is _CUBIC:
            is_sparse = scale > _TAPS
            window = graph.where(is_sparse, _TILE * _TAPS, window)
        tiles = (scaled + (_TILE - 1)) // _TILE
        at_once = (graph.constant(_AT_ONCE, np.int64) // (window * length)).at_least(1).at_most(tiles)
        count = (tiles + (at_once - 1)) // at_once
        tiles = count * at_once
        begins = (graph.range(tiles) * _TILE).cast(np.float64) * scale + (scale * 0.5 - reach)
        begins = math.floor(begins).at_least(-beyond).at_most(side + beyond - window)
        centres = ((graph.range(tiles * _TILE).at_most(scaled - 1) + 0.5) * scale).reshape(tiles, _TILE)
        column = graph.range(window)
        seen = begins.unsqueeze(1) + column
        if kernel is _CUBIC:  # where a picture shrinks much, only the four pixels that each result uses
            owner = (column // _TAPS).at_most(_TILE - 1)
            taps = math.floor(centres.take(owner, 1) - 0.5) + (column % _TAPS - 1)
            seen = graph.where(is_sparse, taps, seen)
        positions, centres = seen.unsqueeze(1).cast(np.float64), centres.unsqueeze(2)
        if kernel is _AREA:
            exact = _area_weights(positions, centres, scale)
        elif kernel is _CUBIC:
            exact = kernel.weight_at((positions - centres + 0.5) * (1.0 / stretch))
            tile = graph.constant(np.arange(_TILE).reshape(-1, 1), np.int64)
            exact = graph.where(is_sparse & (abs(owner - tile) > 0), 0.0, exact)
        else:
            exact = _pillow_weights(kernel, positions, centres, stretch, reach)
        weights = _whole(exact, unit, is_fine)
        seen = seen.at_least(0).at_most(side - 1).reshape(count, at_once, window)
        shape = count, at_once, _TILE, window
        matrices = tuple(matrix.cast(np.float32).reshape(*shape) for matrix in weights)
        return cls(count, seen, matrices, scaled, length)

    def run(self, step: Callable[[Expression], Sequence[Expression]]) -> tuple[Expression, ...]:
        """The result rows of all steps."""
        stacks = self.steps.graph.loop(self.steps, step)
        return tuple(stack.reshape(-1, self.length).slice((0,), (self.scaled,), (0,)) for stack in stacks)

    def sums(self, rows: Expression, index: Expression) -> list[Expression]:
        """The sums of one step with each matrix: tiles x results x row."""
        graph, taken = rows.graph, rows.take(self.seen.take(index, 0), 0).cast(np.float32)
        return [graph.node("MatMul", matrix.take(index, 0), taken, dtype=np.float32) for matrix in self.weights]


_TILE, _TAPS = 8, 4
_AT_ONCE = 1 << 19
"""The most numbers that a step takes, unless one tile has more."""


def _area_weights(positions: Expression, centres: Expression, scale: Expression) -> Expression:
    """How much of each pixel a result covers, in a power of two."""
    covered = (centres + scale * 0.5).at_most(positions + 1) - (centres - scale * 0.5).at_least(positions)
    return covered.at_least(0.0) / _least_power(scale, range(21))


def _pillow_weights(
    kernel: _Filter, positions: Expression, centres: Expression, stretch: Expression, reach: Expression
) -> Expression:
    """Pillow's weights, whose sum is 1; in float64: a box's edge often lies between two pixels, and rounding would move
    it.
    """
    weights = kernel.weight_at((positions - centres + 0.5) * (1.0 / stretch))
    first, end = ((centres + (reach * sign + 0.5)).apply("Floor") for sign in (-1, 1))
    weights = weights.graph.where((positions >= first) & (positions < end), weights, 0.0)
    return weights / weights.sum(2, keepdims=True)


def _whole(weights: Expression, unit: Expression | None, is_fine: bool) -> tuple[Expression, ...]:
    """The weights as multiples of 1 / `unit`; see `_Steps.of`. A fine rest gets a matrix of its own."""
    graph = weights.graph
    if unit is None:  # the largest weight of cykooz-resizer has 15 bits
        most = graph.node("ReduceMax", weights, dtype=np.float64, keepdims=0)
        unit = _least_power((2.0**14 - 0.25) / most, range(14, 22))
        if not is_fine:
            # Of small weights, the sum up to each pixel is rounded, so that they add up to 1.
            axis = graph.constant(2, np.int64)
            sums = [
                graph.node("CumSum", weights, axis, dtype=np.float64, exclusive=is_exclusive) for is_exclusive in (0, 1)
            ]
            upto, before = (_rounded(total, 2.0**15) for total in sums)
            return (graph.where(unit > 2.0**15, upto - before, _rounded(weights, unit)),)
    weights = _rounded(weights, unit)
    if not is_fine:
        return (weights,)
    coarse = (weights * 2.0**15).apply("Round") * 2.0**-15
    return coarse, weights - coarse


def _rounded(weights: Expression, unit: Expression | float) -> Expression:
    """As multiples of 1 / `unit`; a bit more than a half is added, so that rounding errors decide nothing."""
    return (weights * unit + 0.500001).apply("Floor") / unit


def _least_power(number: Expression, exponents: range) -> Expression:
    """The least of these powers of two that is not below a number; else the greatest of them."""
    graph = number.graph
    powers = graph.constant([2.0**exponent for exponent in exponents], np.float64)
    fitting = graph.where(powers < number, 2.0 ** exponents[-1], powers)
    return graph.node("ReduceMin", fitting, dtype=np.float64, keepdims=0)


def _box(x: Expression) -> Expression:
    return ((x > -0.5) & (x <= 0.5)).cast(np.float64)


def _linear(x: Expression) -> Expression:
    return (1 - abs(x)).at_least(0)


def _cubic(x: Expression, a: float) -> Expression:
    x = abs(x)
    near, far = (x * (a + 2) - (a + 3)) * x * x + 1, (((x - 5) * x + 8) * x - 4) * a
    return x.graph.where(x < 1, near, x.graph.where(x < 2, far, 0.0))


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
    ImageKernel.ANTIALIASED_BOX: _Filter(0.5, _box),
    ImageKernel.ANTIALIASED_CUBIC: _Filter(2.0, partial(_cubic, a=-0.5)),
    ImageKernel.ANTIALIASED_HAMMING: _Filter(1.0, _hamming),
    ImageKernel.ANTIALIASED_LANCZOS: _Filter(3.0, _lanczos),
    ImageKernel.ANTIALIASED_LINEAR: _Filter(1.0, _linear),
}
_CUBIC = _Filter(2.0, partial(_cubic, a=-0.75), is_stretched=False)  # OpenCV's coefficient
_AREA = _Filter(0.5, _box)


# From a picture's bytes to a model's tensor, as graph nodes equivalent to `imaging/tensorize.py`.


class Preprocessing(NamedTuple):
    """How pictures of a format become a tensor of a type; a height or width of None is free.

    With `is_batch`, they have an axis of pictures before height, width and channels.
    """

    contract: ImageContract
    source: BitmapPixelFormat
    sides: tuple[int | None, int | None]
    dtype: ScalarType
    is_batch: bool = False

    def write(self, graph: GraphWriter, picture: str, tensor: str) -> Placement | None:
        """Writes the nodes between two values. Returns the picture's placement, or None for a batch."""
        pictures = Expression(graph, picture, np.uint8)
        if self.is_batch:
            made = graph.loop(pictures.size(0), lambda index: [self._tensor(pictures.take(index, 0))[0]])
            graph.node("Identity", *made, dtype=self.dtype, output=tensor)
            return None
        numbers, placement = self._tensor(pictures)
        graph.node("Unsqueeze", numbers, graph.vector(0), dtype=self.dtype, output=tensor)
        return placement

    def _tensor(self, pixels: Expression) -> tuple[Expression, Placement]:
        """The tensor of one picture, of rank 3, and where the picture goes in it."""
        source, layout = self.source, find_layout(self.source)
        if self.contract.gray is ImageGray.LUMA and not layout.is_gray:  # before scaling: see `tensorize`
            weights = [weight for _, weight in sorted(zip(layout.rgb, LUMA_WEIGHTS, strict=True))]
            pixels = (pixels.cast(np.float32).weighted_sum(weights, 2) + 0.5).apply("Floor").cast(np.uint8)
            source = _GRAY
        (high, wide), scaling = self.sides, self.contract.scaling
        picture: Any = (pixels.size(0), pixels.size(1))  # the rules use these as numbers
        region = BitmapBounds(0, 0, picture[1], picture[0])
        if scaling is None and high is None and wide is None:
            placement = Placement(region, picture, region, region, picture, picture)
        else:
            placement = place(region, picture, wide, high, self.contract.crop_mode, scaling)
        is_gray = source is _GRAY and self.contract.pixel_format is _GRAY
        stays_gray = is_gray and not (placement.has_padding and len(set(self.contract.pad)) > 1)
        if placement.is_identity:
            planes = move_channels_first(pixels)
        else:
            x, y, width, height = placement.cut
            planes = scale_to_planes(pixels, placement, self.contract).slice((y, x), (height, width), (1, 2))
        if not stays_gray:  # three planes, in the contract's order
            order = find_channel_order(source, self.contract)
            if order != tuple(range(find_layout(source).channels)):
                planes = planes.take(pixels.graph.constant(order, np.int64), 0)
        planes = self._pad(planes, placement) if placement.has_padding else planes
        numbers = self._numbers(planes, stays_gray)
        if self.contract.layout is TensorLayout.NHWC:
            numbers = numbers.transpose(1, 2, 0)
        return numbers, placement

    def _pad(self, planes: Expression, placement: Placement) -> Expression:
        """Adds the padding around the planes."""
        (x, y, width, height), (high, wide) = placement.target, placement.tensor
        pads = planes.graph.vector(0, y, x, 0, high - height - y, wide - width - x)
        levels = order_pad_levels(self.contract)
        # Pad has one number for all planes, so the levels are subtracted before it and added after it.
        used = levels[:1] if (len(set(self.contract.pad)) == 1) else levels
        colour = planes.graph.constant(np.reshape(used, (-1, 1, 1)), np.float32)
        planes = planes.cast(np.float32)
        return planes.graph.node("Pad", planes - colour, pads, dtype=np.float32) + colour

    def _numbers(self, planes: Expression, stays_gray: bool) -> Expression:
        """The tensor's number for each level, computed like `ImageContract.numbers`."""
        contract, graph = self.contract, planes.graph
        is_luma = contract.gray is ImageGray.LUMA
        if stays_gray and not is_luma:
            planes = graph.constant(make_gray_table(), np.uint8).take(planes.cast(np.int32), 0)
        elif contract.pixel_format is _GRAY and not stays_gray:
            # Windows ML's gray is mixed in float32, then truncated to an integer.
            weights, summand = (LUMA_WEIGHTS, 0.5) if is_luma else (GRAY_WEIGHTS, 0.0)
            planes = (planes.cast(np.float32).weighted_sum(weights, 0) + summand).apply("Floor")
        numbers, (scale, shift) = planes.cast(np.float32), SCALE_AND_SHIFT[contract.pixel_range]
        steps = (("Div", (scale,)), ("Sub", (shift,)), ("Sub", contract.mean), ("Div", contract.std))
        for operator, operands in steps:
            if any(operand != (operator == "Div") for operand in operands):
                operand = graph.constant(np.reshape(operands, (-1, 1, 1)), np.float32)
                numbers = graph.node(operator, numbers, operand, dtype=np.float32)
        return _to_bytes(numbers) if self.dtype is np.uint8 else numbers.cast(self.dtype)
