"""BitmapTransform: scaling, turning and cropping on the way from a file or to one."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from .....errors import InvalidArgumentError, InvalidBindingError
from .....imaging.geometry import BitmapBounds, require_inside

if TYPE_CHECKING:
    from PIL.Image import Image


class BitmapInterpolationMode(IntEnum):
    """How pictures are scaled: Pillow's nearest, bilinear, bicubic and box filters, which antialias."""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1
    CUBIC = 2
    FANT = 3


class BitmapFlip(IntEnum):
    """Mirrored, or not."""

    NONE = 0
    HORIZONTAL = 1
    VERTICAL = 2


class BitmapRotation(IntEnum):
    """Turned, by quarters."""

    NONE = 0
    CLOCKWISE90_DEGREES = 1
    CLOCKWISE180_DEGREES = 2
    CLOCKWISE270_DEGREES = 3


class BitmapTransform:
    """What to do to a picture, in this order: scale, flip, rotate, crop. At first, nothing.

    Attributes:
        scaled_width: pixels, before it is turned; 0 leaves the width.
        scaled_height: pixels, before it is turned; 0 leaves the height.
        interpolation_mode: how it is scaled.
        flip: whether it is mirrored.
        rotation: how far it is turned.
        bounds: the part to keep, of what came out so far; an empty one keeps all.
    """

    def __init__(self) -> None:
        self.scaled_width = 0
        self.scaled_height = 0
        self.interpolation_mode = BitmapInterpolationMode.NEAREST_NEIGHBOR
        self.flip = BitmapFlip.NONE
        self.rotation = BitmapRotation.NONE
        self.bounds = BitmapBounds(0, 0, 0, 0)

    def _check(self) -> None:
        """Refuses what is no member of its enumeration, before a picture is opened."""
        try:
            BitmapInterpolationMode(self.interpolation_mode)
            BitmapFlip(self.flip)
            BitmapRotation(self.rotation)
        except ValueError as error:
            raise InvalidArgumentError(f"The transform cannot be: {error}.") from error

    def _apply(self, image: Image) -> Image:
        return self._crop(self._turn(self._scale(image)))

    def _scale(self, image: Image) -> Image:
        from PIL.Image import Resampling

        size = (int(self.scaled_width) or image.width, int(self.scaled_height) or image.height)
        if size == image.size:
            return image
        if min(size) < 1:
            raise InvalidArgumentError(f"A picture cannot be scaled to {size[0]}x{size[1]}.")
        filters = {
            BitmapInterpolationMode.NEAREST_NEIGHBOR: Resampling.NEAREST,
            BitmapInterpolationMode.LINEAR: Resampling.BILINEAR,
            BitmapInterpolationMode.CUBIC: Resampling.BICUBIC,
            BitmapInterpolationMode.FANT: Resampling.BOX,
        }
        return image.resize(size, filters[BitmapInterpolationMode(self.interpolation_mode)])

    def _turn(self, image: Image) -> Image:
        from PIL.Image import Transpose

        flips = {BitmapFlip.HORIZONTAL: Transpose.FLIP_LEFT_RIGHT, BitmapFlip.VERTICAL: Transpose.FLIP_TOP_BOTTOM}
        turns = {  # Pillow counts the other way round
            BitmapRotation.CLOCKWISE90_DEGREES: Transpose.ROTATE_270,
            BitmapRotation.CLOCKWISE180_DEGREES: Transpose.ROTATE_180,
            BitmapRotation.CLOCKWISE270_DEGREES: Transpose.ROTATE_90,
        }
        for step in (flips.get(BitmapFlip(self.flip)), turns.get(BitmapRotation(self.rotation))):
            if step is not None:
                image = image.transpose(step)
        return image

    def _crop(self, image: Image) -> Image:
        bounds = BitmapBounds(*self.bounds)
        if bounds == (0, 0, 0, 0):
            return image
        try:
            require_inside(bounds, image.width, image.height)
        except InvalidBindingError as error:
            raise InvalidArgumentError(str(error)) from error
        x, y, width, height = bounds
        return image.crop((x, y, x + width, y + height))
