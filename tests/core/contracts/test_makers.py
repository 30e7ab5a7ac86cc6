"""Contracts from published configs, against the makers' own code: the same size, and the same pixels."""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from helpers import hub, reference
from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageKernel,
    LearningModelPixelRange,
    NotSupportedError,
    read_contract,
)
from winml_py.core.contracts.huggingface import PROCESSORS
from winml_py.scaling import Ends, Fit

pytestmark = pytest.mark.exhaustive

Size = tuple[int, int]

SOME = ("landscape", "tiny", "texture")


def require_levels(contract: ImageContract, pixels: Any, theirs: Any, name: str = "") -> None:
    """An exact contract gives the makers' levels, and another one is near them, which the fast way may scale.

    Padding is in whole levels, and some makers pad with numbers between two of them.
    """
    exact = replace(contract, exact=True)
    exact_mean, largest = hub.measure_levels(exact, hub.bind_contract(exact, pixels), theirs)
    assert largest <= 0.51, name
    mean, largest = hub.measure_levels(contract, hub.bind_contract(contract, pixels), theirs)
    assert mean <= exact_mean + 0.25, name
    assert largest <= 2.01, name


def require_close(contract: ImageContract, config: hub.Config, names: Any = None) -> None:
    for name in names or hub.make_pictures():
        require_levels(contract, hub.make_pictures()[name], hub.run_processor(config, hub.make_pictures()[name]), name)


@pytest.mark.parametrize("name", hub.PUBLISHED)
def test_published_settings(name: str) -> None:
    config = hub.PUBLISHED[name]
    contract = read_contract(config)
    require_close(contract, config)
    assert ImageContract.from_metadata(contract.to_metadata()) == contract
    free = hub.bind_contract(contract, hub.make_pictures()["texture"])
    fixed = hub.bind_contract(contract, hub.make_pictures()["texture"], (free.shape[1], free.shape[2]))
    np.testing.assert_array_equal(fixed, free)


@pytest.mark.parametrize("resample", range(6))
def test_a_crop_of_few_rows_is_the_makers(resample: int) -> None:
    """Where a pixel more or less is a quarter of the picture. (The maker takes 3 rows, or 1, for channels.)"""
    config = hub.PUBLISHED["deepmind/vision-perceiver-conv"] | {"resample": resample}
    contract = read_contract(config)
    for height, width in ((4, 64), (64, 4), (5, 90), (7, 8), (33, 200)):
        pixels = np.random.default_rng(height).integers(0, 256, (height, width, 3), np.uint8)
        require_levels(contract, pixels, hub.run_processor(config, pixels))


@pytest.mark.parametrize("kind", PROCESSORS)
def test_defaults_of_a_processor(kind: str, tmp_path: Path) -> None:
    config: hub.Config = {"image_processor_type": f"{kind}ImageProcessor"}
    if kind in ("ChineseCLIP", "MobileViT"):  # the first fails with its own defaults; the second pads
        with pytest.raises(NotSupportedError, match=r"shortest_edge|crop_size"):
            read_contract(config)
        return
    if kind.startswith("LayoutLM"):
        config |= {"apply_ocr": False}
    if kind == "OneFormer":
        (tmp_path / "classes.json").write_text(json.dumps({"0": {"name": "cat", "isthing": 1}}))
        config |= {"repo_path": str(tmp_path), "class_info_file": "classes.json"}
    require_close(read_contract(config), config, ["texture"])


CLIP = hub.PUBLISHED["facebook/dinov2-base"]
DETR = {**hub.DONE, **hub.IMAGENET, "image_processor_type": "DetrImageProcessor", "resample": 2}
BOX = {"max_height": 300, "max_width": 500}
CHANGES: dict[str, hub.Config] = {
    **{f"resample {number}": {**CLIP, "resample": number} for number in range(6)},
    "bytes": {**CLIP, "do_rescale": False, "do_normalize": False},
    "0 to 1": {**CLIP, "do_normalize": False},
    "0 to 2": {**CLIP, "rescale_factor": 1 / 127.5},
    "normalised bytes": {**CLIP, "do_rescale": False, "image_mean": [120, 110, 100], "image_std": [60, 50, 40]},
    "one number for all channels": {**CLIP, "image_mean": 0.4, "image_std": 0.3},
    "not cropped": {**CLIP, "do_center_crop": False},
    "two sides, cropped": {**CLIP, "size": {"height": 250, "width": 300}, "crop_size": [200, 210]},
    "own size": {**CLIP, "do_resize": False, "do_center_crop": False},
    "offset": {**hub.PUBLISHED["google/efficientnet-b0"], "rescale_factor": 1 / 127.5, "rescale_offset": True},
    "without top": {**hub.PUBLISHED["google/efficientnet-b0"], "include_top": False},
    "odd offset": {**hub.PUBLISHED["google/efficientnet-b0"], "rescale_factor": 0.01, "rescale_offset": True},
    "box": {**DETR, "size": BOX},
    "box and padding": {**DETR, "size": BOX, "pad_size": {"height": 310, "width": 510}},
    "two sides": {**DETR, "size": {"height": 310, "width": 200}},
    "dpt with padding": {
        **hub.PUBLISHED["Intel/dpt-large"], "do_pad": True, "size_divisor": 20, "size": 210
    },
    "dpt with aspect ratio and padding": {
        **hub.PUBLISHED["LiheYoung/depth-anything-small-hf"], "do_pad": True, "size_divisor": 32
    },
    "maskformer of two sides": {
        **hub.PUBLISHED["facebook/mask2former-swin-small-coco-instance"], "size": {"height": 100, "width": 130}
    },
    "perceiver without crop": {**hub.PUBLISHED["deepmind/vision-perceiver-conv"], "do_center_crop": False},
    "levit of two sides": {
        **hub.PUBLISHED["facebook/levit-128S"], "size": {"height": 240, "width": 250}
    },
    "poolformer of a square": {**hub.PUBLISHED["sail/poolformer_s12"], "size": {"height": 230, "width": 230}},
    "textnet with crop": {**hub.PUBLISHED["czczup/textnet-base"], "do_center_crop": True},
    "sam without padding": {**hub.PUBLISHED["facebook/sam-vit-base"], "do_pad": False},
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_each_key(name: str) -> None:
    require_close(read_contract(CHANGES[name]), CHANGES[name], SOME)


def _draw_side(rng: Random) -> int:
    return rng.choice([16, 24, 31, 32, 40, 47, 56, 64, 75, 96])


def _draw_size(rng: Random) -> Any:
    height, width = _draw_side(rng), _draw_side(rng)
    return rng.choice([
        height, [height, width], hub.square(height), {"height": height, "width": width}, {"shortest_edge": height},
        {"shortest_edge": height, "longest_edge": height + width}, {"longest_edge": height},
        {"max_height": height, "max_width": width}, None,
    ])  # fmt: skip


DRAWS: dict[str, Callable[[Random], Any]] = {
    "size": _draw_size,
    "crop_size": _draw_size,
    "pad_size": lambda rng: rng.choice([{"height": 128, "width": 160}, hub.square(_draw_side(rng) + 64), 99, None]),
    "max_size": lambda rng: rng.choice([40, 64, 150, 900]),
    "resample": lambda rng: rng.randrange(6),
    "rescale_factor": lambda rng: rng.choice([1 / 255, 1 / 127.5, 0.01, 1]),
    "image_mean": lambda rng: rng.choice([[0.5, 0.5, 0.5], [0.4, 0.5, 0.6], 0.45, [0, 0, 0]]),
    "image_std": lambda rng: rng.choice([[0.5, 0.5, 0.5], [0.2, 0.3, 0.25], 0.3, [1, 1, 1]]),
    "size_divisor": lambda rng: rng.choice([1, 8, 14, 32, 0, None]),
    "ensure_multiple_of": lambda rng: rng.choice([1, 4, 14, 32]),
    "crop_pct": lambda rng: rng.choice([0.5, 0.875, 0.9, 1.0, None]),
}


def _draw_config(rng: Random, kind: str, folder: Path) -> hub.Config:
    """Some of the keys that processors read, most of them this one's, and keys that old configs have."""
    config: hub.Config = {"image_processor_type": f"{kind}ImageProcessor"}
    own = list(PROCESSORS[kind].defaults)
    others = ["max_size", "pad_and_return_pixel_mask", *own, *DRAWS, "do_pad", "do_center_crop"]
    for key in [*(key for key in own if rng.random() < 0.5), rng.choice(others)]:
        config[key] = DRAWS[key](rng) if key in DRAWS else rng.random() < 0.6
    if kind.startswith("LayoutLM"):
        config["apply_ocr"] = False
    if kind == "OneFormer":
        (folder / "classes.json").write_text(json.dumps({"0": {"name": "cat", "isthing": 1}}))
        config |= {"repo_path": str(folder), "class_info_file": "classes.json"}
    return config


@pytest.mark.filterwarnings("ignore::winml_py.errors.MissingContractWarning")  # levels of 0 to 255 for a mean of 0.5
def test_random_settings_are_the_makers_or_refused(tmp_path: Path) -> None:
    rng, compared = Random(61), 0
    pictures = [hub.draw_texture(width, height) for width, height in ((97, 61), (64, 120), (150, 150), (40, 33))]
    for kind in [*PROCESSORS] * -(-400 // len(PROCESSORS)):
        config, pixels = _draw_config(rng, kind, tmp_path), rng.choice(pictures)
        try:
            contract = read_contract(config)
            theirs = hub.run_processor(config, pixels)
        except (NotSupportedError, ValueError, TypeError, KeyError, AttributeError):
            continue  # refused here, or fails there
        exact = replace(contract, exact=True)
        assert hub.measure_levels(exact, hub.bind_contract(exact, pixels), theirs)[1] <= 0.51, config
        compared += 1
    assert compared > 100


FAST = ("resample", "image_mean", "image_std", "size", "crop_size", "pad_size", "rescale_factor", "crop_pct",
        "size_divisor", "ensure_multiple_of", "keep_aspect_ratio", "do_", "include_top", "rescale_offset")  # fmt: skip
"""The starts of the attributes that change pixels."""


def _read_fast_defaults(kind: str) -> dict[str, Any]:
    """The attributes of a fast processor's class, from its source, because to import it takes torch."""
    import transformers.models
    from transformers import image_utils

    names = {**vars(image_utils), "AnnotationFormat": image_utils.AnnotationFormat}
    (file,) = (
        file
        for file in Path(transformers.models.__path__[0]).glob("*/image_processing_*_fast.py")
        if file.parent.name.replace("_", "") == kind.lower()
    )
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name.lower() == f"{kind}ImageProcessorFast".lower():
            pairs = [(ast.unparse(part.targets[0]), part.value) for part in node.body if isinstance(part, ast.Assign)]
            wanted = (*FAST, "default_to_square")
            return {name: eval(ast.unparse(value), names) for name, value in pairs if name.startswith(wanted)}
    raise AssertionError(kind)


def _read_or_refuse(config: hub.Config) -> ImageContract | str:
    try:
        return read_contract(config)
    except NotSupportedError:
        return "refused"


@pytest.mark.parametrize("kind", sorted(PROCESSORS.keys() - {"GLPN"}))  # which has no fast twin
def test_a_fast_processor_has_its_own_defaults(kind: str) -> None:
    defaults = {"default_to_square": True, **_read_fast_defaults(kind)}
    is_square = defaults.pop("default_to_square")
    stated = {key: False if value is None and key.startswith("do_") else value for key, value in defaults.items()}
    stated["resample"] = int(stated["resample"])
    fast = {"image_processor_type": f"{kind}ImageProcessorFast"}
    assert _read_or_refuse(fast) == _read_or_refuse({**fast, **stated})
    number = _read_or_refuse({**fast, "size": 400})
    if "longest_edge" not in stated["size"]:  # of which a number is only a part
        size = hub.square(400) if is_square else {"shortest_edge": 400}
        assert number in (_read_or_refuse({**fast, "size": size}), "refused")


@pytest.mark.parametrize("name", hub.REFUSED)
def test_what_no_contract_does_is_refused(name: str) -> None:
    config, word = hub.REFUSED[name]
    with pytest.raises(NotSupportedError, match=word) as refusal:
        read_contract(config)
    assert "ImageContract(...)" in str(refusal.value)


def _of(family: str) -> Any:
    return importlib.import_module(f"transformers.models.{family}.image_processing_{family}")


def _seen(height: int, width: int) -> Any:
    return np.broadcast_to(np.uint8(0), (height, width, 3))


def _shortest(height: int, width: int) -> Size:
    from transformers.image_transforms import get_resize_output_image_size

    size = get_resize_output_image_size(_seen(height, width), 256, False, input_data_format="channels_last")
    return (int(size[0]), int(size[1]))


THEIR_SIZES: dict[str, Callable[[int, int], Size]] = {
    "facebook/dinov2-base": _shortest,
    "facebook/detr-resnet-50": lambda h, w: _of("detr").get_size_with_aspect_ratio((h, w), 800, 1333),
    "hustvl/yolos-tiny": lambda h, w: _of("yolos").get_size_with_aspect_ratio((h, w), 512, 1333),
    "a detector that pads to 800x1333": lambda h, w: _of("detr").get_image_size_for_max_height_width(
        _seen(h, w), 800, 1333, "channels_last"
    ),
    "facebook/mask2former-swin-small-coco-instance": lambda h, w: _of(
        "maskformer"
    ).get_maskformer_resize_output_image_size(_seen(h, w), 800, 1333, 32, False, "channels_last"),
    "dandelin/vilt-b32-mlm": lambda h, w: _of("vilt").get_resize_output_image_size(
        _seen(h, w), 384, 639, 32, "channels_last"
    ),
    "LiheYoung/depth-anything-small-hf": lambda h, w: _of("dpt").get_resize_output_image_size(
        _seen(h, w), (518, 518), True, 14, "channels_last"
    ),
    "facebook/sam-vit-base": lambda h, w: _of("sam").SamImageProcessor()._get_preprocess_shape((h, w), 1024),
}


@pytest.mark.parametrize("name", THEIR_SIZES)
@settings(deadline=None, max_examples=100)
@given(st.integers(100, 4000), st.integers(100, 4000))
@example(250, 640)  # ViLT truncates after rounding to the nearest
@example(445, 1334)  # DETR leaves such a picture alone
@example(800, 1333)
def test_sizes(name: str, height: int, width: int) -> None:
    scaling = read_contract(hub.PUBLISHED[name]).scaling
    expected = tuple(map(int, THEIR_SIZES[name](height, width)))
    assume(min(expected) > 0)  # of which the processors make an error
    assert scaling.compute_size(width, height) == expected


TIMM = {
    "interpolation": "bicubic",
    "crop_pct": 0.9,
    "crop_mode": "center",
    "input_size": [3, 224, 224],
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
}


@pytest.mark.parametrize("mode", ["center", "squash", "border"])
@pytest.mark.parametrize("ratio", [0.875, 0.95, 1.0])
@pytest.mark.parametrize("size", [[3, 224, 224], [3, 239, 239]], ids=str)
def test_timm(mode: str, ratio: float, size: list[int]) -> None:
    cfg = {**TIMM, "crop_mode": mode, "crop_pct": ratio, "input_size": size}
    contract = read_contract({"architecture": "resnet18", "pretrained_cfg": cfg})
    for pixels in hub.make_pictures().values():
        require_levels(contract, pixels, reference.timm_evaluation(pixels, cfg))


@pytest.mark.parametrize("is_rect", [False, True])
def test_ultralytics(is_rect: bool) -> None:
    contract = ImageContract(
        BitmapPixelFormat.RGB8,
        LearningModelPixelRange.ZERO_TO_ONE,
        kernel=ImageKernel.LINEAR,
        pad=(114, 114, 114),
        size=None if is_rect else (480, 640),
        scaling=Fit((480, 640), ends=Ends(pad_multiple=32)),
    )
    for name, pixels in hub.make_pictures().items():
        expected = reference.ultralytics_letterbox(pixels, (480, 640), is_rect)
        mean, largest = hub.measure_levels(contract, hub.bind_contract(contract, pixels), expected)
        assert mean <= 0.01, name
        assert largest <= 1, name


def test_imagenet_is_what_torchvision_evaluates_on() -> None:
    cfg = {**TIMM, "crop_pct": 0.875, "interpolation": "bilinear"}
    contract = replace(ImageContract.imagenet(), size=(224, 224))
    assert contract == read_contract(cfg)
    for pixels in hub.make_pictures().values():
        expected = reference.timm_evaluation(pixels, cfg)
        exact = replace(contract, exact=True)
        assert hub.measure_levels(exact, hub.bind_contract(exact, pixels), expected)[1] < 0.01
        assert hub.measure_levels(contract, hub.bind_contract(contract, pixels), expected)[1] <= 1.01
