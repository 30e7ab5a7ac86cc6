"""What to do about a value that fits no feature: the hints of the errors of `bind`.

A hint is code where it can be, and following it binds the value as its owner meant it. Shapes are compared before
anything is reshaped: reshaping a picture of height x width x channels would scramble it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any, TypeGuard

import numpy as np

from ...enums import TensorKind
from ..base.arrays import DType
from ..base.messages import type_name
from .containers import is_element
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
_MAX_DEPTH = 32  # of lists in lists: numpy has no more dimensions than 64, and a list may hold itself


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
        return 'Convert it to the byte order of this machine: array.astype(array.dtype.newbyteorder("=")).'
    if value is None:
        return "OpenCV's imread returns None if it cannot read a file, and dict.get if a key is missing."
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    if len(getattr(descriptor, "shape", ())) == 4 and is_file(first, descriptor):
        return "To bind a picture file, pass ImageFeatureValue.load(path)."
    if isinstance(descriptor, ShapedDescriptor) and (hint := _make_array_hint(value, descriptor)):
        return hint
    misfit = ""
    if isinstance(descriptor, ShapedDescriptor) and isinstance(value, (list, tuple)):
        misfit = _describe_misfit(value, descriptor)
    if isinstance(descriptor, ImageFeatureDescriptor):
        if misfit:
            return f"Bind pictures, or an array of numbers; {misfit}."
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
        hint = f"Bind a numpy array, a tensor such as {name}.from_numpy(array), or a list of {elements}"
        return f"{hint}; {misfit}." if misfit else f"{hint}."
    if isinstance(descriptor, SequenceFeatureDescriptor):
        return "Bind a list of elements of these types."
    return "Bind a dict of keys and values of these types."


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
            f"Bind a picture: {describe_picture(shape)}. Or scale the numbers to {levels} yourself, as "
            f"{dtype.name}, because a tensor is bound unchanged."
        )
    if value.tensor_kind == TensorKind.UINT8 and takes_picture(descriptor):
        return (
            "If this is a picture, first specify the contract that the model was trained with: "
            f"model.contracts[{descriptor.name!r}] = ImageContract.imagenet(), another preset, or ImageContract(...). "
            f"Then bind {describe_picture(shape)}."
        )
    code = "" if value.is_placeholder else arrange(shape, descriptor)
    cast = _cast("array", dtype) + (code or "")
    cast += _describe_pixels(shape, descriptor)
    if value.tensor_kind == TensorKind.INT16 and dtype.kind == "f":
        return f"Bind {dtype.name}. For 16-bit sound, use {cast} / 32768; otherwise, use {cast}."
    if dtype.kind in "iu" and type(value).dtype.kind in "fiu" and not np.can_cast(type(value).dtype, dtype):
        limits = np.iinfo(dtype)
        cast += f" if its numbers are whole, from {limits.min} to {limits.max}"
    hint = f"Bind a {tensor_class.__name__}, or an array of {'str' if dtype.kind == 'O' else dtype.name}: {cast}."
    return hint if code is not None else f"{hint} {describe_size_mismatch(shape, descriptor)}"


def make_type_hint(descriptor: ShapedDescriptor) -> str:
    """What to do about an element type for which there is no tensor class."""
    onnx_type = getattr(descriptor, "onnx_type", "")
    if not onnx_type:
        return f"Windows ML has no tensor class for {format_kind(descriptor.tensor_kind)}."
    return (
        f"Windows ML has no tensors of {onnx_type}. In the model, make {descriptor.name} float32 and add a Cast to "
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
        return f"{wrong} Bind one row at a time, or to leave the batch free, set options.batch_size_override = 0."
    pixels = _describe_pixels(sizes, descriptor)
    code = arrange(sizes, descriptor)
    if code:
        return f"{wrong} Bind array{code}{pixels}."
    axis = next((axis for axis in (1, 3) if len(expected) == 4 and expected[axis] in _CHANNELS), None)
    if axis == 1 and expected[1] == 3 and arrange((3, *sizes), descriptor) == "[None]":
        return f"{wrong} For a gray picture, bind np.stack([array] * 3)[None]."
    if axis is None or not _is_channels_last(sizes):
        return f"{wrong} The model takes {' x '.join('any' if size == -1 else str(size) for size in expected)}."
    # A picture whose other sizes do not fit either.
    any_size = tuple(size if place == axis else -1 for place, size in enumerate(expected))
    alpha = "[..., :3]" if (sizes[-1], expected[axis]) == (4, 3) else ""
    for code, arranged in _list_arrangements((*sizes[:-1], 3) if alpha else sizes, 4):
        if _describe_wrong_sizes(arranged, any_size) or not alpha + code:
            continue
        if not (remaining := _describe_wrong_sizes(arranged, expected)):
            return f"{wrong} Bind array{alpha}{code}{pixels}."
        is_batch = not _describe_wrong_sizes(arranged[1:], expected[1:])
        remedy = "Bind the pictures one at a time" if is_batch else "Resize the picture first"
        return f"{wrong} As array{alpha}{code}: {remaining} {remedy}{pixels}."
    return f"{wrong} The model takes {expected[axis]} channels."


def _describe_wrong_sizes(sizes: Shape, expected: Shape) -> str:
    """Which sizes differ; a free size of the feature takes any, and a placeholder may leave a size free, too."""
    if len(sizes) == len(expected):
        pairs = enumerate(zip(sizes, expected, strict=True))
        wrong = [(axis, size, other) for axis, (size, other) in pairs if size != other and -1 not in (size, other)]
        return " ".join(f"Dimension {axis} is {size}, not {other}." for axis, size, other in wrong)
    ranks = f"Expected rank {len(expected)}, got {len(sizes)}"
    if not expected:
        return f"{ranks}: bind the number without a list or an array around it."
    shape = " x ".join("any" if size == -1 else str(size) for size in expected)
    return f"{ranks}." if sizes else f"{ranks}: bind an array of shape {shape}, not a single number."


def arrange(sizes: Shape, descriptor: ShapedDescriptor) -> str | None:
    """The code that follows the name of an array of these sizes so that it fits a feature: `.transpose(2, 0, 1)[None]`.

    "" if it fits already; None if nothing makes it fit that leaves the elements of a row together.
    """
    expected = tuple(descriptor.shape)
    if not getattr(descriptor, "has_rank", True) or not _describe_wrong_sizes(sizes, expected):
        return ""
    if 0 in sizes:
        return None
    for code, arranged in _list_arrangements(sizes, len(expected)):
        if not _describe_wrong_sizes(arranged, expected):
            return code
    # Reshaping is harmless where it only merges or splits neighbouring axes.
    fixed = math.prod(size for size in expected if size != -1)
    if expected.count(-1) > 1 or fixed == 0 or math.prod(sizes) % fixed:
        return None
    target = tuple(math.prod(sizes) // fixed if size == -1 else size for size in expected)
    strides, others = ({math.prod(shape[:end]) for end in range(len(shape) + 1)} for shape in (sizes, target))
    if math.prod(sizes) != math.prod(target) or not (strides <= others or others <= strides):
        return None
    return f".reshape({', '.join(map(str, expected))}{',' * (len(expected) == 1)})"


def _list_arrangements(sizes: Shape, rank: int) -> Iterator[tuple[str, Shape]]:
    """Orders of an array's axes, the likeliest first, with axes of size 1 added up to a rank: code, and the sizes."""
    added = rank - len(sizes)
    if not 0 <= added <= 2 or len(sizes) > 4:
        return
    orders = list(permutations(range(len(sizes))))
    if rank == 4 and _is_channels_last(sizes):  # ONNX's pictures have their channels before height and width
        *batch, height, width, channels = range(len(sizes))
        orders.insert(0, (*batch, channels, height, width))
    for is_trailing in (False, True)[: 1 + bool(added)]:
        ones = [*("None",) * (added - is_trailing), *("...", "None") * is_trailing]
        for order in orders:
            code = ".T" if order == (1, 0) else f".transpose({', '.join(map(str, order))})"
            code = "" if order == tuple(range(len(sizes))) else code
            arranged = (1,) * (added - is_trailing) + tuple(sizes[axis] for axis in order) + (1,) * is_trailing
            yield code + f"[{', '.join(ones)}]" * bool(added), arranged


def _is_channels_last(sizes: Shape) -> bool:
    return len(sizes) in (3, 4) and sizes[-1] in _CHANNELS and sizes[-3] not in _CHANNELS


def _describe_pixels(sizes: Shape, descriptor: ShapedDescriptor) -> str:
    """For an array in the order of a file's decoder: when it can be bound as it is, and what to bind otherwise."""
    if not (takes_picture(descriptor) and len(sizes) == 3 and _is_channels_last(sizes)):
        return ""
    return (
        f" if its numbers are already prepared for the model. For a picture, bind {describe_picture(sizes)}. "
        "Convert numbers from 0 to 1 to bytes first: array = (array * 255).round().astype(np.uint8)"
    )


def describe_picture(sizes: Shape) -> str:
    """The code that makes pictures of an array of bytes, for either order of the channels."""
    array = "array" if len(sizes) < 4 else "array[0]" if sizes[0] == 1 else "each"
    is_first = len(sizes) > 2 and sizes[-3] in _CHANNELS and sizes[-1] not in _CHANNELS
    channels = 1 if len(sizes) < 3 else sizes[-3] if is_first else sizes[-1]
    name, other = {1: ("GRAY8", ""), 4: ("RGBA8", "BGRA8")}.get(channels, ("RGB8", "BGR8"))
    code = f"ImageFeatureValue.from_array({array}{'.transpose(1, 2, 0)' * is_first}, BitmapPixelFormat.{name})"
    code = f"[{code} for each in array]" if array == "each" else code
    return f"{code} ({other} for arrays from OpenCV)" if other else code


def _describe_ragged(rows: Any, depth: int = 0) -> str:
    """How rows differ in length, in any dimension; "" if they do not."""
    is_row = [hasattr(row, "__len__") and getattr(row, "ndim", 1) and not isinstance(row, (str, bytes)) for row in rows]
    if not any(is_row):
        return ""
    if not all(is_row):
        return "The list mixes rows and single elements. Bind rows of one length."
    lengths = list(dict.fromkeys(map(len, rows)))
    if len(lengths) > 1:
        return f"The rows of a tensor must have one length, but these have {lengths[0]} and {lengths[1]}. Pad them."
    are_lists = all(isinstance(row, (list, tuple)) for row in rows)
    is_deeper = are_lists and depth < _MAX_DEPTH
    return _describe_ragged([part for row in rows for part in row], depth + 1) if is_deeper else ""


def _describe_misfit(values: Sequence[Any], descriptor: ShapedDescriptor, place: str = "") -> str:
    """The first element of a list, or of its lists, that cannot be an element of a feature; "" if there is none."""
    for index, element in enumerate(values):
        here = f"{place}[{index}]"
        if isinstance(element, (list, tuple)):
            if here.count("[") < _MAX_DEPTH and (misfit := _describe_misfit(element, descriptor, here)):
                return misfit
            continue
        # In a list for an image, objects of classes may be pictures.
        may_be_picture = isinstance(descriptor, ImageFeatureDescriptor) and type(element).__module__ != "builtins"
        if not may_be_picture and not is_element(element, descriptor.tensor_kind):
            return f"element {here if place else index} is {type_name(element)} {element!r:.40}"
    return ""


def _cast(array: str, dtype: DType) -> str:
    return f"{array}.astype({'str' if dtype.kind == 'O' else f'np.{dtype.name}'})"


def _make_array_hint(value: Any, descriptor: ShapedDescriptor) -> str:
    """What to bind in place of an array, or a list of rows; "" for other values."""
    tensor_class = TENSOR_CLASSES.get(descriptor.tensor_kind)
    if tensor_class is None:
        return ""
    dtype = tensor_class.dtype
    if isinstance(value, (list, tuple)) and value:
        if dtype.kind == "O" and all(isinstance(text, bytes) for text in value):
            return "Bind text: [text.decode() for text in values]."
        if hint := _describe_ragged(value):
            return hint
        try:
            array, code = np.stack([row.__array__() for row in value]), "np.stack(values)"
        except Exception:  # not arrays, of different shapes, or in a GPU's memory: each library raises its own classes
            return ""
    elif isinstance(value, np.ndarray):
        array, code = value, "array"
    else:
        return ""
    if array.dtype.kind == "S" and dtype.kind == "O":
        return f"Bind text: np.char.decode({code}){arrange(array.shape, descriptor) or ''}."
    if array.dtype.kind == "O":
        misfits = [element for element in array.flat if not is_element(element, descriptor.tensor_kind)]
        if misfits:
            found = f"{misfits[0]!r:.60} ({type_name(misfits[0])})"
            return f"The array contains {found}, which does not fit. Replace such elements first."
    elif array.dtype.kind not in "fiubUS" and array.dtype.type.__module__ != "ml_dtypes":
        return ""
    return f"Bind an array of {'str' if dtype.kind == 'O' else dtype.name}: {_cast(code, dtype)}" + (
        f"{arrange(array.shape, descriptor) or ''}."
    )
