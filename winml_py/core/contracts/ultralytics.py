"""What Ultralytics' exporter writes into a model's metadata: `task`, `imgsz`, `channels`, `names`.

The values are Python's spelling of what they were. A model is untrusted input, so nothing is evaluated: what does not
read as the exporter writes it states no contract, and the log says so.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import replace

from ...enums import BitmapPixelFormat, ImageCropMode, ImageKernel, ImageRounding, LearningModelPixelRange
from ..base.messages import logger
from ..imaging.contract import ImageContract
from ..imaging.scaling import ImageScaling

KEYS = frozenset({"imgsz"})

_DETECTORS = ("detect", "segment", "pose", "obb")
_LONGEST = 1 << 20
"""Characters of `names` that are read; 1000 classes have some 20,000."""

_TEXT = r"""'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+\""""
_PAIR = re.compile(rf"\s*+(\d{{1,6}})\s*+:\s*+({_TEXT})\s*+(?:,|$)", re.DOTALL)


def contract_of(metadata: Mapping[str, str]) -> ImageContract | None:
    """How Ultralytics' own predictor turns a picture into the model's tensor; None where the metadata do not say.

    Detectors see the whole picture, padded with gray; RT-DETR sees it stretched, and classifiers its middle.

    Raises:
        ValueError: they do not read as the exporter writes them, or no contract does the same.
        RecursionError: they are lists in lists in lists.
    """
    if metadata.get("author") != "Ultralytics":
        return None
    task, channels = metadata.get("task", ""), metadata.get("channels", "3")
    if channels != "3":  # OpenCV makes gray otherwise than Windows ML
        raise ValueError(f"the model has {channels!r} channels")
    size = _size(metadata.get("imgsz", ""))
    if task == "classify":
        return _classifier(size)
    if task not in _DETECTORS:
        raise ValueError(f"the task is {task!r}")
    contract = replace(ImageContract.yolo(), size=size)
    return replace(contract, crop_mode=ImageCropMode.STRETCH) if _is_rtdetr(metadata) else contract


def _classifier(size: tuple[int, int]) -> ImageContract:
    """Torchvision's `Resize` and `CenterCrop`, as Ultralytics calls them; only squares are cropped."""
    contract = ImageContract(
        BitmapPixelFormat.RGB8,
        LearningModelPixelRange.ZERO_TO_ONE,
        kernel=ImageKernel.ANTIALIASED_LINEAR,
        size=size,
    )
    if size[0] != size[1]:
        return replace(contract, crop_mode=ImageCropMode.STRETCH)
    return replace(contract, scaling=ImageScaling(crop_ratio=1.0, crop_rounding=ImageRounding.HALF_EVEN))


def _is_rtdetr(metadata: Mapping[str, str]) -> bool:
    """The newer exporter names the head; the older one the model, in the description: `Ultralytics rtdetr-l model`."""
    description = metadata.get("description", "").lower().replace("-", "")
    return metadata.get("head") == "RTDETRDecoder" or "ultralytics rtdetr" in description


def _size(text: str) -> tuple[int, int]:
    size = json.loads(text)
    if not isinstance(size, list) or len(size) != 2 or any(type(side) is not int for side in size):
        raise ValueError(f"imgsz is {text[:80]!r}")
    return ImageContract(size=(size[0], size[1])).size or (0, 0)  # its InvalidArgumentError is a ValueError


def labels_of(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the classes, by their index; none where the metadata do not say, or not for each."""
    names = metadata.get("names", "")
    if metadata.get("author") != "Ultralytics" or not names:
        return ()
    labels = _labels(names.strip()) if len(names) <= _LONGEST else {}
    if not labels or sorted(labels) != list(range(len(labels))):
        logger.info("the names of Ultralytics' exporter are not {0: 'name', 1: ...}, and are not used")
        return ()
    return tuple(labels[index] for index in range(len(labels)))


def _labels(text: str) -> dict[int, str]:
    """The pairs of `{0: 'name', 1: ...}`; none where the text is anything else."""
    if not (text.startswith("{") and text.endswith("}")):
        return {}
    inside, at, labels = text[1:-1], 0, {}
    while at < len(inside):
        pair = _PAIR.match(inside, at)
        if pair is None:
            return {}
        try:
            labels[int(pair[1])] = str(ast.literal_eval(pair[2]))  # a text alone: nothing in it is nested
        except (ValueError, SyntaxError):  # a line break, or an escape that Python does not know
            return {}
        at = pair.end()
    return labels
