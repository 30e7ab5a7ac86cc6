"""A contract as nodes: what a built-in contract and a device's tensorizer do to pixels, except for how they scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...enums import BitmapPixelFormat, ImageGray, TensorLayout
from ..onnx_file.expressions import Expression
from .contract import SCALE_AND_SHIFT, ImageContract, has_gray_padding, order_pad_levels
from .pixels import EXACT_LUMA_WEIGHTS, GRAY_WEIGHTS, LUMA_WEIGHTS, find_layout
from .tensorize import find_channel_order, make_gray_table

_GRAY = BitmapPixelFormat.GRAY8


def write_tensor(
    pixels: Expression,
    contract: ImageContract,
    source: BitmapPixelFormat,
    scale: Callable[[Expression], Expression],
    pad: Callable[[Expression, Expression], Expression] | None = None,
    *,
    batch_axes: int = 0,
) -> Expression:
    """Writes the nodes from pixels to the tensor, equivalent to `tensorize`.

    Args:
        pixels: uint8, height x width x channels.
        contract: how they become the tensor.
        source: their format.
        scale: gives the scaled planes, channels x height x width, of pixels.
        pad: adds padding to planes; its second argument is the level for each plane, or for all. None adds nothing.
        batch_axes: how many axes pixels and planes have before these.

    Returns:
        The numbers, float32, in the contract's layout.
    """
    graph, is_luma = pixels.graph, contract.gray is not ImageGray.WINDOWS
    if is_luma and not find_layout(source).is_gray:  # before scaling: see `tensorize`
        pixels, source = _mix_luma(pixels, contract, find_layout(source).rgb, batch_axes + 2).cast(np.uint8), _GRAY
    planes = scale(pixels)
    # Gray stays one plane, unless its padding is coloured: then the same weights must turn both gray.
    stays_gray = source is contract.pixel_format is _GRAY and (pad is None or has_gray_padding(contract))
    if not stays_gray:
        order = find_channel_order(source, contract)
        if order != tuple(range(find_layout(source).channels)):
            planes = planes.take(graph.constant(order, np.int64), batch_axes)
    if pad:
        levels = order_pad_levels(contract)[: 1 if has_gray_padding(contract) else 3]
        planes = pad(planes, graph.constant(np.reshape(levels, (-1, 1, 1)), np.float32))
    if stays_gray and not is_luma:
        planes = graph.constant(make_gray_table(), np.float32).take(planes.cast(np.int32), 0)
    elif contract.pixel_format is _GRAY and not stays_gray:
        if is_luma:
            planes = _mix_luma(planes, contract, (0, 1, 2), batch_axes)
        else:  # Windows ML's gray is mixed in float32, then truncated to an integer
            planes = planes.cast(np.float32).weighted_sum(GRAY_WEIGHTS, (0, 1, 2), batch_axes).apply("Floor")
    numbers = _normalize(planes.cast(np.float32), contract)
    if contract.layout is TensorLayout.NHWC:
        numbers = numbers.transpose(*range(batch_axes), *(batch_axes + axis for axis in (1, 2, 0)))
    return numbers


def _mix_luma(colours: Expression, contract: ImageContract, rgb: tuple[int, ...], axis: int) -> Expression:
    """The nearest levels of the contract's luma: see `ImageGray`."""
    if contract.gray is ImageGray.EXACT_LUMA:
        return colours.cast(np.float64).weighted_sum(EXACT_LUMA_WEIGHTS, rgb, axis).apply("Round")
    return (colours.cast(np.float32).weighted_sum(LUMA_WEIGHTS, rgb, axis) + 0.5).apply("Floor")


def _normalize(numbers: Expression, contract: ImageContract) -> Expression:
    """The tensor's number for each level, computed like `ImageContract.numbers`."""
    scale, shift = SCALE_AND_SHIFT[contract.pixel_range]
    steps = (("Div", (scale,), 1), ("Sub", (shift,), 0), ("Sub", contract.mean, 0), ("Div", contract.std, 1))
    for operator, operands, neutral in (*steps, ("Mul", contract.factor, 1)):
        if any(operand != neutral for operand in operands):
            operand = numbers.graph.constant(np.reshape(operands, (-1, 1, 1)), np.float32)
            numbers = numbers.graph.node(operator, numbers, operand, dtype=np.float32)
    return numbers
