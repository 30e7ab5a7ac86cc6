"""The page's view of an evaluation: as JSON, and as pictures."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._inputs.interpretation import Classes, Finder, PictureSeen, score_outputs, summarize, tensor_picture
from ..core.base.arrays import Array
from ..core.base.messages import Facts
from ..core.features.pictures import ImageFeatureValue
from ..core.features.tensor import Tensor
from ..core.imaging.bitmap import SoftwareBitmap, VideoFrame
from ..core.imaging.contract import ImageContract
from ..core.imaging.detensorize import detensorize, to_bytes
from ..core.imaging.picture_placement import PicturePlacement
from ..core.model.model import LearningModel
from ..enums import BitmapPixelFormat, TensorLayout
from .switches import describe
from .worker import Evaluated

if TYPE_CHECKING:
    from PIL.Image import Image

BINS = 48
"""The number of a histogram's bars."""

_MAX_NUMBERS = 256
"""The most numbers of an output in its table, and the most entries of a map or a sequence."""

_MAX_LETTERS = 1000
"""The most characters of a text."""

_MAX_OBJECTS = 100

_MAX_SIDE = 1600
"""The longer side, in pixels, of a picture that is only displayed."""

OWN, MODEL, NUMBERS = "own", "model", "numbers"
READINGS = (OWN, MODEL, NUMBERS)
"""How a tensor becomes a picture: its own contract undone; the model's undone; or the lowest number as black, the
highest as white, the first channel as red."""


# Numbers: range, mean, and distribution.


def number_facts(array: Array, has_histogram: bool = True) -> Facts:
    """The range and mean of finite numbers, and their histogram."""
    finite = array[np.isfinite(array)]
    facts: Facts = {"count": int(array.size), "not_finite": int(array.size - finite.size)}
    if not finite.size:
        return facts
    with np.errstate(over="ignore"):
        facts |= {"min": finite.min().item(), "max": finite.max().item(), "mean": float(finite.mean(dtype=np.float64))}
        width = float(facts["max"]) - float(facts["min"])
        if has_histogram and math.isfinite(width) and width / BINS > 0:
            facts["histogram"] = np.histogram(finite.astype(np.float64), BINS)[0].tolist()
    return facts


# The bound tensor: its numbers, and the picture that they represent.


def channel_names(contract: ImageContract) -> tuple[str, ...]:
    """The names of a tensor's channels, in order."""
    if contract.channels == 1:
        return ("gray",)
    names = ("red", "green", "blue")
    return names[::-1] if contract.pixel_format is BitmapPixelFormat.BGR8 else names


def tensor_facts(tensor: Array, contract: ImageContract) -> Facts:
    """The numbers of a picture's tensor, and of each channel."""
    planes = _planes(tensor, contract)
    channels = [
        {"name": name} | number_facts(plane, has_histogram=False)
        for name, plane in zip(channel_names(contract), planes, strict=True)
    ]
    return {"type": tensor.dtype.name, "shape": list(tensor.shape), "channels": channels} | number_facts(tensor)


def placement_facts(placement: PicturePlacement) -> Facts:
    """How a picture became a tensor: widths and heights, and the scale across and down.

    `taken` is the used part, `fills` its size in the tensor, and `seen` the tensor's edges in pixels of the picture
    (left, top, right, bottom), beyond which there is padding.
    """
    picture = (placement.picture_width, placement.picture_height)
    tensor = (placement.tensor_width, placement.tensor_height)
    seen = placement.boxes_to_picture([0, 0, *tensor]).tolist()
    scale = [tensor[axis] / (seen[axis + 2] - seen[axis]) for axis in (0, 1)]
    taken = [min(seen[axis + 2], picture[axis]) - max(seen[axis], 0) for axis in (0, 1)]
    return {
        "picture": picture,
        "taken": [round(side) for side in taken],
        "scale": scale,
        "fills": [round(side * factor) for side, factor in zip(taken, scale, strict=True)],
        "tensor": tensor,
        "seen": seen,
    }


def share_outside(tensor: Array, contract: ImageContract) -> float:
    """The share of a tensor's numbers that a contract maps to no level from 0 to 255."""
    outside = 0
    for plane, (factor, summand) in zip(_planes(tensor, contract), contract.affine(), strict=True):
        levels = (plane.astype(np.float64) - summand) / factor
        # Half a level is rounding; non-finite numbers are not levels.
        outside += int(np.count_nonzero(~((levels >= -0.5) & (levels <= 255.5))))
    return outside / max(1, int(tensor[0].size))


def _planes(tensor: Array, contract: ImageContract) -> Array:
    """Channels x height x width, of the first picture."""
    first = tensor[0]
    return first if contract.layout is TensorLayout.NCHW else np.moveaxis(first, -1, 0)


def tensor_as_picture(
    tensor: Array, contract: ImageContract, reading: str = OWN, model: ImageContract | None = None, channel: int = -1
) -> SoftwareBitmap:
    """The bound numbers as a picture.

    Args:
        tensor: the bound tensor.
        contract: the contract it was made with.
        reading: one of `READINGS`.
        model: the model's own contract, for that reading.
        channel: the channel to show in gray; -1 for all channels in colour.
    """
    planes = _planes(tensor, contract)
    if reading == NUMBERS:
        levels = _levels(planes)
        pixels = levels[channel] if channel >= 0 or len(levels) == 1 else np.moveaxis(levels, 0, -1)
        order = BitmapPixelFormat.GRAY8 if pixels.ndim == 2 else BitmapPixelFormat.RGB8
        return SoftwareBitmap.from_array(np.ascontiguousarray(pixels), order)
    if reading == MODEL and model is not None and model.channels == contract.channels:
        contract = replace(model, layout=contract.layout)  # the layout does not change how numbers are read
    height, width = planes.shape[1:]
    if channel >= 0:
        plane = np.empty((height, width), np.uint8)
        to_bytes(planes[channel], contract, channel, plane)
        return SoftwareBitmap.from_array(plane, BitmapPixelFormat.GRAY8)
    order = BitmapPixelFormat.GRAY8 if len(planes) == 1 else BitmapPixelFormat.BGRA8
    bitmap = SoftwareBitmap(order, width, height)
    detensorize(tensor[0], contract, bitmap)
    return bitmap


def _levels(planes: Array) -> Array:
    finite = planes[np.isfinite(planes)].astype(np.float64)
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    scaled = (np.nan_to_num(planes.astype(np.float64), nan=low, posinf=high, neginf=low) - low) / ((high - low) or 1.0)
    return np.asarray(np.rint(scaled * 255), np.uint8)


# Pictures as files.


def png_of(bitmap: SoftwareBitmap) -> bytes:
    """A picture as a lossless file."""
    file = io.BytesIO()
    bitmap.save(file, kind="PNG")
    return file.getvalue()


def small_file(image: Image) -> bytes:
    """A picture as a file for display, with at most 1600 pixels a side."""
    if max(image.size) > _MAX_SIDE:
        image.thumbnail((_MAX_SIDE, _MAX_SIDE))
    file, opaque = io.BytesIO(), image.convert("RGB")  # a tensor has no alpha channel, so the page shows none
    is_small = image.width * image.height <= 1 << 18
    opaque.save(file, "PNG") if is_small else opaque.save(file, "JPEG", quality=90)
    return file.getvalue()


# The answer.


AnswerPicture = SoftwareBitmap | bytes
"""A picture of an answer: a model's output, or a file with drawn objects."""


class AnswerFacts(NamedTuple):
    """A model's answer.

    Attributes:
        facts: for JSON: `outputs`, and the found `objects` or `regions`.
        kind: what code prints: "objects", "regions", "classes" or "outputs".
        pictures: the pictures, in the order of their numbers in the facts.
    """

    facts: Facts
    kind: str
    pictures: list[AnswerPicture]


def answer_of(
    evaluated: Evaluated,
    model: LearningModel,
    values: Mapping[str, object],
    labels: Sequence[str],
    contracts: Mapping[str, ImageContract],
) -> AnswerFacts:
    """The answer. Without labels, classes have the model's own."""
    result = evaluated.result
    labels = labels or model.labels
    finding = Finder(labels=labels).find(result)
    pictures: list[AnswerPicture] = []
    facts: Facts = {}
    if finding is not None:
        facts |= finding.facts
        if len(objects := facts.get("objects", ())) > _MAX_OBJECTS:
            facts |= {"objects": objects[:_MAX_OBJECTS], "more_objects": len(objects) - _MAX_OBJECTS}
        if finding.draw is not None:
            picture = next(value for value in values.values() if isinstance(value, ImageFeatureValue))
            facts["drawn"] = len(pictures)
            pictures.append(small_file(finding.draw(picture)))
    classes = Classes(None, labels, score_outputs(model))
    outputs = [_output_facts(name, value, classes, pictures) for name, value in result.outputs.items()]
    # As in `run`; the channel order is that of the page's first contract, which the model lacks.
    seen = PictureSeen.of(result, model, values)
    orders = [contract.pixel_format for contract in contracts.values() if contract.channels == 3]
    seen = seen._replace(order=orders[0]) if orders else seen
    if not pictures and (found := tensor_picture(result.outputs, seen)) is not None:
        one = next(output for output in outputs if output["name"] == found.name)
        one |= {"picture": len(pictures), "taken_for": describe(found.contract)}
        pictures.append(found.bitmap)
    facts["outputs"] = outputs
    has_classes = any("classes" in output for output in outputs)
    kind = next((name for name in ("objects", "regions") if name in facts), "classes" if has_classes else "outputs")
    return AnswerFacts(facts, kind, pictures)


def _output_facts(name: str, value: Any, classes: Classes, pictures: list[AnswerPicture]) -> Facts:
    facts: Facts = {"name": name}
    frame = value[0] if isinstance(value, list) and value and isinstance(value[0], VideoFrame) else value
    frame = frame.video_frame if isinstance(frame, ImageFeatureValue) else frame
    if isinstance(frame, VideoFrame):
        bitmap = frame.software_bitmap
        facts |= {"picture": len(pictures), "width": bitmap.pixel_width, "height": bitmap.pixel_height}
        pictures.append(bitmap)
        return facts
    if not isinstance(value, Tensor):
        return facts | {"other": _shorten(summarize(name, value, classes))}
    array = value.to_numpy()
    facts |= {"type": array.dtype.name, "shape": list(array.shape)}
    if best := classes.best(name, array):
        facts["classes"] = [{"index": one.index, "label": one.label, "score": one.score} for one in best]
        # Bars need a length: shares have their own.
        facts["are_shares"] = bool(array.min() >= 0 and array.max() <= 1)
    if array.dtype.kind in "fiub":
        facts["numbers"] = number_facts(array)
    flat = array.reshape(-1)[:_MAX_NUMBERS].tolist()
    return facts | {"values": _shorten(flat), "more": max(0, array.size - _MAX_NUMBERS)}


def _shorten(value: Any) -> Any:
    """A shortened version of values of any length."""
    if isinstance(value, str) and len(value) > _MAX_LETTERS:
        return f"{value[:_MAX_LETTERS]}… and {len(value) - _MAX_LETTERS} more letters"
    if isinstance(value, Mapping):
        pairs = list(value.items())
        more = {"…": f"and {len(pairs) - _MAX_NUMBERS} more"} if len(pairs) > _MAX_NUMBERS else {}
        return {_shorten(name): _shorten(item) for name, item in pairs[:_MAX_NUMBERS]} | more
    if isinstance(value, list):
        more_items = [f"… and {len(value) - _MAX_NUMBERS} more"] if len(value) > _MAX_NUMBERS else []
        return [_shorten(item) for item in value[:_MAX_NUMBERS]] + more_items
    return value
