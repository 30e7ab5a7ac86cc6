"""Roboflow: `environment.json`, `model_type.json` and `class_names.txt`, as its inference server keeps them."""

from __future__ import annotations

import json
import re

from ...imaging.contract import ImageContract
from ..config import Config, make_config_error
from .folder import Folder, Parts, read_labels

_YOLO = re.compile(r"yolov?(5|8|9|10|11|12)\w?(-seg|-pose)?")
"""The models whose bytes the server divides by 255, and no more; others have a mean and a std that no file states."""


def _read_contract(config: Config, folder: Folder) -> ImageContract:
    model = folder.read_config("model_type.json").values.get("model_type")
    if not _YOLO.fullmatch(str(model)):
        raise make_config_error(config.name, f"model_type.json says {model}, and only the numbers of YOLO are known")
    words = {"Image.BitmapPixelFormat": "Rgb8", "Image.NominalPixelRange": "Normalized_0_1", "Image.Kernel": "Linear"}
    for step, settings in json.loads(config.values["PREPROCESSING"]).items():
        match step, settings:
            case ("auto-orient", _) | (_, {"enabled": False}):
                pass
            case "resize", {"width": int(width), "height": int(height), "format": "Stretch to"}:
                words |= {"Image.Scaling": "stretch", "Image.Size": f"{height},{width}"}
            case _:
                raise make_config_error(config.name, f"no contract is known to match the step {step}")
    return ImageContract.from_metadata(words)


OTHER_FILES = ("model_type.json",)
PARTS: Parts = (
    ("contract", "environment.json", "PREPROCESSING", _read_contract),
    ("labels", "class_names.txt", "", read_labels),
)
