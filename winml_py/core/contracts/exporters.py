"""What exporters write into a model's metadata: its image contract, and the names of its classes.

Metadata are untrusted: what does not parse as the exporter writes it is ignored and logged. A new exporter needs a
section here, and is asked in `read_exporters_labels` or `read_exporters_contract`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from ...enums import BitmapPixelFormat, ImageKernel, ImageRounding, LearningModelPixelRange
from ..base.messages import logger
from ..imaging.contract import ImageContract
from ..imaging.scaling import CropRatio, Ends, Stretch
from .labels import order_labels

# Ultralytics: `task`, `imgsz`, `channels`, `names`, `kpt_shape`. The values are Python literals.


class ExporterFacts(NamedTuple):
    """What the exporter states of a model, besides its contract and labels.

    Attributes:
        task: "detect", "pose", ...; "" if not stated.
        points: how many points an object has, and how many numbers each has; None if not stated.
        has_suppression: whether the model suppresses overlapping boxes.
        is_rtdetr: whether the model is named RT-DETR.
    """

    task: str
    points: tuple[int, int] | None
    has_suppression: bool
    is_rtdetr: bool

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> ExporterFacts:
        """Reads them; values that the exporter would not write count as not stated."""
        task = metadata.get("task", "") if metadata.get("author") == "Ultralytics" else ""
        has_suppression = metadata.get("end2end") == "True" or "'nms': True" in metadata.get("args", "")
        points = None
        match _parse_literal(metadata.get("kpt_shape", ""), 100):
            case [int(count), int(numbers)] if count > 0 and numbers in (2, 3):
                points = count, numbers
        return cls(task, points, has_suppression, _is_rtdetr(metadata))


def _is_rtdetr(metadata: Mapping[str, str]) -> bool:
    # The newer exporter names the head; the older one the model: `Ultralytics rtdetr-l model`.
    description = metadata.get("description", "").lower().replace("-", "")
    return metadata.get("head") == "RTDETRDecoder" or "ultralytics rtdetr" in description


def _parse_literal(text: str, longest: int) -> object:
    try:  # the text is untrusted: a longer one is not parsed
        return ast.literal_eval(text.strip()) if len(text) <= longest else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


_DETECTORS = ("detect", "segment", "pose", "obb")
_MAX_LENGTH = 1 << 20
"""The most characters of `names` that are read; 1000 classes have about 20,000."""


def _read_ultralytics_contract(metadata: Mapping[str, str]) -> ImageContract | None:
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
    sides = json.loads(text := metadata.get("imgsz", ""))
    if not isinstance(sides, list) or len(sides) != 2 or any(type(side) is not int for side in sides):
        raise ValueError(f"imgsz is {text[:80]!r}")
    size = sides[0], sides[1]
    if task == "classify":
        # Torchvision's `Resize` and `CenterCrop`, as Ultralytics calls them; only squares are cropped.
        square = CropRatio(1.0, ends=Ends(crop_rounding=ImageRounding.HALF_EVEN))
        return ImageContract(
            BitmapPixelFormat.RGB8,
            LearningModelPixelRange.ZERO_TO_ONE,
            scaling=square if size[0] == size[1] else Stretch(),
            kernel=ImageKernel.ANTIALIASED_LINEAR,
            size=size,
        )
    if task not in _DETECTORS:
        raise ValueError(f"the task is {task!r}")
    contract = replace(ImageContract.yolo(), size=size)
    return replace(contract, scaling=Stretch()) if _is_rtdetr(metadata) else contract


def _read_ultralytics_labels(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the classes, by their index; none where the metadata do not name each."""
    names = metadata.get("names", "")
    if metadata.get("author") != "Ultralytics" or not names:
        return ()
    parsed = _parse_literal(names, _MAX_LENGTH)
    labels = order_labels(parsed) if isinstance(parsed, dict) else None
    if labels is None:
        logger.info("the names from Ultralytics' exporter are not used, because they are not {0: 'name', 1: ...}")
    return labels or ()


# PaddleOCR: `character`, one per line. Its text readers state no contract.


def _read_paddleocr_labels(metadata: Mapping[str, str], scores: Collection[int]) -> tuple[str, ...]:
    """The names of a classifier; or a reader's characters as in its decoder: the blank first, as "", the space last."""
    characters = metadata.get("character", "").removesuffix("\n")
    names = tuple(characters.split("\n")) if characters else ()
    return names if not names or len(names) in scores else ("", *names, " ")


# What any exporter states.


CONTRACT_KEYS = frozenset({"imgsz"})
"""The keys without which a model states no contract."""


def read_exporters_labels(metadata: Mapping[str, str], scores: Collection[int] = ()) -> tuple[str, ...]:
    """The names of the classes, if an exporter wrote them; else none.

    Args:
        metadata: the model's.
        scores: the last sizes of its outputs.
    """
    return _read_ultralytics_labels(metadata) or _read_paddleocr_labels(metadata, scores)


def read_exporters_contract(metadata: Mapping[str, str]) -> ImageContract | None:
    """How pictures become tensors, if an exporter states it; else None."""
    try:
        return _read_ultralytics_contract(metadata)
    except (ValueError, RecursionError) as error:
        logger.info("the metadata from Ultralytics' exporter are not used: %s", error)
        return None
