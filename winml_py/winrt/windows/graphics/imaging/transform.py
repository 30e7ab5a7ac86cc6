"""BitmapTransform: scaling, turning and cropping on the way from a file or to one."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from .....core.base.arguments import member
from .....core.imaging.geometry import BitmapBounds, require_inside
from .....errors import InvalidArgumentError, InvalidBindingError

if TYPE_CHECKING:
    from PIL.Image import Image


class BitmapInterpolationMode(IntEnum):
    """How pictures are scaled: Pillow's nearest, bilinear, bicubic and box filters, which antialias."""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1
    CUBIC = 2
    FANT = 3


class BitmapFlip(IntEnum):
    """Whether a picture is mirrored, and how."""

    NONE = 0
    HORIZONTAL = 1
    VERTICAL = 2


class BitmapRotation(IntEnum):
    """By how much a picture is rotated."""

    NONE = 0
    CLOCKWISE90_DEGREES = 1
    CLOCKWISE180_DEGREES = 2
    CLOCKWISE270_DEGREES = 3


class BitmapTransform:
    """What to do to a picture, in this order: scale, flip, rotate, crop. At first, nothing.

    Attributes:
        scaled_width: pixels, before the rotation; 0 leaves the width.
        scaled_height: pixels, before the rotation; 0 leaves the height.
        interpolation_mode: how it is scaled.
        flip: whether it is mirrored.
        rotation: by how much it is rotated.
        bounds: the part to keep of the scaled and rotated picture; an empty one keeps all.
    """

    def __init__(self) -> None:
        self.scaled_width = 0
        self.scaled_height = 0
        self.interpolation_mode = BitmapInterpolationMode.NEAREST_NEIGHBOR
        self.flip = BitmapFlip.NONE
        self.rotation = BitmapRotation.NONE
        self.bounds = BitmapBounds(0, 0, 0, 0)


def require_members(transform: BitmapTransform) -> None:
    """Refuses values that are not members of their enumerations, before a picture is opened.

    Raises:
        InvalidArgumentError: one is not.
    """
    member(BitmapInterpolationMode, transform.interpolation_mode, "The interpolation mode")
    member(BitmapFlip, transform.flip, "The flip")
    member(BitmapRotation, transform.rotation, "The rotation")


def scaled(image: Image, transform: BitmapTransform) -> Image:
    """The image in the size that a transform gives.

    Raises:
        InvalidArgumentError: that size is negative.
    """
    from PIL.Image import Resampling

    size = (int(transform.scaled_width) or image.width, int(transform.scaled_height) or image.height)
    if min(size) < 1:
        raise InvalidArgumentError(f"A picture cannot be scaled to {size[0]}x{size[1]}.")
    # in the order of BitmapInterpolationMode
    filters = (Resampling.NEAREST, Resampling.BILINEAR, Resampling.BICUBIC, Resampling.BOX)
    return image.resize(size, filters[transform.interpolation_mode])


def turned(image: Image, transform: BitmapTransform) -> Image:
    """The image mirrored, then rotated."""
    from PIL import ImageOps

    if transform.flip == BitmapFlip.HORIZONTAL:
        image = ImageOps.mirror(image)
    elif transform.flip == BitmapFlip.VERTICAL:
        image = ImageOps.flip(image)
    return image.rotate(-90 * transform.rotation, expand=True)  # Pillow rotates counterclockwise


def cropped(image: Image, transform: BitmapTransform) -> Image:
    """The part of the image inside a transform's bounds.

    Raises:
        InvalidArgumentError: the bounds leave the picture.
    """
    bounds = BitmapBounds(*transform.bounds)
    if bounds == (0, 0, 0, 0):
        return image
    try:
        require_inside(bounds, image.width, image.height)
    except InvalidBindingError as error:
        raise InvalidArgumentError(str(error)) from error
    x, y, width, height = bounds
    return image.crop((x, y, x + width, y + height))
