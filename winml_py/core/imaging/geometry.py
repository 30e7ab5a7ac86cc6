"""The placement of a picture in a tensor: which part of it is scaled to which size, and goes where.

The rules here and in `scaling.py` use operators, rounding, `choose`, `smaller` and `larger` alone. So the sides of a
picture can also be values of a graph (`Expression`): the same rules then write nodes, for contracts that are built in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...enums import ImageCropMode
from ...errors import InvalidBindingError
from ..base.arrays import Size, choose, larger, single, smaller
from .scaling import ImageScaling

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
    """Decides where a picture goes in a tensor.

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
    if tensor_width is None and tensor_height is None and scaling is None:
        tensor_height, tensor_width = height, width
    region = bounds or BitmapBounds(0, 0, width, height)
    placement = place(region, (height, width), tensor_width, tensor_height, mode, scaling)
    (rows, columns), tensor = placement.scaled, placement.tensor
    if rows * columns > max(MOST_PIXELS, tensor[0] * tensor[1]):
        raise InvalidBindingError(
            f"A picture of {width}x{height} would be scaled to {columns}x{rows} pixels.",
            hint="Bind a part of it, BitmapBounds, or state another scaling in the contract.",
        )
    # Bounds are the part, also where the mode would take less of them.
    return placement if bounds is None or scaling is not None else placement._replace(part=bounds)


def place(
    region: BitmapBounds,
    picture: Size,
    tensor_width: int | None,
    tensor_height: int | None,
    mode: ImageCropMode,
    scaling: ImageScaling | None,
) -> Placement:
    """Where a region of a picture goes, as numbers or as values of a graph; see `compute_placement`.

    A side of the tensor is stated, or a scaling.
    """
    if tensor_width is not None and tensor_height is not None:
        tensor = (tensor_height, tensor_width)
        if scaling is None:
            part, target = _CROP_RULES[mode](region, _full_bounds(tensor))
            scaled = (target.height, target.width)
            return Placement(part, scaled, _full_bounds(scaled), target, picture, tensor)
        if scaling.crops_first:
            side = larger(1, math.floor(smaller(region.width, region.height) * float(scaling.crop_ratio or 1)))
            x, y = region.x + (region.width - side) // 2, region.y + (region.height - side) // 2
            full = _full_bounds(tensor)
            return Placement(BitmapBounds(x, y, side, side), tensor, full, full, picture, tensor)
        scaled = scaling.scaled(region.width, region.height, tensor)
    else:
        scaling = scaling or ImageScaling()
        if scaling.states_size or (tensor_width is None and tensor_height is None):
            scaled = scaling.scaled(region.width, region.height)
        elif tensor_height is not None:
            scaled = tensor_height, scaling.followed(region.width * tensor_height / region.height)
        else:
            wide = tensor_width or 1
            scaled = scaling.followed(region.height * wide / region.width), wide
        tensor = (tensor_height or scaling.padded(scaled[0]), tensor_width or scaling.padded(scaled[1]))
    # Along each axis, what leaves the tensor is cropped, and the rest is padded.
    top, left = (scaling.offset(side, room) for side, room in zip(scaled, tensor, strict=True))
    height, width = (smaller(side, room) for side, room in zip(scaled, tensor, strict=True))
    cut = BitmapBounds(larger(0, left), larger(0, top), width, height)  # an offset below 0 is room before the picture
    target = BitmapBounds(larger(0, -left), larger(0, -top), width, height)
    return Placement(region, scaled, cut, target, picture, tensor)


def _full_bounds(size: Size) -> BitmapBounds:
    return BitmapBounds(0, 0, size[1], size[0])


def center_crop(width: int, height: int, model_width: int, model_height: int) -> BitmapBounds:
    """The largest centred part of a picture that has the model's aspect ratio.

    Windows ML's rule (`CenterAndCropBounds` in `ImageFeatureValue.cpp`), in its float32 arithmetic: the size is
    rounded half up, the offset down, so that an odd pixel is left over on the right or below. At least one remains.

    Example:
        >>> center_crop(1920, 1080, 224, 224)
        BitmapBounds(x=420, y=0, width=1080, height=1080)
    """
    ratio, half = np.float32(model_width) / np.float32(model_height), np.float32(0.5)
    from_height = single(height) * ratio
    narrow = larger(1, smaller(math.floor(from_height + half), width))
    low = larger(1, smaller(math.floor(single(width) / ratio + half), height))
    is_wide = from_height < single(width)
    part_width, part_height = choose(is_wide, narrow, width), choose(is_wide, height, low)
    return BitmapBounds((width - part_width) // 2, (height - part_height) // 2, part_width, part_height)


def letterbox(width: int, height: int, model_width: int, model_height: int) -> BitmapBounds:
    """The rectangle in the middle of a tensor that a whole picture fills with its aspect ratio kept.

    Sizes are rounded half to even, as in Ultralytics' preprocessing; an odd rest goes right and below.

    Example:
        >>> letterbox(1920, 1080, 640, 640)
        BitmapBounds(x=0, y=140, width=640, height=360)
    """
    scale = smaller(model_width / width, model_height / height)
    inner_width = smaller(larger(1, round(width * scale)), model_width)
    inner_height = smaller(larger(1, round(height * scale)), model_height)
    return BitmapBounds((model_width - inner_width) // 2, (model_height - inner_height) // 2, inner_width, inner_height)


_CROP_RULES: dict[ImageCropMode, Callable[[BitmapBounds, BitmapBounds], tuple[BitmapBounds, BitmapBounds]]] = {
    ImageCropMode.CENTER: lambda given, tensor: (center_crop(*given[2:], *tensor[2:]), tensor),
    ImageCropMode.STRETCH: lambda given, tensor: (given, tensor),
    ImageCropMode.LETTERBOX: lambda given, tensor: (given, letterbox(*given[2:], *tensor[2:])),
}
"""Each mode's rule, from the rectangle that is given and that of the tensor to the part and the target. A new mode is
a member of the enumeration, and a rule here. Its word in a model's metadata is the member's name."""


def require_inside(bounds: BitmapBounds, width: int, height: int) -> None:
    """Refuses a crop that is empty or leaves the picture: InvalidBindingError. Windows ML checks none."""
    x, y, crop_width, crop_height = bounds
    if min(x, y) < 0 or min(crop_width, crop_height) < 1 or x + crop_width > width or y + crop_height > height:
        raise InvalidBindingError(
            f"BitmapBounds of {crop_width}x{crop_height} at ({x}, {y}) do not lie inside the picture of "
            f"{width}x{height}.",
            hint="They are x, y, width and height, in pixels of the picture.",
        )
