"""What the image processors of Hugging Face's transformers do when their config leaves a key out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Processor(NamedTuple):
    """One kind of image processor.

    Attributes:
        rule: how it chooses the size; a function of `processor_sizes`.
        defaults: each key that it reads, and what it takes where the config leaves the key out.
        constants: settings of its own that no config changes.
    """

    rule: str
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
        # Every contract of three channels takes colours; whatever the picture had before.
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


def _cropped(pixels: int, crops: bool = True) -> dict[str, Any]:
    return {"do_center_crop": crops, "crop_size": pixels}


_DETR = _NORMALISED | _IMAGENET | {"size": 800, "resample": 2, "max_size": 1333, "do_pad": True, "pad_size": None}
_MASKFORMER = (
    _NORMALISED | _IMAGENET | {"size": 800, "resample": 2, "max_size": 1333, "pad_size": None, "size_divisor": 32}
)
_PLAIN = _NORMALISED | {"resample": 3}

PROCESSORS: dict[str, Processor] = {
    "Beit": Processor("stretched", _PLAIN | _HALF | {"size": 256} | _cropped(224)),
    "Bit": Processor("shortest", _PLAIN | _CLIP | {"size": 224} | _cropped(224)),
    "Blip": Processor("stretched", _PLAIN | _CLIP | {"size": 384}),
    "ChineseCLIP": Processor("stretched", _PLAIN | _CLIP | {"size": {"shortest_edge": 224}} | _cropped(224)),
    "CLIP": Processor("shortest", _PLAIN | _CLIP | {"size": 224} | _cropped(224)),
    "ConditionalDetr": Processor("detr", _DETR),
    "ConvNext": Processor("convnext", _NORMALISED | _HALF | {"size": 384, "resample": 2, "crop_pct": None}),
    "DeformableDetr": Processor("detr", _DETR),
    "DeiT": Processor("stretched", _PLAIN | _HALF | {"size": 256} | _cropped(224)),
    "Detr": Processor("detr", _DETR),
    "DPT": Processor(
        "dpt",
        _PLAIN
        | _HALF
        | {"size": 384, "keep_aspect_ratio": False, "ensure_multiple_of": 1, "do_pad": False, "size_divisor": None},
    ),
    "EfficientNet": Processor(
        "stretched",
        _NORMALISED
        | _HALF
        | {"size": 346, "resample": 0, "rescale_offset": False, "include_top": True}
        | _cropped(289, crops=False),
    ),
    "GLPN": Processor(
        "glpn",
        {"do_resize": True, "size_divisor": 32, "resample": 2, "do_rescale": True},
        {"rescale_factor": 1 / 255},
    ),
    "GroundingDino": Processor("detr", _DETR),
    "LayoutLMv2": Processor(
        "stretched", {"do_resize": True, "size": 224, "resample": 2}, {"do_flip_channel_order": True}
    ),
    # It takes its factor under another name, which its own configs do not have.
    "LayoutLMv3": Processor(
        "stretched", _NORMALISED | _HALF | {"size": 224, "resample": 2}, {"rescale_factor": 1 / 255}
    ),
    "Levit": Processor("levit", _PLAIN | _IMAGENET | {"size": 224} | _cropped(224)),
    "Mask2Former": Processor("maskformer", _MASKFORMER),
    "MaskFormer": Processor("maskformer", _MASKFORMER),
    "MobileNetV1": Processor("shortest", _NORMALISED | _HALF | {"size": 256, "resample": 2} | _cropped(224)),
    "MobileNetV2": Processor("shortest", _NORMALISED | _HALF | {"size": 256, "resample": 2} | _cropped(224)),
    "MobileViT": Processor(
        "shortest", _RESCALED | {"size": 224, "resample": 2, "do_flip_channel_order": True} | _cropped(256)
    ),
    "OneFormer": Processor("maskformer", _MASKFORMER | {"size_divisor": None}),
    "OwlViT": Processor("stretched", _PLAIN | _CLIP | {"size": 768} | _cropped(768, crops=False)),
    "Perceiver": Processor("perceiver", _PLAIN | _IMAGENET | {"size": 224} | _cropped(256)),
    "PoolFormer": Processor("poolformer", _PLAIN | _IMAGENET | {"size": 224, "crop_pct": 0.9} | _cropped(224)),
    "Pvt": Processor("stretched", _NORMALISED | _IMAGENET | {"size": 224, "resample": 2}),
    "RTDetr": Processor(
        "detr", _DETR | {"size": {"height": 640, "width": 640}, "do_normalize": False, "do_pad": False}
    ),
    "Sam": Processor("sam", _NORMALISED | _IMAGENET | {"size": 1024, "resample": 2, "do_pad": True, "pad_size": 1024}),
    "Segformer": Processor("stretched", _NORMALISED | _IMAGENET | {"size": 512, "resample": 2}),
    "Siglip": Processor("stretched", _PLAIN | _HALF | {"size": 224}),
    "SuperPoint": Processor(
        "stretched", _RESCALED | {"size": {"height": 480, "width": 640}, "resample": 2, "do_grayscale": False}
    ),
    "TextNet": Processor(
        "textnet",
        _NORMALISED | _IMAGENET | {"size": 640, "size_divisor": 32, "resample": 2} | _cropped(224, crops=False),
    ),
    "VideoMAE": Processor("shortest", _NORMALISED | _HALF | {"size": 224, "resample": 2} | _cropped(224)),
    "Vilt": Processor("vilt", _PLAIN | _HALF | {"size": 384, "size_divisor": 32, "do_pad": True}),
    "ViT": Processor("stretched", _NORMALISED | _HALF | {"size": 224, "resample": 2}),
    "Vivit": Processor(
        "shortest",
        _NORMALISED | _HALF | {"size": 256, "resample": 2, "rescale_factor": 1 / 127.5, "offset": True} | _cropped(224),
    ),
    "Yolos": Processor("detr", _DETR, {"multiple": 16}),
}
"""By the first part of their name: `ViT` of ViTImageProcessor, ViTImageProcessorFast and ViTFeatureExtractor."""

UNLIKE_A_CONTRACT: dict[str, str] = {
    "DepthPro": "it scales numbers, with torch, after it has normalised them",
    "Donut": "it scales twice: the shorter side first, and then a thumbnail",
    "Flava": "it makes a second picture, for a codebook",
    "Fuyu": "it cuts pictures into patches",
    "Idefics3": "it splits pictures into tiles",
    "ImageGPT": "its pixels become the numbers of colour clusters",
    "LlavaNext": "it splits pictures into tiles",
    "LlavaOnevision": "it splits pictures into tiles",
    "Mllama": "it splits pictures into tiles",
    "Nougat": "it cuts white margins off, and scales twice",
    "Owlv2": "it pads the picture to a square before it scales it, with scipy, blurred",
    "Pix2Struct": "it cuts pictures into patches",
    "Pixtral": "it cuts pictures into patches",
    "Qwen2VL": "it cuts pictures into patches",
    "SegGpt": "it takes two pictures",
    "Siglip2": "it cuts pictures into patches",
    "Swin2SR": "it pads with a mirrored picture",
    "TimmWrapper": "timm describes these pixels: ImageContract.from_timm reads the config.json beside it",
    "VitMatte": "it takes a map of the foreground as a fourth channel",
    "VitPose": "it turns each person upright, by boxes that come with the picture",
    "ZoeDepth": "it scales with torch, corners aligned",
}
"""What is known of processors that no contract can keep to."""
