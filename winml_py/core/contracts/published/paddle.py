"""PaddleOCR and PaddleX: `inference.yml`, whose steps PaddleX's predictors run."""

from __future__ import annotations

import re

from ...imaging.contract import ImageContract
from ..config import Config, make_config_error
from ..labels import labels_of
from .folder import Folder, Parts, format_numbers, require_order

_FINDERS = re.compile(r"PP-OCRv\d+_(server|mobile|medium|small|tiny)_det")
"""The models whose longer side PaddleX limits. Of others that find text, it enlarges the shorter side first."""

_SCALES = ("1./255.", 1 / 255)


def _read_labels(config: Config, _: Folder) -> tuple[str, ...]:
    match config.values:
        case {"PostProcess": {"character_dict": [*characters]}}:
            return labels_of({"label_names": ["", *characters, " "]})  # as the decoder counts them
        case {"PostProcess": {"Topk": {"label_list": [*labels]}}}:
            return labels_of({"label_names": labels})
    return ()


def _read_contract(config: Config, _: Folder) -> ImageContract:
    is_finder = _FINDERS.fullmatch(config.values["Global"]["model_name"])
    words, shortest = {"Image.BitmapPixelFormat": "Rgb8", "Image.Kernel": "Linear"}, 0
    steps = config.values["PreProcess"]["transform_ops"]
    for step in steps:
        match step:
            case {"DecodeImage": {"img_mode": "BGR" | "RGB" as order, "channel_first": False}}:
                words["Image.BitmapPixelFormat"] = f"{order.title()}8"
            case {"DetResizeForTest": {"resize_long": int(side), **others}} if is_finder and not others:
                words["Image.Scaling"] = f"longest_side={side},enlarges=false,multiple=32,multiple_rounding=half_even"
            case {"ResizeImage": {"resize_short": int(shortest), **others}} if not others:
                words["Image.Scaling"] = f"shortest_side={shortest},rounding=half_even"
            case {"ResizeImage": {"size": [int(width), int(height)], **others}} if not others:
                words |= {"Image.Scaling": "stretch", "Image.Size": f"{height},{width}"}
            case {"CropImage": {"size": int(side), **others}} if not others and side <= shortest:
                words["Image.Size"] = f"{side},{side}"
            case {"NormalizeImage": {"mean": mean, "std": std, "order": "" | "hwc", "scale": scale}} if (
                scale in _SCALES
            ):
                words |= {"Image.Mean": format_numbers(mean), "Image.Std": format_numbers(std)}
                words["Image.NominalPixelRange"] = "Normalized_0_1"
            case {"RecResizeImg": _}:
                raise make_config_error(config.name, "RecResizeImg states a height, and pads between two levels")
            case {"ToCHWImage": _} | {"KeepKeys": _} | {"DetLabelEncode": _} | {"MultiLabelEncode": _}:
                pass
            case _:
                raise make_config_error(config.name, f"no contract is known to match the step {', '.join(step)}")
    names = ["ResizeImage" if name == "DetResizeForTest" else name for step in steps for name in step]
    require_order(config, names, ["DecodeImage", "ResizeImage", "CropImage", "NormalizeImage"])
    return ImageContract.from_metadata(words)


PARTS: Parts = (
    ("contract", "inference.yml", "", _read_contract),
    ("labels", "inference.yml", "PostProcess", _read_labels),
)
