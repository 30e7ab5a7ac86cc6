"""The placement of a picture in a tensor: which part of it is scaled to which size, and where it goes."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from ...errors import InvalidBindingError
from ..base.arrays import Sides, Size
from .scaling import CropToAspect, Scaling, Stretch

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
    if tensor == (None, None) and scaling.takes_tensor_size:
        tensor = height, width
    placement = place(bounds or BitmapBounds(0, 0, width, height), (height, width), tensor, scaling)
    scaled_height, scaled_width = placement.scaled
    if scaled_height * scaled_width > max(MAX_SCALED_PIXELS, math.prod(placement.tensor)):
        raise InvalidBindingError(
            f"A picture of {width}x{height} would be scaled to {scaled_width}x{scaled_height} pixels.",
            hint="Bind a part of it with BitmapBounds, or state another scaling in the contract.",
        )
    return placement


def place(region: BitmapBounds, picture: Size, tensor: Sides, scaling: Scaling) -> Placement:
    """Where a region of a picture goes, in numbers or in values of a graph; see `compute_placement`."""
    part_size = scaling.compute_part(region.width, region.height, tensor)
    part = region if part_size is None else _find_middle(region, part_size)
    scaled = scaling.compute_size(part.width, part.height, tensor)
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
    x, y, crop_width, crop_height = bounds
    if min(x, y) < 0 or min(crop_width, crop_height) < 1 or x + crop_width > width or y + crop_height > height:
        raise InvalidBindingError(
            f"BitmapBounds of {crop_width}x{crop_height} at ({x}, {y}) do not lie inside the picture of "
            f"{width}x{height}.",
            hint="Expected x, y, width and height, in pixels of the picture.",
        )
