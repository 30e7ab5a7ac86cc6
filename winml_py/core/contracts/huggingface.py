"""Image contracts from Hugging Face's `preprocessor_config.json`, and the defaults of its image processors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, NamedTuple

from ...enums import BitmapPixelFormat, ImageKernel, LearningModelPixelRange
from ..imaging.contract import ImageContract
from ..imaging.pixels import BY_PILLOW_NAME
from . import processor_rules as rules
from .config import Config, make_config_error, prefix_errors, require_numbers
from .processor_rules import Geometry, ProcessorSettings

_NULL_IS_DEFAULT = ("image_mean", "image_std", "size", "crop_size", "pad_size")
"""The keys for which null in a config means the processor's default; for the fast ones, the first two."""


def make_contract(config: Config) -> ImageContract:
    """The contract that a config states.

    Raises:
        NotSupportedError: the processor, a key or a value is unknown, or no contract does the same to a picture.
    """
    if isinstance(inner := config.values.get("image_processor"), Mapping):  # of a `processor_config.json`
        config = Config(config.name, inner)
    kind, processor = _find_processor(config)
    settings = ProcessorSettings(config.name, kind, _merge(config, kind, processor))
    if settings.is_on("do_grayscale"):
        raise settings.make_error("do_grayscale makes three equal channels")
    with prefix_errors(config.name):
        contract = ImageContract(
            BitmapPixelFormat.BGR8 if settings.is_on("do_flip_channel_order") else BitmapPixelFormat.RGB8,
            **_read_numbers(settings),
            kernel=_read_kernel(settings),
            **_read_geometry(settings, processor),
        )
        return _add_padding(contract, settings)


def _find_processor(config: Config) -> tuple[str, Processor]:
    """The kind of processor that a config is for, from the name of its class."""
    class_name = config.values.get("image_processor_type") or config.values.get("feature_extractor_type")
    if not isinstance(class_name, str):
        raise make_config_error(config.name, "it has no image_processor_type, on which the other keys depend")
    kind = class_name.removesuffix("Fast")
    for suffix in ("ImageProcessor", "FeatureExtractor"):
        kind = kind.removesuffix(suffix)
    processors = PROCESSORS | (FAST if class_name.endswith("Fast") else {})
    for name, processor in processors.items():  # GroundingDINO is also spelt GroundingDino
        if name.lower() == kind.lower():
            return class_name, processor
    names = [f"{name}ImageProcessor{'Fast' * class_name.endswith('Fast')}" for name in processors]
    near = get_close_matches(class_name, names, 1, 0.9)
    known = f"did you mean {near[0]}?" if near else f"known are {', '.join(processors)}"
    raise make_config_error(config.name, f"{class_name} is not known; {known}")


def _merge(config: Config, kind: str, processor: Processor) -> dict[str, Any]:
    """The config merged over the defaults; every key is known to the processor, or changes nothing."""
    values = dict(processor.defaults)
    null_is_default = _NULL_IS_DEFAULT[:2] if kind.endswith("Fast") else _NULL_IS_DEFAULT
    for key, value in config.values.items():
        if key not in processor.defaults:
            _require_idle(config.name, kind, key, value, values)
        elif value is not None:
            require_numbers(config.name, key, value)
            values[key] = value
        elif values[key] and key not in null_is_default:
            raise make_config_error(
                config.name, f"{key} is null, which the fast and the slow version of {kind} treat differently"
            )
    if (pads := values.pop(_OLD_DO_PAD, None)) is not None:
        values["do_pad"] = pads
    return {**values, **processor.constants}


def _require_idle(name: str, kind: str, key: str, value: object, known: Iterable[str]) -> None:
    """Refuses a key that may change pixels, unless its value turns it off."""
    channels_first = key == "data_format" and value in ("channels_first", "ChannelDimension.FIRST")
    if key not in HARMLESS and not channels_first and value is not None and value is not False:
        near = get_close_matches(key, known, 1, 0.8)
        hint = f"Did you mean {near[0]!r}?" if near else ""
        raise make_config_error(name, f"{key} is not a known key of {kind}", hint=hint)


def _read_kernel(settings: ProcessorSettings) -> ImageKernel:
    from PIL.Image import Resampling

    resample = settings.values["resample"]
    kernels = {number.value: BY_PILLOW_NAME[number.name] for number in Resampling if number.name in BY_PILLOW_NAME}
    if isinstance(resample, int) and not isinstance(resample, bool) and resample in kernels:
        return kernels[resample]
    known = ", ".join(map(str, sorted(kernels)))
    raise settings.make_error(f"resample is {resample!r}, not one of Pillow's filters: {known}", resample)


def _read_geometry(settings: ProcessorSettings, processor: Processor) -> Geometry:
    if settings.is_on("do_resize"):
        return processor.rule(settings)
    pads = settings.values.get("pad_size") is not None or (processor.rule is rules.dpt and settings.is_on("do_pad"))
    if settings.is_on("do_center_crop") or pads:
        raise settings.make_error("pictures are cropped or padded without being resized")
    return {}


def _read_numbers(settings: ProcessorSettings) -> dict[str, Any]:
    """Range, mean and std: number = ((byte * factor - offset) - mean) / std."""
    factor = settings.read_number("rescale_factor") if settings.is_on("do_rescale") else 1.0
    offset = 1.0 if settings.is_on("do_rescale") and settings.is_on("rescale_offset") else 0.0
    mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if settings.is_on("do_normalize"):
        mean, std = _read_channels(settings, "image_mean"), _read_channels(settings, "image_std")
    if settings.is_on("include_top"):  # EfficientNet divides once more, without a mean
        again = _read_channels(settings, "image_std")
        std = (std[0] * again[0], std[1] * again[1], std[2] * again[2])
    if offset and math.isclose(factor, 1 / 127.5, rel_tol=1e-6):
        return _omit_defaults(LearningModelPixelRange.MINUS_ONE_TO_ONE, mean, std)
    mean = (mean[0] + offset, mean[1] + offset, mean[2] + offset)
    if math.isclose(factor, 1 / 255, rel_tol=1e-6):
        return _omit_defaults(LearningModelPixelRange.ZERO_TO_ONE, mean, std)
    in_bytes = [tuple(number / factor for number in numbers) for numbers in (mean, std)]
    return _omit_defaults(LearningModelPixelRange.ZERO_TO255, *in_bytes)


def _omit_defaults(
    pixel_range: LearningModelPixelRange, mean: tuple[float, ...], std: tuple[float, ...]
) -> dict[str, Any]:
    """Omits numbers that change nothing, so that the contract is short."""
    return {"pixel_range": pixel_range, "mean": mean if any(mean) else (), "std": std if set(std) != {1.0} else ()}


def _read_channels(settings: ProcessorSettings, key: str) -> tuple[float, float, float]:
    value = settings.values[key]
    numbers = tuple(value) if isinstance(value, (list, tuple)) else (value,) * 3
    if len(numbers) != 3 or not all(isinstance(number, (int, float)) for number in numbers):
        raise settings.make_error(f"{key} is {value!r}, not a number for each of three channels", value)
    return float(numbers[0]), float(numbers[1]), float(numbers[2])


def _add_padding(contract: ImageContract, settings: ProcessorSettings) -> ImageContract:
    """The contract with the padding bytes that become 0: processors pad after they have normalised.

    A mean between two bytes is rounded: the padding differs by half a gray level at most.
    """
    if not settings.is_on("do_pad") and settings.values.get("pad_size") is None:
        return contract
    zeros = [min(max(round(-summand / factor), 0), 255) for factor, summand in contract.affine()]
    return replace(contract, pad=(zeros[0], zeros[1], zeros[2]))


# What the image processors of Hugging Face's transformers do when their config leaves a key out.


class Processor(NamedTuple):
    """One kind of image processor.

    Attributes:
        rule: how it chooses the size; one of the rules in `processor_rules`.
        defaults: each key that it reads, and the value where the config leaves the key out.
        constants: settings that no config changes.
    """

    rule: Callable[[ProcessorSettings], Geometry]
    defaults: Mapping[str, Any]
    constants: Mapping[str, Any] = {}


HARMLESS = frozenset(
    {
        # Which class reads the config, and with which versions and devices.
        "image_processor_type",
        "feature_extractor_type",
        "processor_class",
        "auto_map",
        "_valid_processor_keys",
        "transformers_version",
        "_processor_class",
        "device",
        "disable_grouping",
        "return_tensors",
        "default_to_square",
        "input_data_format",
        # Every contract of three channels takes colours, regardless of the picture's own format.
        "do_convert_rgb",
        # Labels, annotations and masks, recognised words: not the picture's pixels.
        "format",
        "do_convert_annotations",
        "do_reduce_labels",
        "reduce_labels",
        "ignore_index",
        "num_labels",
        "mask_size",
        "mask_pad_size",
        "apply_ocr",
        "ocr_lang",
        "tesseract_config",
        "class_info_file",
        "repo_path",
        "num_text",
        "metadata",
    }
)
"""The keys that never change pixels."""

_HALF = {"image_mean": (0.5, 0.5, 0.5), "image_std": (0.5, 0.5, 0.5)}
_IMAGENET = {"image_mean": (0.485, 0.456, 0.406), "image_std": (0.229, 0.224, 0.225)}
_CLIP = {
    "image_mean": (0.48145466, 0.4578275, 0.40821073),
    "image_std": (0.26862954, 0.26130258, 0.27577711),
}
_RESCALED = {"do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255}
_NORMALISED = _RESCALED | {"do_normalize": True}


def _crop_to(pixels: int, crops: bool = True) -> dict[str, Any]:
    return {"do_center_crop": crops, "crop_size": pixels}


_OLD_DO_PAD = "pad_and_return_pixel_mask"
"""A key that takes the place of do_pad where it is stated."""

_UP_TO_1333 = {"shortest_edge": 800, "longest_edge": 1333}
_RTDETR = _NORMALISED | _IMAGENET | {"resample": 2, "do_pad": True, "pad_size": None}
_DETR = _RTDETR | {"size": _UP_TO_1333, "max_size": 1333, _OLD_DO_PAD: None}
_ONEFORMER = _NORMALISED | _IMAGENET | {"size": 800, "resample": 2, "max_size": 1333}
_MASKFORMER = _ONEFORMER | {"do_pad": True, "pad_size": None, "size_divisor": 32}
_PLAIN = _NORMALISED | {"resample": 3}

PROCESSORS: dict[str, Processor] = {
    "Beit": Processor(rules.stretch, _PLAIN | _HALF | {"size": 256} | _crop_to(224)),
    "Bit": Processor(rules.scale_shortest, _PLAIN | _CLIP | {"size": 224} | _crop_to(224)),
    "Blip": Processor(rules.stretch, _PLAIN | _CLIP | {"size": 384}),
    "ChineseCLIP": Processor(rules.stretch, _PLAIN | _CLIP | {"size": {"shortest_edge": 224}} | _crop_to(224)),
    "CLIP": Processor(rules.scale_shortest, _PLAIN | _CLIP | {"size": 224} | _crop_to(224)),
    "ConditionalDetr": Processor(rules.detr, _DETR),
    "ConvNext": Processor(rules.convnext, _NORMALISED | _HALF | {"size": 384, "resample": 2, "crop_pct": None}),
    "DeformableDetr": Processor(rules.detr, _DETR),
    "DeiT": Processor(rules.stretch, _PLAIN | _HALF | {"size": 256} | _crop_to(224)),
    "Detr": Processor(rules.detr, _DETR),
    "DPT": Processor(
        rules.dpt,
        _PLAIN
        | _HALF
        | {"size": 384, "keep_aspect_ratio": False, "ensure_multiple_of": 1, "do_pad": False, "size_divisor": None},
    ),
    "EfficientNet": Processor(
        rules.stretch,
        _NORMALISED
        | _HALF
        | {"size": 346, "resample": 0, "rescale_offset": False, "include_top": True}
        | _crop_to(289, crops=False),
    ),
    "GLPN": Processor(
        rules.glpn,
        {"do_resize": True, "size_divisor": 32, "resample": 2, "do_rescale": True},
        {"rescale_factor": 1 / 255},
    ),
    "GroundingDino": Processor(rules.detr, _DETR),
    "LayoutLMv2": Processor(
        rules.stretch, {"do_resize": True, "size": 224, "resample": 2}, {"do_flip_channel_order": True}
    ),
    # The slow one has another name for its factor, which its own configs do not have.
    "LayoutLMv3": Processor(
        rules.stretch, _NORMALISED | _HALF | {"size": 224, "resample": 2}, {"rescale_factor": 1 / 255}
    ),
    "Levit": Processor(rules.levit, _PLAIN | _IMAGENET | {"size": 224} | _crop_to(224)),
    "Mask2Former": Processor(rules.maskformer, _MASKFORMER),
    "MaskFormer": Processor(rules.maskformer, _MASKFORMER),
    "MobileNetV1": Processor(rules.scale_shortest, _NORMALISED | _HALF | {"size": 256, "resample": 2} | _crop_to(224)),
    "MobileNetV2": Processor(rules.scale_shortest, _NORMALISED | _HALF | {"size": 256, "resample": 2} | _crop_to(224)),
    "MobileViT": Processor(
        rules.scale_shortest, _RESCALED | {"size": 224, "resample": 2, "do_flip_channel_order": True} | _crop_to(256)
    ),
    "OneFormer": Processor(rules.maskformer, _ONEFORMER),
    "OwlViT": Processor(rules.stretch, _PLAIN | _CLIP | {"size": 768} | _crop_to(768, crops=False)),
    "Perceiver": Processor(rules.perceiver, _PLAIN | _IMAGENET | {"size": 224} | _crop_to(256)),
    "PoolFormer": Processor(rules.poolformer, _PLAIN | _IMAGENET | {"size": 224, "crop_pct": 0.9} | _crop_to(224)),
    "Pvt": Processor(rules.stretch, _NORMALISED | _IMAGENET | {"size": 224, "resample": 2}),
    "RTDetr": Processor(
        rules.detr, _RTDETR | {"size": {"height": 640, "width": 640}, "do_normalize": False, "do_pad": False}
    ),
    "Sam": Processor(
        rules.sam, _NORMALISED | _IMAGENET | {"size": 1024, "resample": 2, "do_pad": True, "pad_size": 1024}
    ),
    "Segformer": Processor(rules.stretch, _NORMALISED | _IMAGENET | {"size": 512, "resample": 2}),
    "Siglip": Processor(rules.stretch, _PLAIN | _HALF | {"size": 224}),
    "SuperPoint": Processor(
        rules.stretch, _RESCALED | {"size": {"height": 480, "width": 640}, "resample": 2, "do_grayscale": False}
    ),
    "TextNet": Processor(
        rules.textnet,
        _NORMALISED | _IMAGENET | {"size": 640, "size_divisor": 32, "resample": 2} | _crop_to(224, crops=False),
    ),
    "Vilt": Processor(rules.vilt, _PLAIN | _HALF | {"size": 384, "size_divisor": 32, "do_pad": True}),
    "ViT": Processor(rules.stretch, _NORMALISED | _HALF | {"size": 224, "resample": 2}),
    "Yolos": Processor(rules.detr, _DETR, {"multiple": 16}),
}
"""Keyed by the first part of their name: `ViT` of ViTImageProcessor, ViTImageProcessorFast and ViTFeatureExtractor."""

FAST: dict[str, Processor] = {
    "Beit": Processor(rules.stretch, _PLAIN | _HALF | {"size": 224} | _crop_to(224, crops=False)),
    "ChineseCLIP": PROCESSORS["CLIP"],
    "LayoutLMv3": Processor(rules.stretch, _NORMALISED | _HALF | {"size": 224, "resample": 2}),
    "Mask2Former": Processor(rules.fast_maskformer, _MASKFORMER),
    "MaskFormer": Processor(rules.fast_maskformer, _MASKFORMER),
    "OneFormer": Processor(rules.detr, _NORMALISED | _IMAGENET | {"size": _UP_TO_1333, "resample": 2}),
    "OwlViT": Processor(
        rules.stretch, _PLAIN | _CLIP | {"size": 768, "do_normalize": False} | _crop_to(768, crops=False)
    ),
    "Siglip": Processor(rules.scale_shortest, _PLAIN | _HALF | {"size": {"height": 224, "width": 224}}),
    "SuperPoint": Processor(rules.scale_shortest, PROCESSORS["SuperPoint"].defaults),
}
"""Those whose fast twin has other defaults or another rule."""
