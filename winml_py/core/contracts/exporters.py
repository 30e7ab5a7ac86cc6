"""What exporters write into a model's metadata: its image contract, and the names of its classes.

Metadata are untrusted: what does not parse as the exporter writes it is ignored and logged. A new exporter needs a
section here, and a call in the first two functions.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import replace

from ...enums import BitmapPixelFormat, ImageCropMode, ImageKernel, ImageRounding, LearningModelPixelRange
from ..base.arguments import is_text
from ..base.messages import logger
from ..imaging.contract import ImageContract
from ..imaging.geometry import ImageScaling

CONTRACT_KEYS = frozenset({"imgsz"})
"""Keys of exporters. A model without them states no contract."""


def exporters_labels(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the classes, if an exporter wrote them; else none."""
    return _ultralytics_labels(metadata) or _paddleocr_labels(metadata)


def exporters_contract(metadata: Mapping[str, str]) -> ImageContract | None:
    """How pictures become tensors, if an exporter states it; else None."""
    try:
        return _ultralytics_contract(metadata)
    except (ValueError, RecursionError) as error:
        logger.info("the metadata of Ultralytics' exporter are not used: %s", error)
        return None


# Ultralytics: `task`, `imgsz`, `channels`, `names`. The values are Python literals.


_DETECTORS = ("detect", "segment", "pose", "obb")
_LONGEST = 1 << 20
"""The most characters of `names` that are read; 1000 classes have about 20,000."""


def _ultralytics_contract(metadata: Mapping[str, str]) -> ImageContract | None:
    """How Ultralytics' predictor turns a picture into the model's tensor; None where the metadata do not state it.

    Detectors get the whole picture, padded with gray; RT-DETR gets it stretched, and classifiers get its middle.

    Raises:
        ValueError, RecursionError: they do not parse as the exporter writes them, or no contract does the same.
    """
    if metadata.get("author") != "Ultralytics":
        return None
    task, channels = metadata.get("task", ""), metadata.get("channels", "3")
    if channels != "3":  # OpenCV makes gray differently from Windows ML
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


def _ultralytics_labels(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the classes, by their index; none where the metadata do not name each."""
    names = metadata.get("names", "")
    if metadata.get("author") != "Ultralytics" or not names:
        return ()
    try:
        labels = ast.literal_eval(names.strip()) if len(names) <= _LONGEST else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        labels = None
    is_numbered = isinstance(labels, dict) and [*labels] == list(range(len(labels)))
    if not labels or not is_numbered or not all(map(is_text, labels.values())):
        logger.info("the names of Ultralytics' exporter are not {0: 'name', 1: ...}, and are not used")
        return ()
    return tuple(labels.values())


# PaddleOCR: `character`, one per line. Its text readers state no contract.


def _paddleocr_labels(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The characters by their class, as in PaddleOCR's decoder: the blank first, as "", and the space last."""
    characters = metadata.get("character", "").removesuffix("\n")
    return ("", *characters.split("\n"), " ") if characters else ()
