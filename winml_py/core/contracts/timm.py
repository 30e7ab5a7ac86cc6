"""Image contracts from timm's `config.json`, or the `pretrained_cfg` in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...enums import BitmapPixelFormat, ImageRounding, LearningModelPixelRange
from ..base.arrays import Size
from ..imaging.contract import ImageContract
from ..imaging.pixels import BY_PILLOW_NAME
from ..imaging.scaling import CropRatio, Ends, Fit, Stretch
from .config import Config, make_config_error, prefix_errors, require_numbers

_DEFAULTS: dict[str, Any] = {
    "input_size": (3, 224, 224),
    "test_input_size": None,
    "interpolation": "bicubic",
    "crop_pct": 0.875,
    "test_crop_pct": None,
    "crop_mode": "center",
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
}
"""The keys that change pixels, and timm's values where they are left out, or null, or 0."""

HARMLESS = frozenset(
    {
        # Where the weights are from, and who wrote them.
        "url",
        "file",
        "state_dict",
        "hf_hub_id",
        "hf_hub_filename",
        "source",
        "architecture",
        "tag",
        "custom_load",
        "license",
        "description",
        "origin_url",
        "paper_name",
        "paper_ids",
        "notes",
        # What follows the picture; other sizes that a model takes.
        "num_classes",
        "num_features",
        "label_offset",
        "label_names",
        "label_descriptions",
        "labels",
        "pool_size",
        "test_pool_size",
        "first_conv",
        "classifier",
        "min_input_size",
        "fixed_input_size",
    }
)
"""The keys of a `pretrained_cfg` that never change pixels."""

_KERNELS = {name.lower(): kernel for name, kernel in BY_PILLOW_NAME.items()}


def make_contract(config: Config, use_test_size: bool = False) -> ImageContract:
    """The contract that a config states; NotSupportedError where no contract does the same to a picture."""
    inner = config.values.get("pretrained_cfg", config.values)  # of a config.json; or the config itself
    if not isinstance(inner, Mapping) or not _DEFAULTS.keys() & inner.keys():
        raise make_config_error(config.name, "it has no pretrained_cfg from timm")
    config = Config(config.name, inner)
    for key in config.values.keys() - _DEFAULTS.keys() - HARMLESS:
        raise make_config_error(config.name, f"{key} is not a known key of timm's evaluation")
    settings = _DEFAULTS | {key: config.values[key] for key in _DEFAULTS if config.values.get(key)}
    for key, value in settings.items():
        require_numbers(config.name, key, value)
    if use_test_size:
        settings |= {key: settings[f"test_{key}"] or settings[key] for key in ("input_size", "crop_pct")}
    kernel = _KERNELS.get(str(settings["interpolation"]))
    if kernel is None:
        raise make_config_error(
            config.name, f"interpolation is {settings['interpolation']!r}, not {', '.join(_KERNELS)}"
        )
    with prefix_errors(config.name):
        return ImageContract(
            BitmapPixelFormat.RGB8,
            LearningModelPixelRange.ZERO_TO_ONE,
            settings["mean"],
            settings["std"],
            kernel=kernel,
            **_read_geometry(config.name, settings),
        )


def _read_geometry(name: str, settings: Mapping[str, object]) -> dict[str, Any]:
    """Where a picture goes: size, scaling and padding."""
    size, ratio, mode = _read_size(name, settings["input_size"]), settings["crop_pct"], settings["crop_mode"]
    if not isinstance(ratio, (int, float)) or not 0 < ratio <= 1:
        raise make_config_error(name, f"crop_pct is {ratio!r}, not a number above 0 and at most 1")
    height, width = (math.floor(min(side / ratio, 1 << 53)) for side in size)  # no infinity, which is no size
    ends = Ends(crop_rounding=ImageRounding.HALF_EVEN)
    if mode == "squash":
        return {"size": size, "scaling": Stretch((height, width), ends)}
    if mode == "border":
        mean = settings["mean"]
        if not isinstance(mean, (list, tuple)) or not all(isinstance(number, (int, float)) for number in mean):
            raise make_config_error(name, f"mean is {mean!r}, not a number for each channel")
        pad = tuple(min(max(round(255 * number), 0), 255) for number in mean)
        return {"size": size, "scaling": Fit((height, width), ends=ends), "pad": pad}
    if mode != "center" or height != width:
        raise make_config_error(
            name, f"crop_mode is {mode!r} and input_size {height}x{width}, but center requires a square"
        )
    return {"size": size, "scaling": CropRatio(ratio, ends=ends)}


def _read_size(name: str, value: object) -> Size:
    if (
        isinstance(value, (list, tuple))
        and len(value) == 3
        and value[0] == 3
        and all(type(side) is int and 0 < side <= 1 << 20 for side in value)
    ):
        return value[1], value[2]
    raise make_config_error(name, f"input_size is {value!r}, not three channels, height and width")
