"""Functions that prepare pictures for models, as training code has them, and contracts as slow functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageChops, ImageFilter, ImageOps

from helpers.reference import scale_aligned
from winml_py import ImageContract, ImageKernel
from winml_py.core.imaging.contract import compute_placement
from winml_py.core.imaging.pixels import KERNELS

Array = np.ndarray[Any, Any]
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def stretched(image: Image.Image) -> Array:
    """As ViT's processor."""
    pixels = np.asarray(image.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)) / 255.0
    return ((pixels - 0.5) / 0.5).transpose(2, 0, 1)[None].astype(np.float32)


def imagenet(image: Image.Image) -> dict[str, Array]:
    """As torchvision's Resize(256) and CenterCrop(224), in a dict."""
    width, height = image.size
    size = (256, int(256 * height / width)) if width <= height else (int(256 * width / height), 256)
    image = image.resize(size, Image.Resampling.BILINEAR)
    left, top = round((image.width - 224) / 2), round((image.height - 224) / 2)
    pixels = np.asarray(image.crop((left, top, left + 224, top + 224))) / 255.0
    return {"mask": np.ones(3), "pixel_values": ((pixels - MEAN) / STD).transpose(2, 0, 1)[None].astype(np.float32)}


def letterboxed(bgr: Array) -> Array:
    """As Ultralytics' letterbox, of OpenCV's pictures."""
    height, width = bgr.shape[:2]
    ratio = min(320 / height, 320 / width)
    inner = round(width * ratio), round(height * ratio)
    scaled = cv2.resize(bgr, inner, interpolation=cv2.INTER_LINEAR)
    across, down = (320 - inner[0]) / 2, (320 - inner[1]) / 2
    edges = round(down - 0.1), round(down + 0.1), round(across - 0.1), round(across + 0.1)
    padded = cv2.copyMakeBorder(scaled, *edges, cv2.BORDER_CONSTANT, value=(114, 114, 114))
    return np.ascontiguousarray(padded[..., ::-1].transpose(2, 0, 1)[None]).astype(np.float32) / 255


def text_detector(bgr: Array) -> Array:
    """As PaddleOCR's detector: the longer side at most 960, and both multiples of 32."""
    height, width = bgr.shape[:2]
    ratio = 960 / max(height, width) if max(height, width) > 960 else 1.0
    high, wide = (max(32, round(int(side * ratio) / 32) * 32) for side in (height, width))
    pixels = cv2.resize(bgr, (wide, high)).astype(np.float32) / 255
    return ((pixels - MEAN) / STD).transpose(2, 0, 1)[None].astype(np.float32)


def text_reader(bgr: Array) -> Array:
    """As PaddleX's recogniser: 48 pixels high, and at least 320 wide with the number 0."""
    height, width = bgr.shape[:2]
    whole = int(48 * max(320 / 48, width / height))
    inner = min(whole, math.ceil(48 * (width / height)))
    padded = np.zeros((3, 48, whole), np.float32)
    padded[..., :inner] = ((cv2.resize(bgr, (inner, 48)).astype(np.float32) / 255 - 0.5) / 0.5).transpose(2, 0, 1)
    return padded


def text_line(bgr: Array) -> Array:
    """As PaddleOCR's recogniser: 48 pixels high."""
    height, width = bgr.shape[:2]
    pixels = cv2.resize(bgr, (max(1, math.ceil(48 * width / height)), 48)).astype(np.float32) / 255
    return ((pixels - 0.5) / 0.5).transpose(2, 0, 1)[None]


def tagger(image: Image.Image) -> Array:
    """Bytes, channels last, blue first."""
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    part = image.crop((left, top, left + side, top + side)).resize((128, 128), Image.Resampling.LANCZOS)
    return np.asarray(part)[..., ::-1]


def floats(rgb: Array) -> list[Array]:
    """Scales numbers of floating point, in a list."""
    return [cv2.resize(rgb.astype(np.float32) / 255, (96, 96)).transpose(2, 0, 1)]


def _into(pixels: Array, high: int, wide: int, height: int, width: int, padding: float) -> Array:
    """Numbers of a scaled picture in a tensor, with a number right of it and below."""
    whole = np.full((height, width, 3), padding, np.float32)
    whole[:high, :wide] = cv2.resize(pixels, (wide, high)) / 127.5 - 1
    return whole.transpose(2, 0, 1)


def padded_between(image: Image.Image) -> Array:
    """As PaddleOCR's recogniser: the number 0 is between two levels."""
    scale = min(48 / image.height, 320 / image.width)
    high, wide = max(1, int(image.height * scale)), max(1, int(image.width * scale))
    return _into(np.asarray(image), high, wide, 48, 320, 0)


def whole_into(image: Image.Image) -> Array:
    """Into 32 x 128, as onnxtr: one side is whole, where `int(side * (32 / side))` would lose a pixel of some sizes."""
    high, wide = 32, max(1, 32 * image.width // image.height)
    if wide > 128:
        high, wide = max(1, 128 * image.height // image.width), 128
    return _into(np.asarray(image), high, wide, 32, 128, -1)


def by_a_factor(image: Image.Image) -> Array:
    """As RetinaFace: the sides are rounded, and the factor is not."""
    factor = 200 / min(image.size)
    pixels = cv2.resize(np.asarray(image), None, fx=factor, fy=factor)
    return pixels.transpose(2, 0, 1).astype(np.float32)


def scaled_twice(image: Image.Image) -> Array:
    return stretched(image.resize((640, 640), Image.Resampling.BILINEAR))


def gamma(image: Image.Image) -> Array:
    return stretched(Image.fromarray((255 * (np.asarray(image) / 255) ** 2.2).astype(np.uint8)))


def own_mean(image: Image.Image) -> Array:
    pixels = np.asarray(image.resize((64, 64))) / 255
    return ((pixels - pixels.mean()) / (pixels.std() + 1e-6)).transpose(2, 0, 1)


def own_maximum(image: Image.Image) -> Array:
    pixels = np.asarray(image.resize((64, 64)), np.float32)
    return (pixels / max(pixels.max(), 1e-6)).transpose(2, 0, 1)


def int_scaled(image: Image.Image) -> Array:
    """A shorter side of 256, and of 255 where `side * scale` is just below."""
    scale = 256 / min(image.size)
    image = image.resize((int(image.width * scale), int(image.height * scale)), Image.Resampling.BILINEAR)
    left, top = (image.width - 224) // 2, (image.height - 224) // 2
    return np.asarray(image.crop((left, top, left + 224, top + 224))).transpose(2, 0, 1) / 255


def padded_first(image: Image.Image) -> Array:
    side = max(image.size)
    square = Image.new("RGB", (side, side), (255, 255, 255))
    square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    return np.asarray(square.resize((96, 96), Image.Resampling.BICUBIC)).transpose(2, 0, 1) / 255


def two_kernels(rgb: Array) -> Array:
    """Another kernel where pictures shrink."""
    kernel = cv2.INTER_AREA if max(rgb.shape) > 320 else cv2.INTER_CUBIC
    return cv2.resize(rgb, (320, 320), interpolation=kernel).transpose(2, 0, 1) / 255


def equalised(image: Image.Image) -> Array:
    return stretched(ImageOps.equalize(image))


def turned(image: Image.Image) -> Array:
    return stretched(image.transpose(Image.Transpose.ROTATE_90))


def bright_sized(image: Image.Image) -> Array:
    """A larger tensor for bright pictures of many levels."""
    side = 128 if len(np.unique(np.asarray(image))) > 250 and np.asarray(image).std() < 60 else 64
    return np.asarray(image.resize((side, side))).transpose(2, 0, 1) / 255


def vignette(image: Image.Image) -> Array:
    return stretched(image) * np.linspace(0.5, 1, 224, dtype=np.float32)


def random_crop(image: Image.Image) -> Array:
    left = int(np.random.default_rng().integers(0, 12))
    return stretched(image.crop((left, 0, *image.size)))


def to_32(rgb: Array, to_multiple: Callable[[float], int]) -> Array:
    """Both sides become multiples of 32, and nothing limits them."""
    high, wide = (max(32, 32 * to_multiple(side / 32)) for side in rgb.shape[:2])
    return cv2.resize(rgb, (wide, high)).transpose(2, 0, 1)


def at_least(rgb: Array) -> Array:
    """Multiples of 8, at least 32."""
    high, wide = (max(32, side // 8 * 8) for side in rgb.shape[:2])
    return cv2.resize(rgb, (wide, high)).transpose(2, 0, 1)


def _on_canvas(rgb: Array, shrink: Callable[[Array, float], Array]) -> Array:
    """In the corner of 512 x 512; what is larger shrinks."""
    scale = 512 / max(rgb.shape)
    part = (shrink(rgb, scale) if scale < 1 else rgb)[:512, :512]
    whole = np.zeros((512, 512, 3), np.uint8)
    whole[: part.shape[0], : part.shape[1]] = part
    return whole.transpose(2, 0, 1)


def _wide_high(rgb: Array, scale: float) -> tuple[int, int]:
    return max(1, round(rgb.shape[1] * scale)), max(1, round(rgb.shape[0] * scale))


def large_by_a_factor(rgb: Array) -> Array:
    return _on_canvas(rgb, lambda rgb, scale: cv2.resize(rgb, None, fx=scale, fy=scale))


def large_blurred(rgb: Array) -> Array:
    return _on_canvas(
        rgb, lambda rgb, scale: cv2.resize(cv2.GaussianBlur(rgb, (0, 0), 0.5 / scale), _wide_high(rgb, scale))
    )


def large_by_nearest(rgb: Array) -> Array:
    return _on_canvas(rgb, lambda rgb, scale: cv2.resize(rgb, _wide_high(rgb, scale), interpolation=cv2.INTER_NEAREST))


def dark_corrected(rgb: Array) -> Array:
    image = Image.fromarray(rgb)
    return stretched(ImageOps.autocontrast(image) if rgb.mean() < 40 else image)


def trimmed(image: Image.Image) -> Array:
    """Without a frame of the colour in the corner."""
    background = Image.new("RGB", image.size, image.getpixel((0, 0)))
    left, top, right, bottom = ImageChops.difference(image, background).getbbox() or (0, 0, *image.size)
    is_framed = left > 0 and top > 0 and right < image.width and bottom < image.height
    return stretched(image.crop((left, top, right, bottom)) if is_framed else image)


def full_hd_sharpened(image: Image.Image) -> Array:
    return stretched(image.filter(ImageFilter.SHARPEN) if image.size == (1920, 1080) else image)


def smoothed_if_blurred(rgb: Array) -> Array:
    """A median where nothing is sharp, as in a blurred photograph."""
    is_sharp = cv2.Laplacian(rgb, cv2.CV_64F).var() > 200
    return stretched(Image.fromarray(rgb if is_sharp else cv2.medianBlur(rgb, 5)))


def read_reduced(path: str) -> Array:
    return stretched(Image.fromarray(cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_2)[..., ::-1]))


def read_as_draft(path: str) -> Array:
    """A JPEG at the least part of its size that is large enough."""
    image = Image.open(path)
    image.draft("RGB", (224, 224))
    return stretched(image)


def halved_between(rgb: Array) -> Array:
    """In two steps if the longer side is between 2,000 and 2,900 pixels."""
    if 2000 < max(rgb.shape) < 2900:
        rgb = cv2.resize(rgb, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    return stretched(Image.fromarray(rgb))


def detector_size(height: int, width: int) -> tuple[int, int]:
    """As Detectron2: a shorter side of 800, a longer one of 1333 at most."""
    scale = 800 / min(height, width)
    high, wide = (800, scale * width) if height < width else (scale * height, 800)
    if max(high, wide) > 1333:
        scale = 1333 / max(high, wide)
        high, wide = high * scale, wide * scale
    return int(high + 0.5), int(wide + 0.5)


def detector(image: Image.Image) -> Array:
    """Padded to multiples of 32."""
    high, wide = detector_size(image.height, image.width)
    whole = np.zeros((-(-high // 32) * 32, -(-wide // 32) * 32, 3), np.float32)
    whole[:high, :wide] = np.asarray(image.resize((wide, high), Image.Resampling.BILINEAR))
    return whole.transpose(2, 0, 1)


class Counting:
    """Another number at each call."""

    def __init__(self) -> None:
        self.calls = 0

    def prepare(self, image: Image.Image) -> Array:
        self.calls += 1
        return stretched(image) + self.calls // 100

    def plain(self, image: Image.Image) -> Array:
        return stretched(image)


def tiles(image: Image.Image) -> Array:
    return np.repeat(stretched(image), 4, axis=0)


def windows_ml(image: Image.Image, mode: str = "stretch") -> Array:
    """As Windows ML's Runtime makes a tensor of 48x64."""
    pixels = np.asarray(image)
    (tall, wide), top, left = pixels.shape[:2], 0, 0
    result = np.zeros((48, 64, 3), np.uint8)
    high, across = 48, 64
    if mode == "letterbox":
        if wide * 48 > tall * 64:
            high = max(1, (2 * tall * 64 + wide) // (2 * wide))
        else:
            across = max(1, (2 * wide * 48 + tall) // (2 * tall))
        top, left = (48 - high) // 2, (64 - across) // 2
    elif mode == "center_crop":
        part = (tall, max(1, tall * 64 // 48)) if wide * 48 > tall * 64 else (max(1, wide * 48 // 64), wide)
        y, x = (tall - part[0]) // 2, (wide - part[1]) // 2
        pixels = pixels[y : y + part[0], x : x + part[1]]
    result[top : top + high, left : left + across] = scale_aligned(pixels, across, high)
    numbers = (result.astype(np.float32) - np.float32(127.5)) * np.float32(1 / 127.5)
    return np.ascontiguousarray(numbers.transpose(2, 0, 1)[None])


def luma(image: Image.Image) -> Array:
    """Gray as Pillow mixes it."""
    return np.asarray(image.convert("L").resize((28, 28), Image.Resampling.BICUBIC), np.float32)[None, None] / 255


def gray_as_colour(image: Image.Image) -> Array:
    return np.repeat(luma(image), 3, axis=1)


def slow(contract: ImageContract, sides: tuple[int | None, int | None]) -> Callable[[Image.Image], Array]:
    """What a contract does, with Pillow and OpenCV themselves, pixel formulas written out."""

    def prepare(image: Image.Image) -> Array:
        place = compute_placement(*image.size, sides, contract.scaling)
        left, top, across, down = place.part
        part = image.crop((left, top, left + across, top + down))
        high, wide = place.scaled
        kernel = KERNELS[contract.kernel]
        if contract.kernel is ImageKernel.ALIGN_CORNERS_LINEAR:
            scaled = scale_aligned(np.asarray(part), wide, high)
        elif kernel.opencv:
            scaled = cv2.resize(np.asarray(part), (wide, high), interpolation=getattr(cv2, kernel.opencv))
        else:
            scaled = np.asarray(part.resize((wide, high), Image.Resampling[kernel.pillow]))
        cut = scaled[place.cut.y : place.cut.y + place.cut.height, place.cut.x : place.cut.x + place.cut.width]
        picture = np.full((*place.tensor, 3), contract.pad, np.uint8)
        target = place.target
        picture[target.y : target.y + target.height, target.x : target.x + target.width] = cut
        if contract.pixel_format.name == "BGR8":
            picture = picture[..., ::-1]
        scale, shift = {"ZERO_TO255": (1, 0), "ZERO_TO_ONE": (255, 0), "MINUS_ONE_TO_ONE": (127.5, 1)}[
            contract.pixel_range.name
        ]
        numbers = (picture / scale - shift - (contract.mean or 0)) / (contract.std or 1)
        return (numbers if contract.layout.name == "NHWC" else numbers.transpose(2, 0, 1))[None].astype(np.float32)

    return prepare
