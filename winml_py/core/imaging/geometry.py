"""The placement of a picture in a tensor: which part of it is scaled to which size, and goes where."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...enums import ImageCropMode
from ...errors import InvalidBindingError
from .scaling import ImageScaling, Size

MOST_PIXELS = 1 << 28
"""What a picture may be scaled to; of a long thin one, most is cropped afterwards."""


class BitmapBounds(NamedTuple):
    """A rectangle of a picture, in pixels from its top left corner."""

    x: int = 0
    y: int = 0
    width: int = 0
    height: int = 0


class Placement(NamedTuple):
    """Which part of a picture goes to which part of the tensor: all that the contract and the bounds decide.

    Attributes:
        part: the rectangle of the picture that is used, in its pixels.
        scaled: height and width that the part is scaled to.
        cut: the rectangle of the scaled part that is left.
        target: the rectangle of the tensor that it goes to, of the same size.
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
        """Whether there is room around the picture in the tensor."""
        return (self.target.height, self.target.width) != self.tensor

    @property
    def shrink(self) -> tuple[float, float]:
        """By how much the width and the height shrink; less than 1 where they grow."""
        return self.part.width / self.scaled[1], self.part.height / self.scaled[0]

    def reduced_to(self, width: int, height: int) -> Placement:
        """The same for a copy of the picture that is smaller: the part is as much of it as it was."""
        across, down = width / self.picture[1], height / self.picture[0]
        left, top = round(self.part.x * across), round(self.part.y * down)
        right, bottom = round((self.part.x + self.part.width) * across), round((self.part.y + self.part.height) * down)
        part = BitmapBounds(left, top, max(1, right - left), max(1, bottom - top))
        return self._replace(part=part, picture=(height, width))


@lru_cache(maxsize=256)  # frames of a video, and pictures of a folder, mostly have one size
def compute_placement(
    width: int,
    height: int,
    tensor_width: int | None,
    tensor_height: int | None,
    mode: ImageCropMode,
    bounds: BitmapBounds | None = None,
    scaling: ImageScaling | None = None,
) -> Placement:
    """Decides where a picture goes in a tensor: no other code on the host does, but `VideoFrame.copy_to`, which calls
    `center_crop` itself, as Windows ML does. `authoring/placement.py` does the same as nodes of a graph.

    Args:
        width: of the picture.
        height: of the picture.
        tensor_width: of the tensor; None where nothing fixes it.
        tensor_height: of the tensor; None where nothing fixes it. With one free side, the picture is scaled to the
            other, and its aspect ratio is kept; with two, the picture keeps its size, unless the scaling states one.
        mode: what happens where the aspect ratios differ.
        bounds: the part to use. Where the mode crops, it is stretched and not cropped again, as in Windows ML; where
            the mode pads, it keeps its aspect ratio.
        scaling: the size that the part is scaled to, in place of the mode.

    Raises:
        InvalidBindingError: the bounds leave the picture, or it would be scaled to more than 2**28 pixels.
        InvalidArgumentError: the scaling is relative to a size that nothing fixes.
    """
    if bounds is not None:
        require_inside(bounds, width, height)
    region = bounds or BitmapBounds(0, 0, width, height)
    picture = (height, width)
    if tensor_width is None and tensor_height is None and scaling is None:
        tensor_height, tensor_width = picture
    if tensor_width is not None and tensor_height is not None:
        tensor = (tensor_height, tensor_width)
        if scaling is not None and scaling.crops_first:
            return _stretch_to_tensor(_square(region, scaling), tensor, picture)
        if scaling is not None:
            return _crop_or_pad(region, scaling.scaled(region.width, region.height, tensor), tensor, picture, scaling)
        part, target = _CROP_RULES[mode](region, BitmapBounds(0, 0, tensor_width, tensor_height))
        # Bounds are the part, also where the mode would take less of them.
        scaled = (target.height, target.width)
        return Placement(bounds or part, scaled, _full_bounds(scaled), target, picture, tensor)
    scaling = scaling or ImageScaling()
    scaled = _free_size(region, tensor_width, tensor_height, scaling)
    tensor = (tensor_height or scaling.padded(scaled[0]), tensor_width or scaling.padded(scaled[1]))
    return _crop_or_pad(region, scaled, tensor, picture, scaling)


def _free_size(region: BitmapBounds, width: int | None, height: int | None, scaling: ImageScaling) -> Size:
    """The size that a picture is scaled to where at least one side of the tensor is free."""
    if scaling.states_size or (width is None and height is None):
        return scaling.scaled(region.width, region.height)
    if height is not None:
        return height, scaling.followed(height * region.width / region.height)
    return scaling.followed((width or 1) * region.height / region.width), width or 1


def _crop_or_pad(part: BitmapBounds, scaled: Size, tensor: Size, picture: Size, scaling: ImageScaling) -> Placement:
    """Crops what leaves the tensor, and pads where it is larger, along each axis."""
    if scaled[0] * scaled[1] > MOST_PIXELS:
        raise InvalidBindingError(
            f"A picture of {picture[1]}x{picture[0]} would be scaled to {scaled[1]}x{scaled[0]} pixels.",
            hint="Bind a part of it, BitmapBounds, or state another scaling in the contract.",
        )
    top, left = (scaling.offset(side, room) for side, room in zip(scaled, tensor, strict=True))
    height, width = min(scaled[0], tensor[0]), min(scaled[1], tensor[1])
    cut = BitmapBounds(max(0, left), max(0, top), width, height)  # an offset below 0 is room before the picture
    target = BitmapBounds(max(0, -left), max(0, -top), width, height)
    return Placement(part, scaled, cut, target, picture, tensor)


def _stretch_to_tensor(part: BitmapBounds, tensor: Size, picture: Size) -> Placement:
    return Placement(part, tensor, _full_bounds(tensor), _full_bounds(tensor), picture, tensor)


def _full_bounds(size: Size) -> BitmapBounds:
    return BitmapBounds(0, 0, size[1], size[0])


def _square(region: BitmapBounds, scaling: ImageScaling) -> BitmapBounds:
    """The middle of a picture, square."""
    side = max(1, int((scaling.crop_ratio or 1) * min(region.width, region.height)))
    x, y = (region.width - side) // 2, (region.height - side) // 2
    return BitmapBounds(region.x + x, region.y + y, side, side)


def center_crop(width: int, height: int, model_width: int, model_height: int) -> BitmapBounds:
    """The largest centred part of a picture that has the model's aspect ratio.

    Windows ML's rule (`CenterAndCropBounds` in `ImageFeatureValue.cpp`), in its float32 arithmetic: the size is
    rounded half up, the offset down, so that an odd pixel is left over on the right or below. At least one remains.

    Example:
        >>> center_crop(1920, 1080, 224, 224)
        BitmapBounds(x=420, y=0, width=1080, height=1080)
    """
    ratio = np.float32(model_width) / np.float32(model_height)
    half = np.float32(0.5)
    if ratio * np.float32(height) < np.float32(width):
        cropped = max(1, min(int(ratio * np.float32(height) + half), width))
        return BitmapBounds((width - cropped) // 2, 0, cropped, height)
    cropped = max(1, min(int(np.float32(width) / ratio + half), height))
    return BitmapBounds(0, (height - cropped) // 2, width, cropped)


def letterbox(width: int, height: int, model_width: int, model_height: int) -> BitmapBounds:
    """The rectangle in the middle of a tensor that a whole picture fills with its aspect ratio kept.

    Sizes are rounded half to even, as in Ultralytics' preprocessing; an odd rest goes right and below.

    Example:
        >>> letterbox(1920, 1080, 640, 640)
        BitmapBounds(x=0, y=140, width=640, height=360)
    """
    scale = min(model_width / width, model_height / height)
    inner_width = min(max(1, round(width * scale)), model_width)
    inner_height = min(max(1, round(height * scale)), model_height)
    return BitmapBounds((model_width - inner_width) // 2, (model_height - inner_height) // 2, inner_width, inner_height)


_CROP_RULES: dict[ImageCropMode, Callable[[BitmapBounds, BitmapBounds], tuple[BitmapBounds, BitmapBounds]]] = {
    ImageCropMode.CENTER: lambda given, tensor: (center_crop(*given[2:], *tensor[2:]), tensor),
    ImageCropMode.STRETCH: lambda given, tensor: (given, tensor),
    ImageCropMode.LETTERBOX: lambda given, tensor: (given, letterbox(*given[2:], *tensor[2:])),
}
"""Each mode's rule, from the rectangle that is given and that of the tensor to the part and the target. A new mode is
a member of the enumeration, a rule here, and one as nodes in `authoring/placement.py`. Its word in a model's metadata
is the member's name."""


def require_inside(bounds: BitmapBounds, width: int, height: int) -> None:
    """Refuses a crop that is empty or leaves the picture.

    Raises:
        InvalidBindingError: if the crop is empty or leaves the picture; Windows ML leaves such bounds unchecked.
    """
    x, y, crop_width, crop_height = bounds
    if min(x, y) < 0 or min(crop_width, crop_height) < 1 or x + crop_width > width or y + crop_height > height:
        raise InvalidBindingError(
            f"BitmapBounds of {crop_width}x{crop_height} at ({x}, {y}) do not lie inside the picture of "
            f"{width}x{height}.",
            hint="They are x, y, width and height, in pixels of the picture.",
        )
