"""Slow, readable references for what the package computes fast."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from PIL import Image

Array = np.ndarray[Any, Any]

RGB = {"RGB8": (0, 1, 2), "BGR8": (2, 1, 0), "RGBA8": (0, 1, 2), "BGRA8": (2, 1, 0)}
SCALES = {"ZERO_TO255": (1.0, 0.0), "ZERO_TO_ONE": (255.0, 0.0), "MINUS_ONE_TO_ONE": (127.5, 1.0)}


def run_raw(model: str | bytes, feeds: dict[str, Any]) -> dict[str, Any]:
    """Raw ONNX Runtime's answer, by output name."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"], enable_fallback=0)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def run_first(model: str | bytes | Path, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Raw ONNX Runtime's first output for the first input."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: array})[0])


def center_crop(width: int, height: int, model_width: int, model_height: int) -> tuple[int, int, int, int]:
    """x, y, width, height; the pseudocode of Windows ML, one float32 operation at a time."""
    f = np.float32
    ratio = f(model_width) / f(model_height)
    if f(ratio * f(height)) < f(width):
        crop_width = max(1, min(int(f(f(ratio * f(height)) + f(0.5))), width))
        return (width - crop_width) // 2, 0, crop_width, height
    crop_height = max(1, min(int(f(f(f(width) / ratio) + f(0.5))), height))
    return 0, (height - crop_height) // 2, width, crop_height


def rgb(pixel: Any, pixel_format: str) -> tuple[int, int, int]:
    """The red, green and blue of one pixel."""
    if pixel_format == "GRAY8":
        return (int(pixel),) * 3
    return tuple(int(pixel[index]) for index in RGB[pixel_format])  # type: ignore[return-value]


def gray(red: int, green: int, blue: int) -> int:
    f = np.float32
    return int(f(f(f(0.2126) * f(red)) + f(f(0.7152) * f(green))) + f(f(0.0722) * f(blue)))


def light(level: int) -> float:
    """sRGB's curve (IEC 61966-2-1), taken from one level."""
    value = level / 255
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def linear_gray(red: int, green: int, blue: int) -> int:
    """The gray of one colour, mixed in linear light."""
    mixed = 0.2126 * light(red) + 0.7152 * light(green) + 0.0722 * light(blue)
    return round(255 * (12.92 * mixed if mixed <= 0.0031308 else 1.055 * mixed ** (1 / 2.4) - 0.055))


def number(byte: int, pixel_range: str) -> np.float32:
    scale, shift = SCALES[pixel_range]
    return np.float32(byte) / np.float32(scale) - np.float32(shift)


def tensorize(pixels: Array, source: str, target: str, pixel_range: str) -> Array:
    """Pixels of the model's size -> channels x height x width, pixel by pixel."""
    height, width = pixels.shape[:2]
    channels = 1 if target == "GRAY8" else 3
    result = np.zeros((channels, height, width), np.float32)
    for y in range(height):
        for x in range(width):
            colour = rgb(pixels[y, x], source)
            values = [gray(*colour)] if target == "GRAY8" else [colour[index] for index in RGB[target]]
            result[:, y, x] = [number(value, pixel_range) for value in values]
    return result


def byte(value: float, pixel_range: str) -> int:
    """A number of a model as a byte: clamped, rounded half to even, NaN as 0."""
    scale, shift = SCALES[pixel_range]
    scaled = np.float32(scale) * (np.float32(value) + np.float32(shift))
    if math.isnan(scaled):
        return 0
    return round(float(min(max(scaled, np.float32(0)), np.float32(255))))


def detensorize(tensor: Array, source: str, target: str, pixel_range: str) -> Array:
    """Channels x height x width -> pixels of `target`, pixel by pixel."""
    channels, height, width = tensor.shape
    depth = {"GRAY8": (), "RGB8": (3,), "BGR8": (3,)}.get(target, (4,))
    result = np.full((height, width, *depth), 255, np.uint8)
    for y in range(height):
        for x in range(width):
            values = [byte(tensor[channel, y, x], pixel_range) for channel in range(channels)]
            colour = tuple(values * 3) if channels == 1 else tuple(values[index] for index in RGB[source])
            if target == "GRAY8":
                result[y, x] = values[0] if channels == 1 else gray(*colour)
            else:
                for index, value in zip(RGB[target], colour, strict=True):
                    result[y, x, index] = value
    return result


def scale_aligned(pixels: Array, width: int, height: int) -> Array:
    """Linear, with aligned corners, row by row: one float32 operation at a time, halves up."""
    f = np.float32
    tall, wide = pixels.shape[:2]
    across = np.arange(width, dtype=f) * (f(wide - 1) / f(max(width - 1, 1)))
    left = np.floor(across).astype(int)
    right, share = np.minimum(left + 1, wide - 1), (across - left.astype(f))[:, None]
    result = np.empty((height, width, *pixels.shape[2:]), np.uint8)
    for row in range(height):
        y = f(row) * (f(tall - 1) / f(max(height - 1, 1)))
        top = int(y)
        down = y - f(top)
        upper, lower = (pixels[index].reshape(wide, -1).astype(f) for index in (top, min(top + 1, tall - 1)))
        sums = upper[left] * ((f(1) - down) * (f(1) - share))
        sums = sums + upper[right] * ((f(1) - down) * share)
        sums = sums + lower[left] * (down * (f(1) - share))
        sums = sums + lower[right] * (down * share)
        result[row] = np.floor(sums + f(0.5)).reshape(result[row].shape)
    return result


def scale(pixels: Array, width: int, height: int) -> Array:
    """Pillow's BICUBIC, channel by channel."""
    if pixels.ndim == 3:
        planes = [scale(np.ascontiguousarray(pixels[..., index]), width, height) for index in range(pixels.shape[2])]
        return np.stack(planes, axis=-1)
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC))


def convolve(plane: Array, kernel: list[list[float]]) -> Array:
    """A filter over a plane whose edges are mirrored, in exact arithmetic of Python numbers."""
    size = len(kernel)
    margin = size // 2
    padded = np.pad(plane.astype(float), margin, mode="reflect")
    result = np.zeros(plane.shape)
    for y in range(plane.shape[0]):
        for x in range(plane.shape[1]):
            window = padded[y : y + size, x : x + size]
            result[y, x] = float((window * np.array(kernel, float)).sum())
    return result


def timm_evaluation(pixels: Array, cfg: dict[str, Any]) -> Array:
    """timm's transform for evaluation (`transforms_imagenet_eval`): RGB pixels -> channels x height x width."""
    height, width = cfg["input_size"][1:]
    ratio = cfg["crop_pct"]
    scale_height, scale_width = math.floor(height / ratio), math.floor(width / ratio)
    filters = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
    kernel = filters[cfg["interpolation"]]
    image = Image.fromarray(pixels)
    black = (0, 0, 0)
    if cfg["crop_mode"] == "squash":
        image = image.resize((scale_width, scale_height), kernel)
    elif cfg["crop_mode"] == "border":
        larger = max(image.height / scale_height, image.width / scale_width)
        image = image.resize((round(image.width / larger), round(image.height / larger)), kernel)
        black = tuple(round(255 * number) for number in cfg["mean"])
    elif image.width <= image.height:  # torchvision's Resize of one number
        image = image.resize((scale_width, int(scale_width * image.height / image.width)), kernel)
    else:
        image = image.resize((int(scale_height * image.width / image.height), scale_height), kernel)
    padded = Image.new("RGB", (max(width, image.width), max(height, image.height)), black)
    padded.paste(image, (max(0, width - image.width) // 2, max(0, height - image.height) // 2))
    left, top = round((padded.width - width) / 2), round((padded.height - height) / 2)
    cropped = padded.crop((left, top, left + width, top + height))
    numbers = (np.asarray(cropped) / 255.0 - np.array(cfg["mean"])) / np.array(cfg["std"])
    return numbers.transpose(2, 0, 1).astype(np.float32)


def ultralytics_letterbox(pixels: Array, size: tuple[int, int], is_rect: bool = False, stride: int = 32) -> Array:
    """Ultralytics' letterbox: RGB pixels -> channels x height x width, from 0 to 1.

    `is_rect` pads to the next multiple of the stride and no further (`auto=True` there).
    """
    import cv2

    height, width = pixels.shape[:2]
    ratio = min(size[0] / height, size[1] / width)
    inner_height, inner_width = round(height * ratio), round(width * ratio)
    down, across = size[0] - inner_height, size[1] - inner_width
    if is_rect:
        down, across = down % stride, across % stride
    if (inner_width, inner_height) != (width, height):
        pixels = cv2.resize(pixels, (inner_width, inner_height), interpolation=cv2.INTER_LINEAR)
    top, bottom = round(down / 2 - 0.1), round(down / 2 + 0.1)
    left, right = round(across / 2 - 0.1), round(across / 2 + 0.1)
    padded = np.full((inner_height + top + bottom, inner_width + left + right, 3), 114, np.uint8)
    padded[top : top + inner_height, left : left + inner_width] = pixels
    return (padded.transpose(2, 0, 1) / 255.0).astype(np.float32)
