"""How near a built-in contract is to `bind`: contracts, and what compares the two on pictures of odd sizes.

The built model runs in raw ONNX Runtime; what `bind` makes of the same picture is read from a session of the model
before, which gives its input back.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime as ort
from onnx import TensorProto

from helpers.models import FLOAT, FLOAT16, unary
from winml_py import (
    BitmapPixelFormat,
    ImageAnchor,
    ImageContract,
    ImageFeatureValue,
    ImageGray,
    ImageKernel,
    ImageRounding,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
    TensorKind,
    TensorLayout,
)
from winml_py.authoring import build_in
from winml_py.scaling import (
    CropSquare,
    CropToAspect,
    Ends,
    Fit,
    Keep,
    LeastChange,
    LongestSide,
    Multiple,
    ShortestSide,
    Stretch,
)

Array = np.ndarray[Any, Any]
Format, Kernel, Range = BitmapPixelFormat, ImageKernel, LearningModelPixelRange

CHANNELS = {Format.GRAY8: 1, Format.RGB8: 3, Format.BGR8: 3, Format.RGBA8: 4, Format.BGRA8: 4}


class Case(NamedTuple):
    """A contract, the sides of the model, None where they are free, and the format of the pictures."""

    contract: ImageContract
    sides: tuple[int | None, int | None] = (96, 112)
    pictures: BitmapPixelFormat = Format.RGB8
    element: int = FLOAT


IMAGENET, YOLO, RGB = ImageContract.imagenet(), ImageContract.yolo(), ImageContract(Format.RGB8)
FREE = (None, None)
LETTERBOX, STRETCH = Fit(), Stretch()

UNSCALED = {
    "bytes as they are": Case(RGB, FREE),
    "blue, green, red, -1 to 1": Case(ImageContract(pixel_range=Range.MINUS_ONE_TO_ONE), FREE),
    "mean and std": Case(replace(IMAGENET, scaling=CropToAspect()), FREE),
    "mean and std, channels last": Case(replace(IMAGENET, scaling=CropToAspect(), layout=TensorLayout.NHWC), FREE),
    "float16, pictures with alpha": Case(replace(IMAGENET, scaling=CropToAspect()), FREE, Format.BGRA8, FLOAT16),
    "uint8, channels last": Case(
        ImageContract(layout=TensorLayout.NHWC, tensor_kind=TensorKind.UINT8), FREE, element=TensorProto.UINT8
    ),
    "gray of colours": Case(ImageContract(Format.GRAY8, Range.ZERO_TO_ONE), FREE),
    "luma of colours": Case(ImageContract(Format.GRAY8, gray=ImageGray.LUMA), FREE),
    "luma of gray": Case(ImageContract(Format.GRAY8, gray=ImageGray.LUMA), FREE, Format.GRAY8),
    "gray of gray": Case(ImageContract(Format.GRAY8, mean=(33.3,), std=(78.6,)), FREE, Format.GRAY8),
    "colours of gray": Case(replace(IMAGENET, scaling=CropToAspect()), FREE, Format.GRAY8),
    "padded to 32": Case(replace(RGB, scaling=Keep(ends=Ends(pad_multiple=32)), pad=(9, 99, 199)), FREE),
    "cropped and padded": Case(replace(RGB, scaling=Keep(ends=Ends(crop_rounding=ImageRounding.UP)), pad=(1, 2, 3))),
}
NEAREST = {
    f"nearest, {name}": Case(replace(contract, kernel=Kernel.NEAREST))
    for name, contract in {
        "centre": ImageContract(),
        "stretch": replace(RGB, scaling=STRETCH),
        "letterbox": replace(YOLO, pad=(7, 8, 9)),
        "shortest side": replace(RGB, scaling=ShortestSide(131)),
        "crop ratio": replace(IMAGENET, layout=TensorLayout.NHWC),
    }.items()
}
ANTIALIASED = [kernel for kernel in Kernel if kernel.name.startswith("ANTIALIASED")]
SCALED = {
    "imagenet": Case(IMAGENET, (224, 224)),
    "inception": Case(ImageContract.inception(), (299, 299)),
    "yolo": Case(YOLO, (320, 352), Format.BGR8),
    "RGBA, bytes": Case(
        ImageContract(
            Format.BGR8, layout=TensorLayout.NHWC, tensor_kind=TensorKind.UINT8, kernel=Kernel.AREA, exact=True
        ),
        pictures=Format.RGBA8,
        element=TensorProto.UINT8,
    ),
    "clip, float16": Case(ImageContract.clip(), (224, 224), element=FLOAT16),
    "cubic letterbox": Case(replace(YOLO, kernel=Kernel.CUBIC)),
    "gray, coloured padding": Case(
        ImageContract(Format.GRAY8, scaling=LETTERBOX, pad=(250, 0, 0)), pictures=Format.GRAY8
    ),
    "DETR": Case(replace(IMAGENET, scaling=ShortestSide(160, limit=267)), FREE),
    "torchvision's limit": Case(replace(IMAGENET, scaling=ShortestSide(160, limit=267, limits_rounded=True)), FREE),
    "Depth Anything": Case(
        replace(
            IMAGENET,
            scaling=LeastChange(154, 154, multiple=Multiple(14, ImageRounding.HALF_EVEN)),
        ),
        FREE,
    ),
    "Perceiver": Case(replace(IMAGENET, scaling=CropSquare(0.9))),
    "as large as fits": Case(
        replace(
            YOLO,
            scaling=Fit((100, 150), rounding=ImageRounding.DOWN, ends=Ends(anchor=ImageAnchor.TOP_LEFT)),
        ),
        (128, 160),
    ),
    "PaddleOCR": Case(
        replace(
            IMAGENET,
            scaling=LongestSide(200, enlarges=False, multiple=Multiple(32, ImageRounding.HALF_EVEN)),
        ),
        FREE,
    ),
    "RapidOCR's pages": Case(ImageContract.rapidocr("det"), FREE),
    "RapidOCR's lines": Case(ImageContract.rapidocr("rec"), (48, None)),
    "lines that may be upside down": Case(ImageContract.rapidocr("cls"), (48, 192)),
    "padded between levels": Case(replace(YOLO, mean=(0.1, 0.2, 0.3), pad=(25.5, 114, 0.25)), (40, 90), Format.RGBA8),
    "bytes, padded between levels": Case(
        ImageContract(scaling=LETTERBOX, layout=TensorLayout.NHWC, tensor_kind=TensorKind.UINT8, pad=(7.7, 8.5, 9.2)),
        element=TensorProto.UINT8,
    ),
    "longest side, padded": Case(
        replace(IMAGENET, scaling=LongestSide(200, rounding=ImageRounding.HALF_UP, ends=Ends(pad_multiple=32))), FREE
    ),
    "one free side": Case(replace(IMAGENET, scaling=CropToAspect()), (48, None)),
    **{
        f"{name} {kernel.name.lower()}": Case(replace(contract, kernel=kernel))
        for kernel in (*ANTIALIASED, Kernel.LINEAR, Kernel.CUBIC, Kernel.AREA)
        for name, contract in {"centre": ImageContract(), "crop ratio": IMAGENET}.items()
    },
}


class Difference(NamedTuple):
    """By how many levels two tensors differ: on average, and at most."""

    mean: float
    most: float


def picture(height: int, width: int, pixel_format: BitmapPixelFormat) -> Array:
    """Smooth in its upper half, as photographs are, and noise in the other."""
    random = np.random.default_rng(height * 10_000 + width)
    noise = random.integers(0, 256, (height, width, CHANNELS[pixel_format]), dtype=np.uint8)
    rows, columns = np.ogrid[:height, :width]
    waves = 127.5 + 127.5 * np.sin(rows / 9 + columns / 13)[..., None] * np.linspace(1, 0.5, noise.shape[2])
    noise[: height // 2] = waves[: height // 2].round()
    return noise


def drawing(height: int, width: int, pixel_format: BitmapPixelFormat) -> Array:
    """Thin black lines on white."""
    rows, columns = np.ogrid[:height, :width]
    lines = ((columns * 3 + rows * 5) % 17 < 2) | ((columns - rows) % 23 == 0) | (rows % 31 == 0)
    return np.repeat(np.where(lines, 0, 255).astype(np.uint8)[..., None], CHANNELS[pixel_format], axis=2)


class Compared:
    """A model that gives its input back, bound by us, and the same with the contract built in, in ONNX Runtime."""

    def __init__(self, case: Case, folder: Path) -> None:
        contract, sides, self._format, element = case
        shape: list[int | str | None] = [1, contract.channels, sides[0] or "h", sides[1] or "w"]
        if contract.layout is TensorLayout.NHWC:
            shape = [shape[axis] for axis in (0, 2, 3, 1)]
        source, target = folder / "model.onnx", folder / "built.onnx"
        source.write_bytes(unary(shape=shape, element=element, opset=13))
        build_in(source, target, contract, pictures=self._format)
        self._built = ort.InferenceSession(target)
        self._session = LearningModelSession(LearningModel.load(source.read_bytes()))
        self._session.model.contracts["x"] = contract
        self._contract = contract

    def tensors(self, pixels: Array) -> tuple[Array, Array]:
        """What the built model makes of a picture, and what `bind` does."""
        binding = LearningModelBinding(self._session)
        flat = pixels[..., 0] if self._format is Format.GRAY8 else pixels
        binding.bind("x", ImageFeatureValue.from_array(np.ascontiguousarray(flat), self._format))
        bound = np.array(self._session.evaluate(binding, "").outputs["y"].to_numpy())
        return self._built.run(None, {"x": pixels})[0], bound

    def difference(self, pixels: Array) -> Difference:
        """By how many levels the two differ."""
        built, bound = self.tensors(pixels)
        assert built.shape == bound.shape, (built.shape, bound.shape)
        assert built.dtype == bound.dtype
        channels = self._contract.axes()[0]
        level = np.array([factor for factor, _ in self._contract.affine()])
        levels = np.abs(built.astype(np.float64) - bound) / np.moveaxis(level.reshape(1, 1, 1, -1), 3, channels)
        return Difference(levels.mean(), levels.max())
