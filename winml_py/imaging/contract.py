"""ImageContract: everything that turns a picture into the numbers a model was trained on."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import numpy as np

from ..enums import BitmapPixelFormat, ImageCropMode, ImageKernel, LearningModelPixelRange, TensorKind, TensorLayout
from ..errors import InvalidArgumentError

E = TypeVar("E")
Floats = tuple[float, ...]

SCALE_AND_SHIFT = {
    LearningModelPixelRange.ZERO_TO255: (1.0, 0.0),
    LearningModelPixelRange.ZERO_TO_ONE: (255.0, 0.0),
    LearningModelPixelRange.MINUS_ONE_TO_ONE: (127.5, 1.0),
}
"""number = byte / scale - shift, in float32 (Windows ML's `NominalRangeConverter.cpp`)."""

_PLANES = {
    BitmapPixelFormat.RGBA8: BitmapPixelFormat.RGB8,
    BitmapPixelFormat.BGRA8: BitmapPixelFormat.BGR8,
    BitmapPixelFormat.RGB8: BitmapPixelFormat.RGB8,
    BitmapPixelFormat.BGR8: BitmapPixelFormat.BGR8,
    BitmapPixelFormat.GRAY8: BitmapPixelFormat.GRAY8,
}
_WINDOWS_FORMATS = {
    BitmapPixelFormat.RGB8: BitmapPixelFormat.RGBA8,
    BitmapPixelFormat.BGR8: BitmapPixelFormat.BGRA8,
    BitmapPixelFormat.GRAY8: BitmapPixelFormat.GRAY8,
}
_DTYPES = {
    TensorKind.UINT8: np.dtype(np.uint8),
    TensorKind.FLOAT: np.dtype(np.float32),
    TensorKind.FLOAT16: np.dtype(np.float16),
}

WINDOWS_KEYS = ("Image.BitmapPixelFormat", "Image.NominalPixelRange", "Image.ColorSpaceGamma")
"""The keys Windows ML reads."""
OUR_KEYS = ("Image.Mean", "Image.Std", "Image.Layout", "Image.DataType", "Image.CropMode", "Image.Kernel", "Image.Pad")
"""The keys that are ours."""

_WORDS: dict[str, dict[str, Any]] = {
    "Image.BitmapPixelFormat": {
        "Gray8": BitmapPixelFormat.GRAY8,
        "Rgb8": BitmapPixelFormat.RGB8,
        "Bgr8": BitmapPixelFormat.BGR8,
    },
    "Image.NominalPixelRange": {
        "NominalRange_0_255": LearningModelPixelRange.ZERO_TO255,
        "Normalized_0_1": LearningModelPixelRange.ZERO_TO_ONE,
        "Normalized_1_1": LearningModelPixelRange.MINUS_ONE_TO_ONE,
    },
    "Image.Layout": {"NCHW": TensorLayout.NCHW, "NHWC": TensorLayout.NHWC},
    "Image.DataType": {"UInt8": TensorKind.UINT8, "Float16": TensorKind.FLOAT16, "Float": TensorKind.FLOAT},
    "Image.CropMode": {
        "Center": ImageCropMode.CENTER,
        "Stretch": ImageCropMode.STRETCH,
        "Letterbox": ImageCropMode.LETTERBOX,
    },
    "Image.Kernel": {
        "Nearest": ImageKernel.NEAREST,
        "Linear": ImageKernel.LINEAR,
        "Cubic": ImageKernel.CUBIC,
        "Area": ImageKernel.AREA,
        "AntialiasedLinear": ImageKernel.ANTIALIASED_LINEAR,
        "AntialiasedCubic": ImageKernel.ANTIALIASED_CUBIC,
    },
}
_FIELDS = {
    "Image.BitmapPixelFormat": "pixel_format",
    "Image.NominalPixelRange": "pixel_range",
    "Image.Layout": "layout",
    "Image.DataType": "tensor_kind",
    "Image.CropMode": "crop_mode",
    "Image.Kernel": "kernel",
    "Image.Mean": "mean",
    "Image.Std": "std",
    "Image.Pad": "pad",
}


@dataclass(frozen=True, slots=True)
class ImageContract:
    """How a picture becomes a model's tensor: number = (byte / scale - shift - mean) / std, channel by channel.

    Scale and shift are those of the range: 1 and 0 for 0 to 255, 255 and 0 for 0 to 1, 127.5 and 1 for -1 to 1;
    all of it in float32, one step after the other, as Windows ML and torchvision do it, and rounded once to the
    tensor's type. The same contract leads back from an output's numbers to a picture.

    Attributes:
        pixel_format: the order of the channels: `RGB8`, `BGR8` or `GRAY8` (`RGBA8` and `BGRA8` mean the first two:
            there is never an alpha channel in a tensor).
        pixel_range: what the bytes 0 to 255 become first.
        mean: what is then taken off each channel, in the order of `pixel_format`; nothing by default.
        std: what each channel is then divided by; 1 by default.
        layout: NCHW, or NHWC where stated; never guessed.
        tensor_kind: `FLOAT`, `FLOAT16` or `UINT8`; None is the feature's own.
        crop_mode: what becomes of a picture of another aspect ratio.
        kernel: how it is scaled.
        pad: red, green and blue of the letterbox's ground, 0 to 255.

    Raises:
        InvalidArgumentError: numbers or words that mean nothing, such as a std of 0.

    Example:
        >>> from winml_py import ImageContract
        >>> ImageContract.imagenet().std
        (0.229, 0.224, 0.225)
        >>> ImageContract.from_metadata(ImageContract.yolo().to_metadata()) == ImageContract.yolo()
        True
    """

    pixel_format: BitmapPixelFormat = BitmapPixelFormat.BGR8
    pixel_range: LearningModelPixelRange = LearningModelPixelRange.ZERO_TO255
    mean: Floats = ()
    std: Floats = ()
    layout: TensorLayout = TensorLayout.NCHW
    tensor_kind: TensorKind | None = None
    crop_mode: ImageCropMode = ImageCropMode.CENTER
    kernel: ImageKernel = ImageKernel.ANTIALIASED_CUBIC
    pad: tuple[int, int, int] = field(default=(0, 0, 0))

    def __post_init__(self) -> None:
        pixel_format = next((plain for known, plain in _PLANES.items() if known == self.pixel_format), None)
        if pixel_format is None:
            raise InvalidArgumentError(
                f"The channels of a tensor are in the order RGB8, BGR8 or GRAY8, not {self.pixel_format!r}."
            )
        object.__setattr__(self, "pixel_format", pixel_format)
        for name, enum in (
            ("pixel_range", LearningModelPixelRange),
            ("layout", TensorLayout),
            ("crop_mode", ImageCropMode),
            ("kernel", ImageKernel),
        ):
            object.__setattr__(self, name, _member(enum, getattr(self, name), name))
        for name in ("mean", "std"):
            object.__setattr__(self, name, self._per_channel(name))
        if 0 in np.array(self.std).astype(np.float32):
            raise InvalidArgumentError("A std of 0 cannot be divided by.", hint="Leave the std out, or write 1.")
        if self.tensor_kind is not None and self.tensor_kind not in list(_DTYPES):
            raise InvalidArgumentError(f"A picture's tensor is FLOAT, FLOAT16 or UINT8, not {self.tensor_kind!r}.")
        try:
            levels = self.pad if isinstance(self.pad, Iterable) else (self.pad,) * 3
            pad = tuple(operator.index(level) for level in levels)
        except TypeError:
            pad = ()
        if len(pad) != 3 or not all(0 <= level <= 255 for level in pad):
            raise InvalidArgumentError(f"The pad colour is {self.pad!r}.", hint="It is red, green, blue, 0 to 255.")
        object.__setattr__(self, "pad", pad)

    def _per_channel(self, name: str) -> Floats:
        given = getattr(self, name)
        try:
            numbers = tuple(float(number) for number in given) if isinstance(given, Iterable) else (float(given),)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"The {name} of an image contract is {given!r}: {error}.") from error
        if len(numbers) == 1:
            numbers *= self.channels
        with np.errstate(over="ignore"):
            fits = np.isfinite(np.array(numbers).astype(np.float32)).all()
        if len(numbers) not in (0, self.channels) or not fits:
            raise InvalidArgumentError(
                f"The {name} of a {self.pixel_format.name} contract is {given!r}.",
                hint=f"It is one finite number, or {self.channels}: one for each channel.",
            )
        return numbers

    @classmethod
    def imagenet(cls) -> ImageContract:
        """What torchvision's classifiers were trained on, but for its crop of 224 out of 256 pixels."""
        return cls(
            BitmapPixelFormat.RGB8,
            LearningModelPixelRange.ZERO_TO_ONE,
            (0.485, 0.456, 0.406),
            (0.229, 0.224, 0.225),
            kernel=ImageKernel.ANTIALIASED_LINEAR,
        )

    @classmethod
    def inception(cls) -> ImageContract:
        """Red, green, blue from -1 to 1: TensorFlow's Inception, MobileNet and EfficientNet-lite."""
        return cls(
            BitmapPixelFormat.RGB8,
            LearningModelPixelRange.MINUS_ONE_TO_ONE,
            kernel=ImageKernel.ANTIALIASED_LINEAR,
        )

    @classmethod
    def yolo(cls) -> ImageContract:
        """Ultralytics' detectors: red, green, blue from 0 to 1, whole on a gray ground, scaled as OpenCV does."""
        return cls(
            BitmapPixelFormat.RGB8,
            LearningModelPixelRange.ZERO_TO_ONE,
            crop_mode=ImageCropMode.LETTERBOX,
            kernel=ImageKernel.LINEAR,
            pad=(114, 114, 114),
        )

    @classmethod
    def clip(cls) -> ImageContract:
        """OpenAI's CLIP, and what was trained after it."""
        return cls(
            BitmapPixelFormat.RGB8,
            LearningModelPixelRange.ZERO_TO_ONE,
            (0.48145466, 0.4578275, 0.40821073),
            (0.26862954, 0.26130258, 0.27577711),
        )

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> ImageContract:
        """The contract that a model's `metadata_props` state; what they leave out is as by default.

        Raises:
            InvalidArgumentError: a word nobody knows, under a key of Windows ML's or of ours.
        """
        fields: dict[str, Any] = {}
        for key, name in _FIELDS.items():
            if key not in metadata:
                continue
            fields[name] = _word(key, metadata[key]) if key in _WORDS else _numbers(key, metadata[key])
        return cls(**fields)

    def to_metadata(self) -> dict[str, str]:
        """The `metadata_props` that state the contract: Windows ML's keys always, ours where they say something."""
        default = ImageContract(self.pixel_format)
        stated = {"Image.ColorSpaceGamma": "SRGB"}
        for key, name in _FIELDS.items():
            value = getattr(self, name)
            if key not in WINDOWS_KEYS and value == getattr(default, name):
                continue
            if key in _WORDS:
                stated[key] = next(word for word, known in _WORDS[key].items() if known == value)
            else:
                stated[key] = ",".join(map(repr, value))
        return stated

    @property
    def channels(self) -> int:
        """1 or 3."""
        return 1 if self.pixel_format is BitmapPixelFormat.GRAY8 else 3

    @property
    def bitmap_pixel_format(self) -> BitmapPixelFormat:
        """Windows ML's format for such pictures: `RGBA8`, `BGRA8` or `GRAY8`."""
        return _WINDOWS_FORMATS[self.pixel_format]

    def axes(self) -> tuple[int, int, int]:
        """Where channels, height and width stand in a shape of four dimensions."""
        return (1, 2, 3) if self.layout is TensorLayout.NCHW else (3, 1, 2)

    def describe(self) -> str:
        """The contract in one line, without what is as everywhere."""
        parts = [self.pixel_format.name, self.pixel_range.name.lower()]
        for name in ("mean", "std"):
            if getattr(self, name):
                parts.append(f"{name} {' '.join(f'{number:g}' for number in getattr(self, name))}")
        default = ImageContract()
        for name in ("layout", "tensor_kind", "crop_mode", "kernel"):
            value = getattr(self, name)
            if value != getattr(default, name):
                parts.append(value.name if name == "layout" else value.name.lower())
        if self.crop_mode is ImageCropMode.LETTERBOX:
            parts.append(f"pad {' '.join(map(str, self.pad))}")
        return ", ".join(parts)

    def affine(self) -> tuple[tuple[float, float], ...]:
        """The factor and the summand of each channel, range, mean and std folded: number = byte * factor + summand."""
        scale, shift = SCALE_AND_SHIFT[self.pixel_range]
        mean, std = self.mean or (0.0,) * self.channels, self.std or (1.0,) * self.channels
        return tuple((1 / (scale * s), -(shift + m) / s) for m, s in zip(mean, std, strict=True))

    def numbers(self, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """The number for each byte of each channel: channels x 256, of `dtype`, read-only.

        For uint8 tensors the numbers are rounded half to even and held to 0 to 255.
        """
        return _numbers_of(self.pixel_range, self.mean, self.std, self.channels, dtype)


@cache
def _numbers_of(
    pixel_range: LearningModelPixelRange, mean: Floats, std: Floats, channels: int, dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    scale, shift = SCALE_AND_SHIFT[pixel_range]
    table = np.arange(256, dtype=np.float32) / np.float32(scale) - np.float32(shift)
    numbers = np.repeat(table[None], channels, axis=0)
    if mean:
        numbers -= np.array(mean, np.float32)[:, None]
    if std:
        numbers /= np.array(std, np.float32)[:, None]
    if dtype == np.uint8:
        numbers = np.clip(np.rint(numbers), 0, 255)
    numbers = numbers.astype(dtype)
    numbers.flags.writeable = False
    return numbers


def _member(enum: type[E], value: object, name: str) -> E:
    try:
        return enum(value)  # type: ignore[call-arg]
    except ValueError:
        raise InvalidArgumentError(
            f"The {name} of an image contract is {value!r}, which is no {enum.__name__}."
        ) from None


def has_gray_padding(contract: ImageContract) -> bool:
    """Whether the padding is a level of gray, which needs one plane and not three."""
    return len(set(contract.pad)) == 1


def _word(key: str, word: str) -> Any:
    known = _WORDS[key]
    if word not in known:
        raise InvalidArgumentError(f"The model's metadata say {key} is {word!r}.", hint=f"Known: {', '.join(known)}.")
    return known[word]


def _numbers(key: str, text: str) -> tuple[Any, ...]:
    kind: type[int] | type[float] = int if key == "Image.Pad" else float
    try:
        return tuple(kind(number) for number in text.split(","))
    except ValueError:
        raise InvalidArgumentError(
            f"The model's metadata say {key} is {text!r}.", hint="Write numbers with commas: 0.485,0.456,0.406."
        ) from None
