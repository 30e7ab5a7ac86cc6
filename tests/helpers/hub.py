"""The image processors of transformers, and the settings that models are published with for them."""

from __future__ import annotations

import importlib
import os
import pkgutil
import warnings
from functools import cache
from typing import Any

os.environ["TRANSFORMERS_VERBOSITY"] = "error"  # it says at import that there is no torch, which we know
import numpy as np
from PIL import Image

from helpers.models import unary
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
)

Array = np.ndarray[Any, Any]
Config = dict[str, Any]

HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
CLIP = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
DONE = {"do_resize": True, "do_rescale": True, "rescale_factor": 0.00392156862745098, "do_normalize": True}
OLD = {"do_resize": True, "do_normalize": True}


def square(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


PUBLISHED: dict[str, Config] = {
    "google/vit-base-patch16-224": {
        **DONE, **HALF, "image_processor_type": "ViTImageProcessor", "resample": 2, "size": square(224)
    },
    "microsoft/swin-tiny-patch4-window7-224": {
        **OLD, **IMAGENET, "feature_extractor_type": "ViTFeatureExtractor", "resample": 3, "size": 224
    },
    "microsoft/beit-base-patch16-224": {
        **OLD, **HALF, "feature_extractor_type": "BeitFeatureExtractor",
        "crop_size": 224, "do_center_crop": False, "reduce_labels": False, "resample": 2, "size": 224,
    },
    "facebook/convnext-tiny-224": {
        **OLD, **IMAGENET, "feature_extractor_type": "ConvNextFeatureExtractor",
        "crop_pct": 0.875, "resample": 3, "size": 224,
    },
    "openai/clip-vit-base-patch32": {
        **OLD, **CLIP, "feature_extractor_type": "CLIPFeatureExtractor",
        "crop_size": 224, "do_center_crop": True, "resample": 3, "size": 224,
    },
    "google/siglip-base-patch16-224": {
        **DONE, **HALF, "image_processor_type": "SiglipImageProcessor", "processor_class": "SiglipProcessor",
        "resample": 3, "size": square(224),
    },
    "facebook/dinov2-base": {
        **DONE, **IMAGENET, "image_processor_type": "BitImageProcessor", "crop_size": square(224),
        "do_center_crop": True, "do_convert_rgb": True, "resample": 3, "size": {"shortest_edge": 256},
    },
    "google/efficientnet-b0": {
        **DONE, "image_processor_type": "EfficientNetImageProcessor", "crop_size": square(289),
        "do_center_crop": False, "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.47853944, 0.4732864, 0.47434163], "include_top": True, "resample": 0,
        "rescale_offset": False, "size": square(224),
    },
    "apple/mobilevit-small": {
        "feature_extractor_type": "MobileViTFeatureExtractor", "crop_size": 256, "do_center_crop": True,
        "do_flip_channel_order": True, "do_resize": True, "resample": 2, "size": 288,
    },
    "facebook/levit-128S": {
        **OLD, **IMAGENET, "feature_extractor_type": "LevitFeatureExtractor", "do_center_crop": True,
        "resample": 3, "size": 224,
    },
    "sail/poolformer_s12": {
        **OLD, **IMAGENET, "feature_extractor_type": "PoolFormerFeatureExtractor", "crop_pct": 0.9,
        "do_center_crop": True, "crop_size": 224, "resample": 3, "size": 224,
    },
    "Intel/dpt-large": {
        **OLD, **HALF, "feature_extractor_type": "DPTFeatureExtractor", "ensure_multiple_of": 1,
        "keep_aspect_ratio": False, "resample": 2, "size": 384,
    },
    "LiheYoung/depth-anything-small-hf": {
        **DONE, **IMAGENET, "image_processor_type": "DPTImageProcessor", "do_pad": False, "ensure_multiple_of": 14,
        "keep_aspect_ratio": True, "resample": 3, "size": square(518), "size_divisor": None,
    },
    "vinvino02/glpn-kitti": {
        "feature_extractor_type": "GLPNFeatureExtractor", "do_rescale": True, "do_resize": True, "resample": 2,
        "size_divisor": 32,
    },
    "facebook/detr-resnet-50": {
        **OLD, **IMAGENET, "feature_extractor_type": "DetrFeatureExtractor", "format": "coco_detection",
        "max_size": 1333, "size": 800,
    },
    "hustvl/yolos-tiny": {
        **OLD, **IMAGENET, "feature_extractor_type": "YolosFeatureExtractor", "format": "coco_detection",
        "max_size": 1333, "size": 512,
    },
    "PekingU/rtdetr_r50vd": {
        **DONE, **IMAGENET, "do_normalize": False, "image_processor_type": "RTDetrImageProcessor",
        "do_convert_annotations": True, "do_pad": False, "format": "coco_detection", "pad_size": None,
        "resample": 2, "size": square(640),
    },
    "a detector that pads to 800x1333": {
        **DONE, **IMAGENET, "image_processor_type": "DetrImageProcessor", "do_pad": True, "resample": 2,
        "size": {"max_height": 800, "max_width": 1333}, "pad_size": {"height": 800, "width": 1333},
    },
    "facebook/maskformer-swin-tiny-ade": {
        **OLD, **IMAGENET, "feature_extractor_type": "MaskFormerFeatureExtractor", "ignore_index": 255,
        "max_size": 2048, "num_labels": 150, "reduce_labels": True, "resample": 2, "size": 512, "size_divisor": 32,
    },
    "facebook/mask2former-swin-small-coco-instance": {
        **DONE, **IMAGENET, "image_processor_type": "Mask2FormerImageProcessor", "ignore_index": 255,
        "num_labels": 80, "reduce_labels": False, "resample": 2, "size_divisor": 32,
        "size": {"longest_edge": 1333, "shortest_edge": 800},
    },
    "dandelin/vilt-b32-mlm": {
        **OLD, **HALF, "feature_extractor_type": "ViltFeatureExtractor", "resample": 3, "size": 384,
        "size_divisor": 32,
    },
    "facebook/sam-vit-base": {
        **DONE, **IMAGENET, "image_processor_type": "SamImageProcessor", "do_convert_rgb": True, "do_pad": True,
        "pad_size": square(1024), "processor_class": "SamProcessor", "resample": 2, "size": {"longest_edge": 1024},
    },
    "deepmind/vision-perceiver-conv": {
        **OLD, **IMAGENET, "feature_extractor_type": "PerceiverFeatureExtractor", "crop_size": 256,
        "do_center_crop": True, "resample": 3, "size": 224,
    },
    "OFA-Sys/chinese-clip-vit-base-patch16": {
        **OLD, **CLIP, "feature_extractor_type": "ChineseCLIPFeatureExtractor", "crop_size": square(224),
        "do_center_crop": False, "resample": 3, "size": square(224),
    },
    "czczup/textnet-base": {
        **DONE, **IMAGENET, "image_processor_type": "TextNetImageProcessor", "crop_size": square(224),
        "do_center_crop": False, "do_convert_rgb": True, "resample": 2, "size": {"shortest_edge": 640},
        "size_divisor": 32,
    },
    "magic-leap-community/superpoint": {
        "do_resize": True, "do_rescale": True, "rescale_factor": 0.00392156862745098,
        "image_processor_type": "SuperPointImageProcessor", "size": {"height": 480, "width": 640},
    },
}  # fmt: skip
"""Settings as models on the Hugging Face Hub are published with, old and new."""

REFUSED: dict[str, tuple[Config, str]] = {
    "google/vivit-b-16x2-kinetics400": (
        {
            **DONE,
            **HALF,
            "do_normalize": False,
            "image_processor_type": "VivitImageProcessor",
            "crop_size": square(224),
            "do_center_crop": True,
            "offset": True,
            "resample": 2,
            "rescale_factor": 0.00784313725490196,
            "size": {"shortest_edge": 256},
        },
        "is not known",
    ),
    "google/owlv2-base-patch16": (
        {**DONE, **CLIP, "image_processor_type": "Owlv2ImageProcessor", "size": square(960), "do_pad": True},
        "is not known",
    ),
    "naver-clova-ix/donut-base": (
        {**OLD, **HALF, "feature_extractor_type": "DonutFeatureExtractor", "do_thumbnail": True, "size": [1920, 2560]},
        "is not known",
    ),
    "google/pix2struct-base": (
        {"image_processor_type": "Pix2StructImageProcessor", "max_patches": 2048, "patch_size": square(16)},
        "is not known",
    ),
    "openai/imagegpt-small": (
        {"feature_extractor_type": "ImageGPTFeatureExtractor", "clusters": [[1.0, 1.0, 1.0]], "size": 32},
        "is not known",
    ),
    "caidas/swin2SR-classical-sr-x2-64": (
        {"image_processor_type": "Swin2SRImageProcessor", "do_pad": True, "pad_size": 8},
        "is not known",
    ),
    "llava-hf/llava-v1.6-mistral-7b-hf": (
        {**DONE, **CLIP, "image_processor_type": "LlavaNextImageProcessor", "image_grid_pinpoints": [[336, 672]]},
        "is not known",
    ),
    "Intel/zoedepth-nyu": ({**DONE, **HALF, "image_processor_type": "ZoeDepthImageProcessor"}, "is not known"),
    "apple/DepthPro-hf": ({**DONE, **HALF, "image_processor_type": "DepthProImageProcessor"}, "is not known"),
    "somebody/remote-code": ({"image_processor_type": "RemoteImageProcessor", "size": 7}, "RemoteImageProcessor"),
    "a ViT that is asked for a crop": (
        {**DONE, **HALF, "image_processor_type": "ViTImageProcessor", "size": 224, "do_center_crop": True},
        "do_center_crop",
    ),
    "gray SuperPoint": (
        {"image_processor_type": "SuperPointImageProcessor", "do_grayscale": True},
        "do_grayscale",
    ),
}


@cache
def make_pictures() -> dict[str, Array]:
    """RGB pixels: photographs as they are, upright, tiny and huge; and seeded texture over gradients."""
    from sklearn.datasets import load_sample_image  # seconds, which collecting tests need not take

    china, flower = (np.asarray(load_sample_image(name)) for name in ("china.jpg", "flower.jpg"))
    return {
        "landscape": china,
        "portrait": np.ascontiguousarray(np.rot90(flower)),
        "tiny": np.asarray(Image.fromarray(flower).resize((61, 47), Image.Resampling.LANCZOS)),
        "huge": np.asarray(Image.fromarray(china).resize((3001, 1999), Image.Resampling.BICUBIC)),
        "texture": draw_texture(517, 389),
    }


def draw_texture(width: int, height: int) -> Array:
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    noise = np.random.default_rng(16).normal(0, 12, (height, width, 1))
    stripes = 40 * np.sin(x * 60)[..., None]
    colours = np.stack([255 * x, 255 * y, 255 * (1 - x) * y], axis=-1)
    return np.clip(colours + stripes + noise, 0, 255).astype(np.uint8)


def make_processor(config: Config) -> Any:
    """The maker's image processor, the one that works with Pillow."""
    import transformers.models

    kind = config.get("image_processor_type") or config["feature_extractor_type"]
    name = kind.replace("FeatureExtractor", "ImageProcessor")
    wanted = name.removesuffix("ImageProcessor").lower()
    families = (module.name for module in pkgutil.iter_modules(transformers.models.__path__))
    family = next(family for family in families if family.replace("_", "") == wanted)
    # The package's own names stand for nothing where torch is missing, although most of these classes need none.
    module = importlib.import_module(f"transformers.models.{family}.image_processing_{family}")
    with warnings.catch_warnings(action="ignore"):  # of keys that the class ignores
        return getattr(module, name).from_dict(dict(config))


def run_processor(config: Config, pixels: Array) -> Array:
    """Channels x height x width: what the maker's processor gives."""
    made = make_processor(config)(Image.fromarray(pixels), return_tensors="np")["pixel_values"]
    return np.asarray(made).reshape(made.shape[-3:])


def bind_contract(contract: ImageContract, pixels: Array, sides: tuple[int | str, int | str] = ("h", "w")) -> Array:
    """Channels x height x width: what a model sees of a picture that is bound with the contract.

    Args:
        contract: of the picture.
        pixels: RGB.
        sides: height and width of the model: free, or fixed.
    """
    with LearningModelSession(LearningModel.load(unary(shape=(1, 3, *sides)))) as session:
        binding = LearningModelBinding(session)
        binding.bind("x", ImageFeatureValue.from_array(pixels, BitmapPixelFormat.RGB8), {"ImageContract": contract})
        return np.array(session.evaluate(binding).outputs["y"])[0]


def measure_levels(contract: ImageContract, one: Array, other: Array) -> tuple[float, float]:
    """The mean and the largest difference of two tensors, in gray levels."""
    assert one.shape == other.shape, f"{one.shape} and {other.shape}"
    factors = np.array([factor for factor, _ in contract.affine()])[:, None, None]
    difference = np.abs((one.astype(float) - other.astype(float)) / factors)
    return float(difference.mean()), float(difference.max())
