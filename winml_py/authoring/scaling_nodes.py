"""Scaling of pixels as graph nodes, equivalent to Pillow and OpenCV in `imaging/pixels.py`.

Weights are computed in the graph, by the formulas of the two. ONNX's `Resize` has neither Lanczos, box, Hamming nor
area kernels, only antialiases from operator set 18 on, and computes in floats, which differ between runtimes.

Sides are scaled one after the other. A picture is a matrix of height x (width * channels) then, whose rows are scaled.
`_transpose_to` makes one of width x (channels * height) of the result, and its rows are scaled in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core.imaging.contract import ImageContract, Placement
from ..core.imaging.pixels import KERNELS, scales_height_first
from ..core.onnx_file.expressions import Expression
from ..enums import BitmapPixelFormat, ImageKernel


def scale_to_planes(pixels: Expression, placement: Placement, contract: ImageContract) -> Expression:
    """The used part of a picture, scaled: uint8 of height x width x channels becomes channels x height x width."""
    graph, kernel = pixels.graph, contract.kernel
    height, width = (graph.as_expression(side) for side in placement.scaled)
    if kernel is ImageKernel.NEAREST:
        return _scale_to_nearest(pixels, placement.part, height, width)
    if placement.part != (0, 0, *placement.picture[::-1]):
        part = placement.part
        pixels = pixels.slice((part.y, part.x), (part.height, part.width), (0, 1))
    from_height, from_width = pixels.size(0), pixels.size(1)
    if kernel is ImageKernel.ALIGN_CORNERS_LINEAR:
        return _scale_with_aligned_corners(pixels, height, width)
    if kernel is ImageKernel.LINEAR:
        return _scale_linearly(pixels, height, width, _find_linear_taps)
    if kernel is ImageKernel.AREA:
        shrink = partial(_scale_then_round, pixels, height, width, _AREA)
        grow = partial(_scale_linearly, pixels, height, width, _find_area_taps)
        return graph.either((height <= from_height) & (width <= from_width), shrink, grow)
    if kernel is ImageKernel.CUBIC:
        return _scale_then_round(pixels, height, width, _CUBIC)
    if kernel is ImageKernel.ANTIALIASED_LINEAR and not contract.exact:
        return _antialias(pixels, height, width, contract, is_height_first=True)
    is_height_first = scales_height_first(from_width, from_height, width, height)  # type: ignore[arg-type]
    if not isinstance(is_height_first, Expression):
        return _antialias(pixels, height, width, contract)
    # `_antialias` scales the width first here: pictures whose height is first are transposed before and after.
    transposed = graph.either(is_height_first, lambda: pixels.transpose(1, 0, 2), lambda: pixels.apply("Identity"))
    first_side = graph.where(is_height_first, width, height)
    second_side = graph.where(is_height_first, height, width)
    planes = _antialias(transposed, first_side, second_side, contract)
    return graph.either(is_height_first, lambda: planes.transpose(0, 2, 1), lambda: planes.apply("Identity"))


def move_channels_first(pixels: Expression) -> Expression:
    """Height x width x channels as channels x height x width."""
    return pixels.transpose(2, 0, 1)


def _scale_to_nearest(pixels: Expression, part: Any, height: Expression, width: Expression) -> Expression:
    rows = _find_nearest_pixels(part.height, height) + part.y
    columns = _find_nearest_pixels(part.width, width) + part.x
    return move_channels_first(pixels.take(rows, 0).take(columns, 1))


def _find_nearest_pixels(side: Expression, scaled: Expression) -> Expression:
    """The pixel nearest to the centre of each result pixel.

    Pillow adds steps up in float64; if a centre lies between two pixels, the rounding errors of its sum decide.
    """
    graph, step = side.graph, side / scaled
    steps = graph.where(graph.range(scaled).equals(0), step * 0.5, step)
    sums = graph.node("CumSum", steps, graph.constant(0, np.int64), dtype=np.float64)
    return sums.apply("Floor").cast(np.int64).at_most(side - 1)


def _scale_with_aligned_corners(pixels: Expression, height: Expression, width: Expression) -> Expression:
    """The same sums in float32, in the same order, as in `imaging/pixels.py`."""
    sums = None
    for row, row_weight in _find_aligned_taps(pixels.size(0), height):
        for column, column_weight in _find_aligned_taps(pixels.size(1), width):
            levels = pixels.take(row, 0).take(column, 1).cast(np.float32)
            term = levels * (row_weight.unsqueeze(1, 2) * column_weight.unsqueeze(0, 2))
            sums = term if sums is None else sums + term
    assert sums is not None
    return move_channels_first((sums + 0.5).apply("Floor").cast(np.uint8))


def _find_aligned_taps(side: Expression, scaled: Expression) -> list[tuple[Expression, Expression]]:
    """The two pixels of each result, each with its weight."""
    step = (side - 1).cast(np.float32) / (scaled - 1).at_least(1).cast(np.float32)
    positions = side.graph.range(scaled).cast(np.float32) * step
    whole = positions.apply("Floor")
    first, weight = whole.cast(np.int64), positions - whole
    return [(first, 1 - weight), ((first + 1).at_most(side - 1), weight)]


# OpenCV's linear kernel, in its fixed point: weights of 11 bits; a sum along a row loses its last 4 bits, its product
# with the weight of the row 16.


FindTaps = Callable[[Expression, Expression], tuple[Expression, Expression]]
"""From a side and the scaled side: the first of the two pixels of each result, and the weight of the second."""


def _find_linear_taps(side: Expression, scaled: Expression) -> tuple[Expression, Expression]:
    positions = (side.graph.range(scaled) + 0.5) * (side / scaled) - 0.5
    first = math.floor(positions)
    return first, positions - first


def _find_area_taps(side: Expression, scaled: Expression) -> tuple[Expression, Expression]:
    """Those of `AREA` where a side grows: a pixel that covers a result is copied.

    Which one that is depends on OpenCV's roundings: its factor is 1 / (1 / factor), and its weight a float32.
    """
    index, growth = side.graph.range(scaled), scaled / side
    # ONNX Runtime would make index * (1 / growth) a division, which rounds once less.
    first = math.floor(index * growth.apply("Reciprocal")).at_most(side - 1)
    second = ((index + 1) - (first + 1) * growth).cast(np.float32)
    return first, ((second - second.apply("Floor")) * (second > 0).cast(np.float32)).cast(np.float64)


def _scale_linearly(pixels: Expression, height: Expression, width: Expression, find_taps: FindTaps) -> Expression:
    graph, channels = pixels.graph, pixels.size(2)
    from_height, from_width = pixels.size(0), pixels.size(1)
    first_rows, down = find_taps(from_height, height)
    first_columns, across = find_taps(from_width, width)
    top, bottom = _clamp_pair(first_rows, from_height)
    left, right = _clamp_pair(first_columns, from_width)
    # A picture that shrinks to less than half its height uses fewer rows than it has: first all top ones, then all
    # bottom ones. Else all rows are taken, in their order.
    candidates = graph.node("Concat", graph.range(from_height), top, bottom, dtype=np.int64, axis=0)
    is_fewer = height * 2 < from_height
    count = graph.where(is_fewer, height * 2, from_height)
    rows = pixels.take(candidates.slice((graph.where(is_fewer, from_height, 0),), (count,), (0,)), 0)
    # Along the rows: each column of the result from two columns of the picture.
    columns = rows.reshape(count, from_width * channels).transpose(1, 0).reshape(from_width, channels * count)
    weight = _to_eleven_bits(across)
    left_levels = columns.take(left, 0).cast(np.float32)
    right_levels = columns.take(right, 0).cast(np.float32)
    sums = left_levels * ((2048 - weight) * (1 / 16)) + right_levels * (weight * (1 / 16))
    sums = sums.cast(np.int32).cast(np.float32)
    # Down the columns: each row of the result from two of these rows.
    rows = sums.reshape(width * channels, count).transpose(1, 0)
    weight = _to_eleven_bits(down)
    above = graph.where(is_fewer, graph.range(height), top)
    below = graph.where(is_fewer, graph.range(height) + height, bottom)
    above_levels, above_weight = rows.take(above, 0), 2048 - weight
    below_levels = rows.take(below, 0)
    above_share = (above_levels * (above_weight * (1 / 65536))).cast(np.int32)
    below_share = (below_levels * (weight * (1 / 65536))).cast(np.int32)
    levels = to_bytes((above_share + below_share).cast(np.float32) + 0.5, 4)
    return move_channels_first(levels.reshape(height, width, channels))


def _clamp_pair(first: Expression, side: Expression) -> tuple[Expression, Expression]:
    """Pixels and those after them, inside of the picture."""
    second = first + 1
    return first.at_least(0).at_most(side - 1), second.at_least(0).at_most(side - 1)


def _to_eleven_bits(weights: Expression) -> Expression:
    """Weights from 0 to 1 as a column of whole numbers from 0 to 2048."""
    return (weights * 2048).apply("Round").cast(np.float32).reshape(-1, 1)


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
    graph = pixels.graph
    from_height, from_width, channels = (pixels.size(axis) for axis in range(3))
    kernel, is_exact = _FILTERS[contract.kernel], contract.exact or not KERNELS[contract.kernel].fast
    unit = graph.constant(2.0**22, np.float64) if is_exact else None

    def scale_both_sides(is_fine: bool) -> Expression:
        scale = partial(_scale_rows, kernel=kernel, unit=unit, is_fine=is_fine)
        rows = pixels.reshape(from_height, from_width * channels)
        if is_height_first:
            columns = _transpose_to(scale(rows, height), from_width)
            return _transpose_to(scale(columns, width), channels * height).reshape(channels, height, width)
        columns = scale(_transpose_to(rows, from_width), width)
        rows = _transpose_to(columns.reshape(width * channels, from_height), from_height)
        return move_channels_first(scale(rows, height).reshape(height, width, channels))

    # What differs by a level after the first side may differ by two after a side that grows, and as Windows ML's gray.
    if is_exact or contract.pixel_format is BitmapPixelFormat.GRAY8:
        return scale_both_sides(is_fine=True)
    shrinks = (height <= from_height) & (width <= from_width)
    return graph.either(shrinks, lambda: scale_both_sides(is_fine=False), lambda: scale_both_sides(is_fine=True))


def _scale_rows(
    rows: Expression, row_count: Expression, kernel: _Filter, unit: Expression | None, is_fine: bool
) -> Expression:
    """Scales a matrix of bytes to so many rows, and rounds them to bytes."""
    plan = _plan_row_scaling(rows, row_count, kernel, unit, is_fine)
    (scaled,) = plan.run(lambda step: [_round_half_up(*plan.compute_sums(rows, step))])
    return scaled


def _scale_then_round(pixels: Expression, height: Expression, width: Expression, kernel: _Filter) -> Expression:
    """Scales both sides, and rounds once, as OpenCV does. Between them, a number has two bytes: see `_to_two_bytes`."""
    graph = pixels.graph
    from_height, from_width, channels = (pixels.size(axis) for axis in range(3))
    rows = pixels.reshape(from_height, from_width * channels)
    unit = graph.constant(2.0**15, np.float64)
    if kernel is _CUBIC:  # OpenCV's weights are floats, but have 11 bits where a side is too short for its quick way
        unit = graph.where(from_height.at_most(from_width) < 4, 2.0**11, unit)
    down = _plan_row_scaling(rows, height, kernel, unit)
    coarse_rows, fine_rows = down.run(lambda step: _to_two_bytes(*down.compute_sums(rows, step)))
    coarse, fine = _transpose_to(coarse_rows, from_width), _transpose_to(fine_rows, from_width)
    across = _plan_row_scaling(coarse, width, kernel, unit)
    if kernel is _AREA:
        # The weights of `_weigh_by_area` are in powers of two: OpenCV's factor, a float32, is the rest. It rounds
        # halves to even, but up for squares of four pixels.
        shrink_down, shrink_across = from_height / height, from_width / width
        factor = (1 / (shrink_down * shrink_across)).cast(np.float32)
        factor = factor * _find_power_of_two(shrink_down, range(21)).cast(np.float32)
        factor = factor * _find_power_of_two(shrink_across, range(21)).cast(np.float32)
        is_square_of_four = shrink_down.equals(2.0) & shrink_across.equals(2.0)
        summand = is_square_of_four.cast(np.float32) * 0.125

    def compute_levels(step: Expression) -> list[Expression]:
        # The inverse of `_to_two_bytes`: c * 2 + f / 128 - 65, where 65 is multiplied by all weights of a result.
        offset = across.weights[0].take(step, 0).sum(2, keepdims=True) * 65.0
        coarse_sums = across.compute_sums(coarse, step)[0] * 2.0
        fine_sums = across.compute_sums(fine, step)[0] * (1 / 128)
        sums = coarse_sums + fine_sums - offset
        return [to_bytes(sums * factor + summand if kernel is _AREA else sums)]

    (scaled,) = across.run(compute_levels)
    return _transpose_to(scaled, channels * height).reshape(channels, height, width)


def _transpose_to(matrix: Expression, row_count: Expression) -> Expression:
    """Exchanges a matrix's sides, and reshapes it to so many rows."""
    return matrix.transpose(1, 0).reshape(row_count, -1)


def _round_half_up(sums: Expression, rest: Expression | None = None) -> Expression:
    """The nearest levels, halves up, of sums of 2**-15, and of a rest of 2**-22."""
    if rest is None:
        return to_bytes(sums + 2**-16)  # no sum lies between two levels then
    whole = (sums + 0.5).apply("Floor")
    return to_bytes(whole + ((sums - whole + 0.5) + rest).apply("Floor"))


def _to_two_bytes(numbers: Expression) -> list[Expression]:
    """Numbers of -64 to 446 as c and f: c * 2 + f / 128 - 65."""
    shifted = numbers + 64
    coarse = to_bytes(shifted, 2)
    return [coarse, to_bytes(shifted - coarse.cast(np.float32) * 2, 1 / 128, 128)]


def to_bytes(numbers: Expression, unit: float = 1, zero: int = 0) -> Expression:
    """The nearest bytes, halves to even: numbers / unit + zero."""
    graph = numbers.graph
    parameters = graph.constant(unit, np.float32), graph.constant(zero, np.uint8)
    return graph.node("QuantizeLinear", numbers, *parameters, dtype=np.uint8)


_TILE = 8
"""How many result rows are made by one matrix."""

_TAPS = 4
"""How many pixels OpenCV's cubic kernel uses for a result."""

_AT_ONCE = 1 << 19
"""The most numbers that a step takes, unless one tile has more."""


class _RowScaling(NamedTuple):
    """The scaling of a matrix's rows, in steps that work on what fits into a processor's cache.

    A result row is a weighted sum of source rows. A tile is `_TILE` result rows, and the source rows that they use: one
    matrix of weights for all rows would be nearly all zeros, and take twenty times as long. A step makes some tiles.

    Attributes:
        step_count: how many steps there are.
        source_rows: steps x tiles x the source rows of a tile.
        weights: steps x tiles x `_TILE` x source rows; two, if the rest of the weights has a matrix of its own.
        row_count: the number of result rows.
        row_length: the length of a row.
    """

    step_count: Expression
    source_rows: Expression
    weights: tuple[Expression, ...]
    row_count: Expression
    row_length: Expression

    def run(self, make_rows: Callable[[Expression], Sequence[Expression]]) -> tuple[Expression, ...]:
        """The result rows that a function makes in each step; of each of its values."""
        stacks = self.step_count.graph.loop(self.step_count, make_rows)
        return tuple(stack.reshape(-1, self.row_length).slice((0,), (self.row_count,), (0,)) for stack in stacks)

    def compute_sums(self, rows: Expression, step: Expression) -> list[Expression]:
        """The sums of one step with each matrix of weights: tiles x `_TILE` x row."""
        used = rows.take(self.source_rows.take(step, 0), 0).cast(np.float32)
        return [rows.graph.node("MatMul", matrix.take(step, 0), used, dtype=np.float32) for matrix in self.weights]


def _plan_row_scaling(
    rows: Expression, row_count: Expression, kernel: _Filter, unit: Expression | None, is_fine: bool = False
) -> _RowScaling:
    """The scaling of these rows to `row_count` rows. `unit` and `is_fine` are those of `_quantize_weights`."""
    graph, side, length = rows.graph, rows.size(0), rows.size(1)
    scale = side / row_count

    # The kernel's reach, in source rows, and the window: how many consecutive source rows a tile may use. OpenCV's
    # kernel, which is not stretched, uses up to two rows beyond the edge, where the last row is repeated.
    stretch = scale.at_least(1.0) if kernel.is_stretched else graph.constant(1, np.float64)
    reach = stretch * kernel.radius
    rows_beyond = 0 if kernel.is_stretched else 2
    window = (scale * _TILE + reach * 2 + 2).cast(np.int64).at_most(side + 2 * rows_beyond)
    if kernel is _CUBIC:
        # Where a picture shrinks much, the window is sparse: it has only the four rows of each result.
        is_sparse = scale > _TAPS
        window = graph.where(is_sparse, _TILE * _TAPS, window)

    # How many tiles a step makes. All steps make as many, so the last one may make some that nobody needs.
    needed_tiles = (row_count + (_TILE - 1)) // _TILE
    tiles_per_step = (graph.constant(_AT_ONCE, np.int64) // (window * length)).at_least(1).at_most(needed_tiles)
    step_count = (needed_tiles + (tiles_per_step - 1)) // tiles_per_step
    tiles = step_count * tiles_per_step

    # The first source row of each tile, where the kernel of its first result begins.
    first_rows = (graph.range(tiles) * _TILE).cast(np.float64) * scale + (scale * 0.5 - reach)
    first_rows = math.floor(first_rows).at_least(-rows_beyond).at_most(side + rows_beyond - window)

    # The centre of each result in the source: tiles x `_TILE`.
    centres = ((graph.range(tiles * _TILE).at_most(row_count - 1) + 0.5) * scale).reshape(tiles, _TILE)

    # The source rows of each tile: tiles x window.
    columns = graph.range(window)
    source_rows = first_rows.unsqueeze(1) + columns
    if kernel is _CUBIC:
        # Of a sparse window, the first four columns are the rows of the tile's first result, and so on.
        result_of_column = (columns // _TAPS).at_most(_TILE - 1)
        taps = math.floor(centres.take(result_of_column, 1) - 0.5) + (columns % _TAPS - 1)
        source_rows = graph.where(is_sparse, taps, source_rows)

    # The weight of each source row for each result of the tile: tiles x `_TILE` x window.
    positions = source_rows.unsqueeze(1).cast(np.float64)
    centres = centres.unsqueeze(2)
    if kernel is _AREA:
        weights = _weigh_by_area(positions, centres, scale)
    elif kernel is _CUBIC:
        weights = kernel.weight_at((positions - centres + 0.5) * (1.0 / stretch))
        results = graph.constant(np.arange(_TILE).reshape(-1, 1), np.int64)
        is_of_another = abs(result_of_column - results) > 0
        weights = graph.where(is_sparse & is_of_another, 0.0, weights)
    else:
        weights = _weigh_like_pillow(kernel, positions, centres, stretch, reach)

    matrices = _quantize_weights(weights, unit, is_fine)

    # Source rows and weights, by step.
    source_rows = source_rows.at_least(0).at_most(side - 1).reshape(step_count, tiles_per_step, window)
    shape = step_count, tiles_per_step, _TILE, window
    stacks = tuple(matrix.cast(np.float32).reshape(*shape) for matrix in matrices)
    return _RowScaling(step_count, source_rows, stacks, row_count, length)


def _weigh_by_area(positions: Expression, centres: Expression, scale: Expression) -> Expression:
    """How much of each pixel a result covers, in a power of two."""
    covered = (centres + scale * 0.5).at_most(positions + 1) - (centres - scale * 0.5).at_least(positions)
    return covered.at_least(0.0) / _find_power_of_two(scale, range(21))


def _weigh_like_pillow(
    kernel: _Filter, positions: Expression, centres: Expression, stretch: Expression, reach: Expression
) -> Expression:
    """Pillow's weights, whose sum is 1.

    They are float64: a box's edge often lies between two pixels, and rounding would move it.
    """
    weights = kernel.weight_at((positions - centres + 0.5) * (1.0 / stretch))
    first, end = ((centres + (reach * sign + 0.5)).apply("Floor") for sign in (-1, 1))
    weights = weights.graph.where((positions >= first) & (positions < end), weights, 0.0)
    return weights / weights.sum(2, keepdims=True)


def _quantize_weights(weights: Expression, unit: Expression | None, is_fine: bool) -> tuple[Expression, ...]:
    """Weights as multiples of 1 / `unit`: as one matrix, or if `is_fine` as one of multiples of 2**-15 and their rest.

    Without a unit, it is cykooz-resizer's, and 2**15 at most if not `is_fine`.
    """
    if unit is None:
        unit = _find_unit_of_resizer(weights)
        if not is_fine:
            return (_quantize_to_one(weights, unit),)
    weights = _round_to_multiples(weights, unit)
    if not is_fine:
        return (weights,)
    coarse = (weights * 2.0**15).apply("Round") * 2.0**-15
    return coarse, weights - coarse


def _find_unit_of_resizer(weights: Expression) -> Expression:
    """The unit of cykooz-resizer's weights: the largest one has 15 bits."""
    largest = weights.graph.node("ReduceMax", weights, dtype=np.float64, keepdims=0)
    return _find_power_of_two((2.0**14 - 0.25) / largest, range(14, 22))


def _quantize_to_one(weights: Expression, unit: Expression) -> Expression:
    """Weights as multiples of 1 / `unit`; where that is finer than 2**-15, as multiples of 2**-15 that add up to 1.

    For those, the sum up to each pixel is rounded.
    """
    graph = weights.graph
    axis = graph.constant(2, np.int64)
    sums = graph.node("CumSum", weights, axis, dtype=np.float64, exclusive=0)
    sums_before = graph.node("CumSum", weights, axis, dtype=np.float64, exclusive=1)
    rounded, rounded_before = _round_to_multiples(sums, 2.0**15), _round_to_multiples(sums_before, 2.0**15)
    is_finer = unit > 2.0**15
    return graph.where(is_finer, rounded - rounded_before, _round_to_multiples(weights, unit))


def _round_to_multiples(weights: Expression, unit: Expression | float) -> Expression:
    """Weights as multiples of 1 / `unit`; a bit more than a half is added, so that rounding errors decide nothing."""
    return (weights * unit + 0.500001).apply("Floor") / unit


def _find_power_of_two(number: Expression, exponents: range) -> Expression:
    """The least of these powers of two that is not below a number; else the greatest of them."""
    graph = number.graph
    powers = graph.constant([2.0**exponent for exponent in exponents], np.float64)
    candidates = graph.where(powers < number, 2.0 ** exponents[-1], powers)
    return graph.node("ReduceMin", candidates, dtype=np.float64, keepdims=0)


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
