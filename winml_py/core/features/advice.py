"""What to do about a value that fits no feature: the hints of the errors of `bind`.

A hint is code where it can be, and following it binds the value as its owner meant it. No hint reshapes an array:
reshaping a picture of height x width x channels would scramble it.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from ...enums import TensorKind
from ..base.messages import type_name
from .descriptors import (
    FeatureDescriptor,
    ImageFeatureDescriptor,
    SequenceFeatureDescriptor,
    ShapedDescriptor,
    TensorFeatureDescriptor,
    format_kind,
)
from .files import is_file
from .tensor import Tensor
from .tensor_classes import TENSOR_CLASSES

Shape = tuple[int, ...]

_CHANNELS = (1, 3, 4)


def takes_picture(descriptor: FeatureDescriptor) -> TypeGuard[ShapedDescriptor]:
    """Whether a feature has the rank of a picture, and float elements."""
    if not isinstance(descriptor, ShapedDescriptor):
        return False
    return len(descriptor.shape) == 4 and descriptor.tensor_kind in (TensorKind.FLOAT, TensorKind.FLOAT16)


def describe_value(value: object) -> str:
    """A value of a wrong type, for the error's message."""
    name = type_name(value)
    if isinstance(value, np.ndarray):
        return "an array of objects" if value.dtype.kind == "O" else f"an array of {value.dtype}"
    if isinstance(value, (list, tuple)):
        return f"{name} of {type_name(value[0])}" if value else f"an empty {name}"
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return f"{name} {value!r}" if len(repr(value)) < 40 else name
    return name


def make_value_hint(value: Any, descriptor: FeatureDescriptor) -> str:
    """What to bind in place of a value that is no tensor, picture, map or sequence for a feature."""
    if isinstance(value, np.ndarray) and not value.dtype.isnative:
        return 'Convert it to native byte order: array.astype(array.dtype.newbyteorder("=")).'
    if value is None:
        return "OpenCV's imread returns None if it cannot read a file, as does dict.get if a key is missing."
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    if len(getattr(descriptor, "shape", ())) == 4 and is_file(first, descriptor):
        return "To bind a picture file, pass ImageFeatureValue.load(path)."
    if isinstance(descriptor, ImageFeatureDescriptor):
        return "Bind an ImageFeatureValue, a VideoFrame, a Pillow image or an array."
    if isinstance(descriptor, TensorFeatureDescriptor):
        tensor_class = TENSOR_CLASSES.get(descriptor.tensor_kind)
        if tensor_class is None:
            return make_type_hint(descriptor)
        name, elements = tensor_class.__name__, "its elements"
        if tensor_class.dtype.kind in "iu":
            limits = np.iinfo(tensor_class.dtype)
            elements = f"whole numbers from {limits.min} to {limits.max}"
        elif tensor_class.dtype.kind == "f":
            elements = f"numbers from {np.finfo(tensor_class.dtype).min:g} to {np.finfo(tensor_class.dtype).max:g}"
        if isinstance(value, float) and tensor_class.dtype.kind in "iu":
            return f"The feature takes whole numbers: bind int({value!r}), or {name}.from_numpy(array)."
        if isinstance(value, (list, tuple)) and not value:
            return "Bind an array, because an empty list has no shape."
        kind = "str" if tensor_class.dtype.kind == "O" else tensor_class.dtype.name
        return (
            f"Bind a numpy array of {kind}, a tensor such as {name}.from_numpy(array), or a list of {elements}, with "
            "rows of equal length."
        )
    if isinstance(descriptor, SequenceFeatureDescriptor):
        return "Bind a list whose elements have these types."
    return "Bind a dict whose keys and values have these types."


def make_kind_hint(value: Tensor, descriptor: ShapedDescriptor) -> str:
    """What to bind in place of a tensor of another element type."""
    tensor_class = TENSOR_CLASSES.get(descriptor.tensor_kind)
    if tensor_class is None:
        return make_type_hint(descriptor)
    dtype, shape = tensor_class.dtype, tuple(value.shape)
    # Cast alone, levels stay 0 to 255, and the model would answer wrongly without an error.
    if value.tensor_kind == TensorKind.UINT8 and isinstance(descriptor, ImageFeatureDescriptor):
        levels = descriptor.contract.pixel_range.name.lower().replace("_", " ")
        return (
            f"Bind a picture: {describe_picture(shape)}. Or scale the numbers to {levels} yourself and "
            f"bind them as {dtype.name}, because tensors are bound unchanged."
        )
    if value.tensor_kind == TensorKind.UINT8 and takes_picture(descriptor):
        return (
            "If this is a picture, first specify the contract that the model was trained with: "
            f"model.contracts[{descriptor.name!r}] = ImageContract.imagenet(), another preset, or ImageContract(...). "
            f"Then bind {describe_picture(shape)}."
        )
    fits = value.is_placeholder or not getattr(descriptor, "has_rank", True)
    mismatch = "" if fits else _describe_wrong_sizes(shape, tuple(descriptor.shape))
    code = _arrange(shape, tuple(descriptor.shape)) if mismatch else ""
    cast = f"array{_cast(tensor_class)}{code}"
    if value.tensor_kind == TensorKind.INT16 and dtype.kind == "f":
        return f"Bind {dtype.name}. For 16-bit audio, use {cast} / 32768; otherwise, use {cast}."
    condition = _PREPARED if code in _MOVE_CHANNELS else ""
    if dtype.kind in "iu" and type(value).dtype.kind in "fiu" and not np.can_cast(type(value).dtype, dtype):
        limits = np.iinfo(dtype)
        condition = f" if its values are whole numbers from {limits.min} to {limits.max}"
    kind = "str" if dtype.kind == "O" else dtype.name
    hint = f"Bind a {tensor_class.__name__}, or an array of {kind}: {cast}{condition}."
    return f"{hint} {describe_size_mismatch(shape, descriptor)}" if mismatch and not code else hint


def _cast(tensor_class: type[Tensor]) -> str:
    return f".astype({'str' if tensor_class.dtype.kind == 'O' else f'np.{tensor_class.dtype.name}'})"


def make_type_hint(descriptor: ShapedDescriptor) -> str:
    """What to do about an element type for which there is no tensor class."""
    onnx_type = getattr(descriptor, "onnx_type", "")
    if not onnx_type:
        return f"Windows ML has no tensor class for {format_kind(descriptor.tensor_kind)}."
    return (
        f"Windows ML has no {onnx_type} tensors. In the model, make {descriptor.name} float32 and add a Cast to "
        f"{onnx_type} after it. Then bind array.astype(np.float32)."
    )


def describe_size_mismatch(sizes: Shape, descriptor: ShapedDescriptor) -> str:
    """How a tensor's sizes differ from a feature's, and what to do; "" where they fit."""
    expected = tuple(descriptor.shape)
    wrong = _describe_wrong_sizes(sizes, expected)
    if not wrong or not sizes or not expected:
        return wrong
    # Only the batch is another, and this is no column that is meant as a row.
    if expected[0] == 1 and max(sizes[1:], default=1) > 1 and not _describe_wrong_sizes(sizes[1:], expected[1:]):
        return f"{wrong} Bind one row at a time, or set options.batch_size_override = 0 to leave the batch free."
    if code := _arrange(sizes, expected):
        return f"{wrong} Bind array{code}{_PREPARED if code in _MOVE_CHANNELS else ''}."
    return f"{wrong} Bind an array of shape {_format_sizes(expected)}."


_MOVE_CHANNELS = (".transpose(2, 0, 1)[None]", ".transpose(0, 3, 1, 2)")
_PREPARED = " if its values are already prepared for the model; otherwise, bind a uint8 picture"


def _arrange(sizes: Shape, expected: Shape) -> str:
    """The code that follows the name of an array so that it fits: adds a batch, and moves a picture's channels."""
    options = {"[None]": (1, *sizes)}
    if expected[1:2] == (1,):
        options["[None, None]"] = (1, 1, *sizes)
    if len(expected) == 4 and len(sizes) in (3, 4) and sizes[-1] in _CHANNELS and sizes[-3] not in _CHANNELS:
        first = (*sizes[:-3], sizes[-1], *sizes[-3:-1])
        options = {_MOVE_CHANNELS[0]: (1, *first), _MOVE_CHANNELS[1]: first} | options
    return next((code for code, arranged in options.items() if not _describe_wrong_sizes(arranged, expected)), "")


def _describe_wrong_sizes(sizes: Shape, expected: Shape) -> str:
    """Which sizes differ; a free size of the feature takes any, and a placeholder may leave a size free, too."""
    if len(sizes) == len(expected):
        pairs = enumerate(zip(sizes, expected, strict=True))
        wrong = [(axis, size, other) for axis, (size, other) in pairs if size != other and -1 not in (size, other)]
        return " ".join(f"Dimension {axis} is {size}, not {other}." for axis, size, other in wrong)
    ranks = f"Expected rank {len(expected)}, got {len(sizes)}"
    if not expected:
        return f"{ranks}: bind the number itself, not a list or an array."
    return f"{ranks}." if sizes else f"{ranks}: bind an array of shape {_format_sizes(expected)}, not a single number."


def _format_sizes(sizes: Shape) -> str:
    return " x ".join("any" if size == -1 else str(size) for size in sizes)


def describe_picture(sizes: Shape) -> str:
    """The code that makes pictures of an array of bytes, for either order of the channels."""
    array = "array" if len(sizes) < 4 else "array[0]" if sizes[0] == 1 else "each"
    is_first = len(sizes) > 2 and sizes[-3] in _CHANNELS and sizes[-1] not in _CHANNELS
    channels = 1 if len(sizes) < 3 else sizes[-3] if is_first else sizes[-1]
    name, other = {1: ("GRAY8", ""), 4: ("RGBA8", "BGRA8")}.get(channels, ("RGB8", "BGR8"))
    code = f"ImageFeatureValue.from_array({array}{'.transpose(1, 2, 0)' * is_first}, BitmapPixelFormat.{name})"
    code = f"[{code} for each in array]" if array == "each" else code
    return f"{code} ({other} for arrays from OpenCV)" if other else code
