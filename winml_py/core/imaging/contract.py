"""How a picture becomes the numbers that a model was trained on: `ImageContract`; and where it goes in the tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from functools import cache, lru_cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ...enums import (
    BitmapPixelFormat,
    ImageGray,
    ImageKernel,
    ImageRounding,
    LearningModelPixelRange,
    TensorKind,
    TensorLayout,
)
from ...errors import InvalidArgumentError, InvalidBindingError
from ..base.arguments import require_bool, require_member, require_type
from ..base.arrays import Array, DType, Sides, Size
from .scaling import CropRatio, CropToAspect, Ends, Fit, Scaling, Stretch, require_size

Floats = tuple[float, ...]

SCALE_AND_SHIFT = {
    LearningModelPixelRange.ZERO_TO255: (1.0, 0.0),
    LearningModelPixelRange.ZERO_TO_ONE: (255.0, 0.0),
    LearningModelPixelRange.MINUS_ONE_TO_ONE: (127.5, 1.0),
}
"""number = byte / scale - shift, in float32 (Windows ML's `NominalRangeConverter.cpp`)."""

_WITHOUT_ALPHA = {
    BitmapPixelFormat.RGBA8: BitmapPixelFormat.RGB8,
    BitmapPixelFormat.BGRA8: BitmapPixelFormat.BGR8,
    BitmapPixelFormat.GRAY8: BitmapPixelFormat.GRAY8,
}
_WITH_ALPHA = {order: known for known, order in _WITHOUT_ALPHA.items()}

METADATA_FIELDS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "Image.BitmapPixelFormat": (
        "pixel_format",
        {"Gray8": BitmapPixelFormat.GRAY8, "Rgb8": BitmapPixelFormat.RGB8, "Bgr8": BitmapPixelFormat.BGR8},
    ),
    "Image.NominalPixelRange": (
        "pixel_range",
        {
            "NominalRange_0_255": LearningModelPixelRange.ZERO_TO255,
            "Normalized_0_1": LearningModelPixelRange.ZERO_TO_ONE,
            "Normalized_1_1": LearningModelPixelRange.MINUS_ONE_TO_ONE,
        },
    ),
    "Image.Layout": ("layout", {layout.name: layout for layout in TensorLayout}),
    "Image.DataType": (
        "tensor_kind",
        {"UInt8": TensorKind.UINT8, "Float16": TensorKind.FLOAT16, "Float": TensorKind.FLOAT},
    ),
    "Image.Scaling": ("scaling", {}),
    "Image.Kernel": ("kernel", {kernel.name.title().replace("_", ""): kernel for kernel in ImageKernel}),
    "Image.Mean": ("mean", {}),
    "Image.Std": ("std", {}),
    "Image.Pad": ("pad", {}),
    "Image.Size": ("size", {}),
    "Image.Exact": ("exact", {"True": True, "False": False}),
    "Image.Gray": ("gray", {gray.name.title().replace("_", ""): gray for gray in ImageGray}),
    "Image.Factor": ("factor", {}),
}
"""For each key of the metadata: the contract's field, and the words for its values if they are not numbers."""
METADATA_KEYS = (*METADATA_FIELDS, "Image.ColorSpaceGamma")
"""The keys of a contract, and Windows ML's for the gamma, which can only be sRGB."""


_WINDOWS_ML = CropToAspect()


@dataclass(frozen=True, slots=True, repr=False)
class ImageContract:
    """How a picture becomes a model's tensor: number = (byte / scale - shift - mean) / std, channel by channel.

    With a factor, number = (byte / scale - shift - mean) * factor.

    Scale and shift are those of the range: 1 and 0 for 0 to 255, 255 and 0 for 0 to 1, 127.5 and 1 for -1 to 1. All
    steps are computed in float32, one after the other, as in Windows ML and torchvision, and the result is rounded once
    to the tensor's type. An exception is an NCHW tensor of float32 with a mean or a std: its numbers are computed with
    one factor and one summand per channel, and differ in the last bits. The same contract converts an output's numbers
    back to a picture.

    Attributes:
        pixel_format: the order of the channels: `RGB8`, `BGR8` or `GRAY8` (`RGBA8` and `BGRA8` mean the first two:
            there is never an alpha channel in a tensor).
        pixel_range: what the bytes 0 to 255 become first.
        mean: the number then subtracted from each channel, in the order of `pixel_format`; 0 by default.
        std: the number that each channel is finally divided by; 1 by default.
        factor: instead of std, the number that each channel is finally multiplied by.
        layout: NCHW, or NHWC where stated; never guessed.
        tensor_kind: `FLOAT`, `FLOAT16` or `UINT8`; None means the feature's.
        scaling: the rule for the size that a picture is scaled to, before it is cropped or padded to the tensor: one of
            `winml_py.scaling`, by default Windows ML's.
        kernel: the filter that scales it.
        pad: red, green and blue of the padding, 0 to 255. For a tensor of colours, it may lie between two levels: 127.5
            is the number 0 in the range -1 to 1.
        size: height and width of the tensor where the model leaves them free; None if the contract does not state them.
        exact: whether an antialiased kernel gives Pillow's own levels, at several times the cost. Otherwise a level may
            differ by one, and with a cubic kernel or Lanczos, rarely, by two.
        gray: how colours become gray, for `GRAY8`.

    Raises:
        InvalidArgumentError: invalid numbers or words, such as a std of 0.

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
    scaling: Scaling = _WINDOWS_ML
    kernel: ImageKernel = ImageKernel.ANTIALIASED_CUBIC
    pad: tuple[float, float, float] = (0, 0, 0)
    size: tuple[int, int] | None = None
    exact: bool = False
    gray: ImageGray = ImageGray.WINDOWS
    factor: Floats = ()

    def __post_init__(self) -> None:
        """Normalises each field, so that equal contracts compare equal."""
        checked = {
            "pixel_format": _require_channel_order(self.pixel_format),
            "pad": _require_levels(self.pad),
            "size": require_size(self.size, "An image contract's size"),
            "exact": require_bool(self.exact, "An image contract's exact field"),
        }
        for field in fields(self):
            if isinstance(field.default, IntEnum) and field.name not in checked:
                value, what = getattr(self, field.name), f"An image contract's {field.name}"
                checked[field.name] = require_member(type(field.default), value, what)
        for name, value in checked.items():  # bypasses the frozen dataclass, which nobody has seen yet
            object.__setattr__(self, name, value)
        if self.gray is not ImageGray.WINDOWS and self.channels > 1:
            raise InvalidArgumentError(
                f"The contract specifies how to convert colours to gray, but its tensor is {self.pixel_format.name}.",
                hint="Omit gray, or specify GRAY8.",
            )
        if self.channels == 1 and any(level % 1 for level in self.pad):
            raise InvalidArgumentError(f"A GRAY8 contract's pad cannot be {self.pad}.", hint="Pass a whole number.")
        for name in ("mean", "std", "factor"):
            object.__setattr__(self, name, self._require_per_channel(name))
            # In float32, as tensors are computed: it rounds 1e-50 to 0.
            if name != "mean" and 0 in np.array(getattr(self, name)).astype(np.float32):
                raise InvalidArgumentError(f"The {name} must not be 0.", hint=f"Omit the {name}, or set it to 1.")
        if self.std and self.factor:
            raise InvalidArgumentError("The contract has both a std and a factor.", hint="Pass one of the two.")
        if self.tensor_kind is not None and self.tensor_kind not in METADATA_FIELDS["Image.DataType"][1].values():
            raise InvalidArgumentError(f"Expected a FLOAT, FLOAT16 or UINT8 tensor, got {self.tensor_kind!r}.")
        if not isinstance(self.scaling, Scaling):
            raise InvalidArgumentError(
                f"An image contract's scaling cannot be {self.scaling!r}.",
                hint="Pass a rule of winml_py.scaling, for example ImageContract(scaling=ShortestSide(256)).",
            )

    def _require_per_channel(self, name: str) -> Floats:
        value = getattr(self, name)
        try:
            if isinstance(value, (str, bytes, Set, Mapping)):  # they have no order, or no numbers
                raise TypeError("expected a number, or a list of numbers")
            numbers = tuple(float(number) for number in value) if isinstance(value, Iterable) else (float(value),)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"An image contract's {name} cannot be {value!r}: {error}.") from error
        if len(numbers) == 1:
            numbers *= self.channels
        with np.errstate(over="ignore"):
            fits = np.isfinite(np.array(numbers).astype(np.float32)).all()
        if len(numbers) not in (0, self.channels) or not fits:
            raise InvalidArgumentError(
                f"The contract's {name} cannot be {value!r}.",
                hint=f"Pass one finite number, or {self.channels}, one for each channel.",
            )
        return numbers

    @classmethod
    def imagenet(cls) -> ImageContract:
        """Torchvision's classifiers: the shorter side becomes the model's size / 0.875, and the middle is cropped."""
        return cls(
            BitmapPixelFormat.RGB8,
            LearningModelPixelRange.ZERO_TO_ONE,
            (0.485, 0.456, 0.406),
            (0.229, 0.224, 0.225),
            kernel=ImageKernel.ANTIALIASED_LINEAR,
            scaling=CropRatio(0.875, ends=Ends(crop_rounding=ImageRounding.HALF_EVEN)),
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
        """Ultralytics' detectors: red, green, blue from 0 to 1; whole picture with gray padding; OpenCV's scaling."""
        return cls(
            BitmapPixelFormat.RGB8,
            LearningModelPixelRange.ZERO_TO_ONE,
            scaling=Fit(),
            kernel=ImageKernel.LINEAR,
            pad=(114, 114, 114),
        )

    @classmethod
    def clip(cls) -> ImageContract:
        """OpenAI's CLIP: the shorter side becomes the model's size, by a cubic kernel, and the middle is cropped."""
        return cls(
            BitmapPixelFormat.RGB8,
            LearningModelPixelRange.ZERO_TO_ONE,
            (0.48145466, 0.4578275, 0.40821073),
            (0.26862954, 0.26130258, 0.27577711),
            scaling=CropRatio(1.0, ends=Ends(crop_rounding=ImageRounding.HALF_EVEN)),
        )

    @classmethod
    def windowsml(
        cls,
        size: Size | None = None,
        mode: str = "stretch",
        pixel_format: BitmapPixelFormat = BitmapPixelFormat.RGB8,
        *,
        scale: float | Sequence[float] = (),
        mean: float | Sequence[float] = (),
        pad: tuple[int, int, int] = (0, 0, 0),
    ) -> ImageContract:
        """The tensors of Windows ML's Runtime (`tensor_from_image` of the package windowsml), to the bit.

        Args:
            size: height and width of the tensor, where the model leaves them free.
            mode: "stretch", "center_crop" or "letterbox".
            pixel_format: RGB8, BGR8 or GRAY8.
            scale: what each channel is multiplied by, after the mean was subtracted.
            mean: the numbers that are subtracted, from 0 to 255.
            pad: red, green and blue around a letterboxed picture.

        Raises:
            InvalidArgumentError: another mode or pixel format.

        Example:
            >>> ImageContract.windowsml((224, 224), "letterbox", scale=1 / 255).kernel.name
            'ALIGN_CORNERS_LINEAR'
        """
        modes: dict[str, Scaling] = {
            "stretch": Stretch(),
            "center_crop": CropToAspect(ImageRounding.DOWN),
            "letterbox": Fit(rounding=ImageRounding.HALF_UP),
        }
        if mode not in modes:
            raise InvalidArgumentError(f"Expected the mode {' or '.join(modes)}, got {mode!r}.")
        is_gray = _require_channel_order(pixel_format) is BitmapPixelFormat.GRAY8
        return cls(
            pixel_format,
            mean=mean,  # type: ignore[arg-type]
            scaling=modes[mode],
            kernel=ImageKernel.ALIGN_CORNERS_LINEAR,
            pad=pad,
            size=size,
            gray=ImageGray.EXACT_LUMA if is_gray else ImageGray.WINDOWS,
            factor=scale,  # type: ignore[arg-type]
        )

    @classmethod
    def rapidocr(cls, task: str) -> ImageContract:
        """The tensors of RapidOCR, for the models that it ships.

        Args:
            task: "det" for the model that finds lines of text in a page, "cls" for the one that recognises lines that
                are upside down, "rec" for the one that reads a line.

        Raises:
            InvalidArgumentError: another task.

        Example:
            >>> print(ImageContract.rapidocr("rec").scaling)
            fit_height
        """
        tasks = {
            "det": {"Image.Scaling": "shortest_side=736,shrinks=false,multiple=32,multiple_rounding=half_even"},
            "cls": {"Image.Scaling": "fit_height=48x192", "Image.Size": "48,192"},
            "rec": {"Image.Scaling": "fit_height=48x320"},
        }
        if task not in tasks:
            raise InvalidArgumentError(f"Expected the task {' or '.join(tasks)}, got {task!r}.")
        shared = {
            "Image.NominalPixelRange": "Normalized_1_1",
            "Image.Kernel": "Linear",
            "Image.Pad": "127.5,127.5,127.5",
        }
        return cls.from_metadata(shared | tasks[task])

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> ImageContract:
        """The contract that a model's `metadata_props` state; fields that they leave out get their defaults.

        Raises:
            InvalidArgumentError: an unknown word under one of Windows ML's keys or ours.
        """
        return cls(
            **{name: _read_value(key, metadata[key]) for key, (name, _) in METADATA_FIELDS.items() if key in metadata}
        )

    def to_metadata(self) -> dict[str, str]:
        """The `metadata_props` that state the contract: Windows ML's keys always, ours where they are needed."""
        default = ImageContract(self.pixel_format)
        metadata = {"Image.ColorSpaceGamma": "SRGB"}
        for key, (name, words) in METADATA_FIELDS.items():
            value = getattr(self, name)
            if name not in ("pixel_format", "pixel_range") and value == getattr(default, name):
                continue
            if words:
                metadata[key] = next(word for word, meaning in words.items() if meaning == value)
            elif isinstance(value, Scaling):
                metadata[key] = value.to_text()
            else:
                metadata[key] = ",".join(map(repr, value))
        return metadata

    @property
    def channels(self) -> int:
        """How many channels the tensor has: 1 for gray, else 3."""
        return 1 if self.pixel_format is BitmapPixelFormat.GRAY8 else 3

    @property
    def bitmap_pixel_format(self) -> BitmapPixelFormat:
        """Windows ML's format for such pictures: `RGBA8`, `BGRA8` or `GRAY8`."""
        return _WITH_ALPHA[self.pixel_format]

    def with_pixel_format(self, pixel_format: BitmapPixelFormat) -> ImageContract:
        """The same contract for a tensor whose channels are in another order: mean and std stay with their colours.

        Raises:
            InvalidArgumentError: the new order is gray, and mean or std differ from colour to colour.

        Example:
            >>> from winml_py import BitmapPixelFormat, ImageContract
            >>> ImageContract.imagenet().with_pixel_format(BitmapPixelFormat.BGR8).mean
            (0.406, 0.456, 0.485)
        """
        order, mean, std, factor = _require_channel_order(pixel_format), self.mean, self.std, self.factor
        if BitmapPixelFormat.GRAY8 in (order, self.pixel_format):
            if max(len(set(mean)), len(set(std)), len(set(factor))) > 1:
                raise InvalidArgumentError(
                    f"{self.describe()} has a mean and std for each colour channel, but {order.name} has no colour "
                    "channels.",
                    hint="Specify new values: replace(contract, pixel_format=..., mean=..., std=...).",
                )
            mean, std, factor = mean[:1], std[:1], factor[:1]
        elif order is not self.pixel_format:
            mean, std, factor = mean[::-1], std[::-1], factor[::-1]
        gray = self.gray if order is BitmapPixelFormat.GRAY8 else ImageGray.WINDOWS
        return replace(self, pixel_format=order, mean=mean, std=std, factor=factor, gray=gray)

    def axes(self) -> tuple[int, int, int]:
        """The positions of channels, height and width in a shape of four dimensions."""
        return (1, 2, 3) if self.layout is TensorLayout.NCHW else (3, 1, 2)

    def describe(self) -> str:
        """The contract in one line, without the fields that have their defaults."""
        parts = [self.pixel_format.name, self.pixel_range.name.lower()]
        for field in fields(self)[2:]:
            value = getattr(self, field.name)
            if value == field.default:
                continue
            match value:
                case bool():
                    parts.append(field.name)
                case tuple():
                    parts.append(f"{field.name} {' '.join(f'{number:g}' for number in value)}")
                case Scaling():
                    parts.append(str(value))
                case TensorLayout():
                    parts.append(value.name)
                case _:
                    parts.append(value.name.lower())
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"<ImageContract {self.describe()}>"

    def affine(self) -> tuple[tuple[float, float], ...]:
        """The factor and the summand of each channel, range, mean and std folded: number = byte * factor + summand."""
        scale, shift = SCALE_AND_SHIFT[self.pixel_range]
        mean, std, factor = self._numbers_per_channel
        return tuple((f / (scale * s), -(shift + m) * f / s) for m, s, f in zip(mean, std, factor, strict=True))

    def describe_odd_range(self) -> str:
        """What black and white become, where mean and std must be for another range; "" where they may be right.

        Then black and white are too close, too far apart, far from 0, or black is a fraction of one level below 0.
        """
        for factor, black in self.affine():
            white = black + 255 * factor
            low, high = sorted((black, white))
            distance = high - low
            is_mean_too_small = -0.0039 * distance < low < -0.0002 * distance
            if is_mean_too_small or not (0.05 <= distance <= 300 and low <= distance and high >= -distance):
                return f"Black becomes {black + 0:.4g} and white {white:.4g}, which hardly any model expects."
        return ""

    def numbers(self, dtype: DType) -> Array:
        """The number for each byte of each channel: channels x 256, read-only. For uint8, rounded half to even."""
        return _compute_numbers(self.pixel_range, *self._numbers_per_channel, dtype)

    @property
    def pad_numbers(self) -> Floats:
        """The number of the padding in each channel, where it lies between two levels, which no byte holds; else ()."""
        channels = zip(order_pad_levels(self), self.affine(), strict=False)
        is_between = any(level % 1 for level in self.pad)
        return tuple(level * factor + summand for level, (factor, summand) in channels) if is_between else ()

    @property
    def _numbers_per_channel(self) -> tuple[Floats, Floats, Floats]:
        """Mean, std and factor."""
        ones = (1.0,) * self.channels
        return self.mean or (0.0,) * self.channels, self.std or ones, self.factor or ones


@cache
def _compute_numbers(
    pixel_range: LearningModelPixelRange, mean: Floats, std: Floats, factor: Floats, dtype: DType
) -> Array:
    scale, shift = SCALE_AND_SHIFT[pixel_range]
    numbers = np.arange(256, dtype=np.float32) / np.float32(scale) - np.float32(shift)
    mean_column, std_column, factor_column = (np.array(value, np.float32)[:, None] for value in (mean, std, factor))
    numbers = (numbers - mean_column) / std_column * factor_column
    if dtype == np.uint8:
        numbers = np.clip(np.rint(numbers), 0, 255)
    numbers = numbers.astype(dtype)
    numbers.flags.writeable = False
    return numbers


def order_pad_levels(contract: ImageContract) -> Floats:
    """The padding colour in the order of the tensor's channels; a contract states it red first."""
    return contract.pad[::-1] if contract.pixel_format is BitmapPixelFormat.BGR8 else contract.pad


def has_gray_padding(contract: ImageContract) -> bool:
    """Whether the padding is a level of gray, which needs one plane instead of three."""
    return len(set(contract.pad)) == 1


def _require_channel_order(pixel_format: BitmapPixelFormat) -> BitmapPixelFormat:
    for with_alpha, order in _WITHOUT_ALPHA.items():
        if pixel_format in (with_alpha, order):
            return order
    raise InvalidArgumentError(
        f"An image contract's pixel format cannot be {pixel_format!r}.",
        hint="Pass BitmapPixelFormat.RGB8, BitmapPixelFormat.BGR8 or BitmapPixelFormat.GRAY8.",
    )


def _require_levels(pad: Any) -> Floats:
    levels = tuple(pad) if isinstance(pad, Iterable) else (pad,) * 3
    if len(levels) != 3 or not all(isinstance(level, Real) and 0 <= float(level) <= 255 for level in levels):
        raise InvalidArgumentError(f"The pad colour cannot be {pad!r}.", hint="Pass red, green and blue from 0 to 255.")
    return tuple(float(level) if level % 1 else int(level) for level in levels)


def _read_value(key: str, text: str) -> Any:
    words = METADATA_FIELDS[key][1]
    if key == "Image.Scaling":
        return Scaling.from_text(text)
    number = int if key == "Image.Size" else float
    try:
        return words[text] if words else tuple(number(part) for part in text.split(","))
    except (KeyError, ValueError):
        hint = f"Known values: {', '.join(words)}." if words else "Separate numbers with commas: 0.485,0.456,0.406."
        raise InvalidArgumentError(f"The model's metadata contains an invalid {key}: {text!r}.", hint=hint) from None


# The placement of a picture in its tensor.


MAX_SCALED_PIXELS = 1 << 28
"""The most pixels that a picture may be scaled to; of a long thin one, most are cropped afterwards."""


class BitmapBounds(NamedTuple):
    """A rectangle of a picture, in pixels from its top left corner."""

    x: int = 0
    y: int = 0
    width: int = 0
    height: int = 0


class Placement(NamedTuple):
    """Which part of a picture goes to which part of the tensor: everything that the contract and the bounds decide.

    Attributes:
        part: the used rectangle of the picture, in its pixels.
        scaled: height and width that the part is scaled to.
        cut: the rectangle of the scaled part that remains.
        target: the rectangle of the tensor that `cut` goes to, of the same size.
        picture: height and width of the picture.
        tensor: height and width of the tensor.
    """

    part: BitmapBounds
    scaled: Size
    cut: BitmapBounds
    target: BitmapBounds
    picture: Size
    tensor: Size

    @property
    def is_identity(self) -> bool:
        """Whether nothing is cropped, scaled or padded."""
        return self.part == self.target and self.picture == self.tensor == self.scaled

    @property
    def has_padding(self) -> bool:
        """Whether the tensor has padding around the picture."""
        return (self.target.height, self.target.width) != self.tensor

    @property
    def shrink(self) -> tuple[float, float]:
        """The factors by which width and height shrink; less than 1 where they grow."""
        return self.part.width / self.scaled[1], self.part.height / self.scaled[0]

    @property
    def to_picture(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Along x and y, a factor and a summand: picture = tensor * factor + summand."""
        across, down = self.shrink
        left = self.part.x + across * (self.cut.x - self.target.x)
        top = self.part.y + down * (self.cut.y - self.target.y)
        return (across, left), (down, top)

    def reduce_to(self, width: int, height: int) -> Placement:
        """The same for a smaller copy of the picture: the part covers the same share of it."""
        across, down = width / self.picture[1], height / self.picture[0]
        left, top = round(self.part.x * across), round(self.part.y * down)
        right, bottom = round((self.part.x + self.part.width) * across), round((self.part.y + self.part.height) * down)
        part = BitmapBounds(left, top, max(1, right - left), max(1, bottom - top))
        return self._replace(part=part, picture=(height, width))


@lru_cache(maxsize=256)  # frames of a video, and pictures of a folder, mostly have one size
def compute_placement(
    width: int, height: int, tensor: Sides, scaling: Scaling, bounds: BitmapBounds | None = None
) -> Placement:
    """Decides where a picture goes in a tensor.

    Args:
        width: of the picture.
        height: of the picture.
        tensor: height and width of the tensor; None for a side that nothing fixes.
        scaling: the size that the picture is scaled to.
        bounds: the part to use. `CropToAspect` stretches it and does not crop it again, as in Windows ML.

    Raises:
        InvalidBindingError: the bounds extend beyond the picture, or it would be scaled to more than 2**28 pixels.
        InvalidArgumentError: the scaling is relative to a size that nothing fixes.
    """
    if bounds is not None:
        require_inside(bounds, width, height)
        scaling = Stretch() if isinstance(scaling, CropToAspect) else scaling
    placement = place(bounds or BitmapBounds(0, 0, width, height), (height, width), tensor, scaling)
    require_scaled(placement, tensor, MAX_SCALED_PIXELS)
    return placement


def require_scaled(placement: Placement, tensor: Sides, limit: int) -> None:
    """Refuses to scale a picture to more pixels than a limit, than it has, and than a tensor of fixed sides has."""
    (height, width), (scaled_height, scaled_width) = placement.picture, placement.scaled
    fixed = 0 if None in tensor else placement.tensor[0] * placement.tensor[1]
    if scaled_height * scaled_width > max(limit, height * width, fixed):
        raise InvalidBindingError(
            f"A {width}x{height} picture would be scaled to {scaled_width}x{scaled_height}, "
            f"but the limit is {limit:,} pixels.",
            hint="Bind part of the picture with BitmapBounds, or specify another scaling in the contract.",
        )


def place(region: BitmapBounds, picture: Size, tensor: Sides, scaling: Scaling) -> Placement:
    """Where a region of a picture goes, in numbers or in values of a graph; see `compute_placement`."""
    tensor = scaling.fix_sides([(region.width, region.height)], tensor)
    # Where nothing fixes a side, a part is scaled to the size of the whole picture, as in Windows ML.
    is_part = (region.height, region.width) != picture
    goal = picture if is_part and tensor == (None, None) and scaling.takes_tensor_size else tensor
    part_size = scaling.compute_part(region.width, region.height, goal)
    part = region if part_size is None else _find_middle(region, part_size)
    scaled = scaling.compute_size(part.width, part.height, goal)
    fixed_height, fixed_width = tensor
    height = scaling.ends.pad(scaled[0]) if fixed_height is None else fixed_height
    width = scaling.ends.pad(scaled[1]) if fixed_width is None else fixed_width
    top, y, used_height = scaling.ends.align(scaled[0], height)
    left, x, used_width = scaling.ends.align(scaled[1], width)
    cut = BitmapBounds(left, top, used_width, used_height)
    return Placement(part, scaled, cut, BitmapBounds(x, y, used_width, used_height), picture, (height, width))


def _find_middle(region: BitmapBounds, size: Size) -> BitmapBounds:
    """The part in the middle; an odd pixel remains on the right or below."""
    height, width = size
    x, y = region.x + (region.width - width) // 2, region.y + (region.height - height) // 2
    return BitmapBounds(x, y, width, height)


def compute_center_crop(width: int, height: int, model_width: int, model_height: int) -> BitmapBounds:
    """The largest centred part of a picture that has the model's aspect ratio, by Windows ML's rule.

    Example:
        >>> compute_center_crop(1920, 1080, 224, 224)
        BitmapBounds(x=420, y=0, width=1080, height=1080)
    """
    return place(BitmapBounds(0, 0, width, height), (height, width), (model_height, model_width), CropToAspect()).part


def require_inside(bounds: BitmapBounds, width: int, height: int) -> None:
    """Refuses a crop that is empty or extends beyond the picture: InvalidBindingError. Windows ML does not check."""
    require_type(bounds, BitmapBounds, "Pass BitmapBounds(x, y, width, height).")
    x, y, crop_width, crop_height = bounds
    if min(x, y) < 0 or min(crop_width, crop_height) < 1 or x + crop_width > width or y + crop_height > height:
        raise InvalidBindingError(
            f"BitmapBounds of {crop_width}x{crop_height} at ({x}, {y}) do not lie inside the {width}x{height} picture.",
            hint="Pass x, y, width and height, in picture pixels.",
        )
