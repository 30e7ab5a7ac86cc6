"""What the page shows of an evaluation: as JSON, as pictures, and as a Python program."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from .._interpretation import Classes, VisionInterpreter, find_channel_order, find_tensor_picture, summarize
from ..core.base.agreement import as_numpy
from ..core.base.arrays import Array
from ..core.base.messages import Facts
from ..core.features.pictures import ImageFeatureValue
from ..core.imaging.bitmap import SoftwareBitmap, VideoFrame
from ..core.imaging.contract import ImageContract
from ..core.imaging.detensorize import detensorize
from ..core.imaging.picture_placement import PicturePlacement
from ..core.model.model import LearningModel
from ..core.session.result import LearningModelEvaluationResult
from ..enums import BitmapPixelFormat, TensorLayout
from .open_model import Inputs, OpenModel, PictureOnDisk

_MAX_OBJECTS = 100

_MAX_SIDE = 1600
"""The longer side, in pixels, of a picture that is only displayed."""

_MAX_LOSSLESS = 1 << 20
"""The most pixels of a picture that is sent as a PNG."""

UNDONE, NUMBERS = "undone", "numbers"
READINGS = (UNDONE, NUMBERS)
"""How a tensor becomes a picture: its contract undone; or the lowest number as black, the highest as white, and the
first channel as red."""


def encode_picture(image: Image.Image) -> bytes:
    """A picture as a file for display."""
    opaque = image.convert("RGB")  # a tensor has no alpha channel, so the page shows none
    opaque.thumbnail((_MAX_SIDE, _MAX_SIDE))
    file = io.BytesIO()
    is_lossless = opaque.width * opaque.height <= _MAX_LOSSLESS
    opaque.save(file, "PNG") if is_lossless else opaque.save(file, "JPEG", quality=90)
    return file.getvalue()


# The bound tensor: its numbers, and the picture that they represent.


def describe_numbers(array: Array) -> Facts:
    """The range and the mean of the finite numbers, and how many are not finite."""
    finite = array[np.isfinite(array)]
    facts: Facts = {"not_finite": int(array.size - finite.size)}
    if finite.size:
        facts |= {"min": finite.min().item(), "max": finite.max().item(), "mean": float(finite.mean(dtype=np.float64))}
    return facts


def describe_tensor(tensor: Array, contract: ImageContract | None) -> Facts:
    """The type and numbers of a tensor; for a picture, also those of each channel."""
    facts: Facts = {"type": tensor.dtype.name, "shape": list(tensor.shape)} | describe_numbers(tensor)
    if contract is None:
        return facts
    names = {BitmapPixelFormat.GRAY8: ("gray",), BitmapPixelFormat.BGR8: ("blue", "green", "red")}
    order = names.get(contract.pixel_format, ("red", "green", "blue"))
    planes = zip(order, _select_planes(tensor, contract), strict=True)
    return facts | {"channels": [{"name": name} | describe_numbers(plane) for name, plane in planes]}


def describe_placement(placement: PicturePlacement) -> Facts:
    """The sizes of a picture and of its tensor, and the tensor's edges in pixels of the picture (left, top, right,
    bottom), beyond which there is padding.
    """
    tensor = (placement.tensor_width, placement.tensor_height)
    return {
        "picture": (placement.picture_width, placement.picture_height),
        "tensor": tensor,
        "seen": placement.boxes_to_picture([0, 0, *tensor]).tolist(),
    }


def _select_planes(tensor: Array, contract: ImageContract) -> Array:
    """Channels x height x width, of the first picture."""
    first = tensor[0]
    return first if contract.layout is TensorLayout.NCHW else np.moveaxis(first, -1, 0)


def make_tensor_picture(tensor: Array, contract: ImageContract, reading: str) -> Image.Image:
    """The bound numbers as a picture, by one of `READINGS`."""
    planes = _select_planes(tensor, contract)
    if reading == NUMBERS:
        levels = np.moveaxis(_stretch_levels(planes), 0, -1)
        return Image.fromarray(levels[..., 0] if len(planes) == 1 else np.ascontiguousarray(levels))
    height, width = planes.shape[1:]
    bitmap = SoftwareBitmap(BitmapPixelFormat.GRAY8 if len(planes) == 1 else BitmapPixelFormat.BGRA8, width, height)
    detensorize(tensor[0], contract, bitmap)
    return bitmap.to_pil()


def _stretch_levels(planes: Array) -> Array:
    """Gray levels: the lowest number is black, the highest white."""
    finite = planes[np.isfinite(planes)].astype(np.float64)
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    numbers = np.nan_to_num(planes.astype(np.float64), nan=low, posinf=high, neginf=low)
    shares = (numbers - low) / ((high - low) or 1.0)
    return np.asarray(np.rint(shares * 255), np.uint8)


# The answer.


class Answer(NamedTuple):
    """A model's answer.

    Attributes:
        facts: for JSON: `outputs` as in `winml-py run --json`, and the found `objects` or `regions`.
        pictures: the files of the outputs that are pictures, by name; "" for the input with the objects drawn on it.
    """

    facts: Facts
    pictures: dict[str, bytes]


def make_answer(
    result: LearningModelEvaluationResult, model: LearningModel, inputs: Inputs, labels: Sequence[str]
) -> Answer:
    """The answer, with these class names."""
    classes = Classes(None, labels)
    facts: Facts = {"outputs": {name: _describe_output(name, value, classes) for name, value in result.outputs.items()}}
    pictures = {name: encode_picture(bitmap.to_pil()) for name, bitmap in _find_bitmaps(result.outputs)}
    finding = VisionInterpreter(labels=labels).interpret(result)
    if finding is not None:
        facts |= finding.facts
        facts |= {"objects": facts["objects"][:_MAX_OBJECTS]} if "objects" in facts else {}
        if finding.draw is not None:
            pictures[""] = encode_picture(finding.draw(inputs.values[next(iter(inputs.pictures))]))
    if not pictures:
        # As in `winml-py run`, but in the channel order of the page's contract, which the model may not have.
        orders = [contract.pixel_format for contract in inputs.contracts.values() if contract.channels == 3]
        output = find_tensor_picture(result.outputs, orders[0] if orders else find_channel_order(model, inputs.values))
        if output is not None:
            facts["outputs"][output.name]["read_as"] = output.contract.describe()
            pictures[output.name] = encode_picture(output.bitmap.to_pil())
    return Answer(facts | {"pictures": list(pictures)}, pictures)


def _describe_output(name: str, value: Any, classes: Classes) -> Facts:
    facts = summarize(name, value, classes)
    if "top" in facts:  # bars need a length: shares have their own
        array = value.to_numpy()
        facts["are_shares"] = bool(array.min() >= 0 and array.max() <= 1)
    return facts


def _find_bitmaps(outputs: Mapping[str, Any]) -> list[tuple[str, SoftwareBitmap]]:
    """The outputs that are pictures; the first picture of a list."""
    bitmaps = []
    for name, output in outputs.items():
        frame = output[0] if isinstance(output, list) and output else output
        if isinstance(frame, ImageFeatureValue):
            frame = frame.video_frame
        if isinstance(frame, VideoFrame):
            bitmaps.append((name, frame.software_bitmap))
    return bitmaps


# The Python program for the page's state: it gives the same answer in a fresh interpreter.


_MAX_WRITTEN = 1024
"""The most numbers of an array that are written into a program."""


def write_program(model: OpenModel, inputs: Inputs, answer: Facts, labels: Sequence[str]) -> str:
    """The program as text.

    Args:
        model: the model.
        inputs: what it is given.
        answer: what is shown, and so is printed: see `Answer`.
        labels: the class names, if the model has none.
    """
    on_device = "" if model.device == "cpu" else f", winml_py.LearningModelDevice.find({model.device!r})"
    lines = [
        "import winml_py",
        "",
        f"model = {_write_loading('LearningModel', model)}",
        f"session = winml_py.LearningModelSession(model{on_device})",
        "binding = winml_py.LearningModelBinding(session)",
    ]
    for name, value in inputs.values.items():
        if name not in inputs.pictures:
            lines.append(f"binding.bind({name!r}, {_write_value(name, value)})")
            continue
        properties = ""
        if name in inputs.contracts:
            words = "".join(f"    {key!r}: {word!r},\n" for key, word in inputs.contracts[name].to_metadata().items())
            lines.append(f"contract = winml_py.ImageContract.from_metadata({{\n{words}}})")
            properties = ', {"ImageContract": contract}'
        lines.append(f"picture = {_write_loading('ImageFeatureValue', inputs.pictures[name])}")
        lines.append(f"binding.bind({name!r}, picture{properties})")
    if inputs.values.keys() != inputs.pictures.keys():
        lines.insert(0, "import numpy as np")
    return "\n".join([*lines, "result = session.evaluate(binding)", *_write_printing(answer, labels), ""])


def _write_loading(kind: str, file: OpenModel | PictureOnDisk) -> str:
    """The expression that loads a file as one of our classes. What was dropped on the page is not on this machine."""
    if file.is_here:
        return f"winml_py.{kind}.load({file.path!r})"
    return f"winml_py.{kind}.load({file.name!r})  # where this file is"


def _write_printing(answer: Facts, labels: Sequence[str]) -> list[str]:
    """The lines that print the answer."""
    labels_argument = f", labels={list(labels)!r}" if labels else ""
    if "objects" in answer:
        return [
            f"for detection in winml_py.vision.detections(result{labels_argument}):",
            "    print(detection.label or detection.index, detection.score, detection.box)",
        ]
    if "regions" in answer:
        return [f"print(winml_py.vision.masks(result{labels_argument}).shares)"]
    if ranked := [name for name, output in answer["outputs"].items() if "top" in output]:
        return [
            f"for best in result.top_k(5, output={ranked[0]!r}{labels_argument}):",
            "    print(best.label or best.index, best.score)",
        ]
    return ["for name, value in result.outputs.items():", "    print(name, value)"]


def _write_value(name: str, value: Any) -> str:
    """A value as an expression."""
    array = as_numpy(value)
    if not isinstance(array, np.ndarray):
        return repr(array)
    if array.size > _MAX_WRITTEN:
        return f"np.load({name + '.npy'!r})"
    kind = "object" if array.dtype == object else f"np.{array.dtype.name}"
    text = repr(array.tolist())
    if array.dtype.kind == "f":
        text = text.replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({text}, {kind})"
