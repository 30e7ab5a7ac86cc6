"""The placement of a picture in a tensor (which part of it goes where), and scaling."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from ..enums import ImageCropMode, ImageKernel
from ..errors import InvalidBindingError
from .formats import Pixels, to_eight_bits

PILLOW_FILTERS = {ImageKernel.ANTIALIASED_CUBIC: "BICUBIC", ImageKernel.ANTIALIASED_LINEAR: "BILINEAR"}
"""The antialiased kernels, by the names of Pillow's filters. Pillow rounds to bytes after one axis and again after the
other; OpenCV, which has the other kernels, rounds once at the end."""

_OPENCV_INTERPOLATIONS = {
    ImageKernel.NEAREST: "INTER_NEAREST_EXACT",
    ImageKernel.LINEAR: "INTER_LINEAR",
    ImageKernel.CUBIC: "INTER_CUBIC",
    ImageKernel.AREA: "INTER_AREA",
}


class BitmapBounds(NamedTuple):
    """A rectangle of a picture, in pixels from its top left corner."""

    x: int = 0
    y: int = 0
    width: int = 0
    height: int = 0


class Placement(NamedTuple):
    """Which part of a picture goes to which part of the tensor: all that the crop mode and the bounds decide.

    Attributes:
        part: the rectangle of the picture that is used, in its pixels.
        target: the rectangle of the tensor that it is scaled to.
        picture: height and width of the picture.
        tensor: height and width of the tensor.
    """

    part: BitmapBounds
    target: BitmapBounds
    picture: tuple[int, int]
    tensor: tuple[int, int]

    @property
    def is_identity(self) -> bool:
        """Whether nothing is cropped, scaled or padded."""
        return self.part == self.target and self.picture == self.tensor == (self.part.height, self.part.width)

    @property
    def has_padding(self) -> bool:
        """Whether there is room around the picture in the tensor."""
        return (self.target.height, self.target.width) != self.tensor

    @property
    def shrink(self) -> tuple[float, float]:
        """By how much the width and the height shrink; less than 1 where they grow."""
        return self.part.width / self.target.width, self.part.height / self.target.height


@lru_cache(maxsize=256)  # frames of a video, and pictures of a folder, mostly have one size
def compute_placement(
    width: int, height: int, model_width: int, model_height: int, mode: ImageCropMode, bounds: BitmapBounds | None
) -> Placement:
    """Decides where a picture goes in a tensor. Nothing else looks at the crop mode; but `VideoFrame.copy_to` calls
    `center_crop` itself, as Windows ML does.

    Args:
        width: of the picture.
        height: of the picture.
        model_width: of the tensor.
        model_height: of the tensor.
        mode: what happens where the aspect ratios differ.
        bounds: the part to use. Where the mode crops, it is stretched and not cropped again, as in Windows ML; where
            the mode pads, it keeps its aspect ratio.

    Raises:
        InvalidBindingError: the bounds leave the picture.
    """
    if bounds is not None:
        require_inside(bounds, width, height)
    given = bounds or BitmapBounds(0, 0, width, height)
    part, target = _CROP_RULES[mode](given, BitmapBounds(0, 0, model_width, model_height))
    # Bounds are the part, also where the mode would take less of them.
    return Placement(bounds or part, target, (height, width), (model_height, model_width))


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
a member of the enumeration and a rule here; its word in a model's metadata is the member's name."""


def require_inside(bounds: BitmapBounds, width: int, height: int) -> None:
    """Refuses a crop that is empty or leaves the picture.

    Raises:
        InvalidBindingError: it does; Windows ML leaves such bounds unchecked.
    """
    x, y, crop_width, crop_height = bounds
    if min(x, y) < 0 or min(crop_width, crop_height) < 1 or x + crop_width > width or y + crop_height > height:
        raise InvalidBindingError(
            f"BitmapBounds of {crop_width}x{crop_height} at ({x}, {y}) do not lie inside the picture of "
            f"{width}x{height}.",
            hint="They are x, y, width and height, in pixels of the picture.",
        )


def crop(pixels: Pixels, bounds: BitmapBounds) -> Pixels:
    """The part of a picture inside `bounds`: a view."""
    return pixels[bounds.y : bounds.y + bounds.height, bounds.x : bounds.x + bounds.width]


def resize(pixels: Pixels, width: int, height: int, kernel: ImageKernel = ImageKernel.ANTIALIASED_CUBIC) -> Pixels:
    """Scales a picture, channel by channel; alpha does not weigh the colours.

    The antialiased kernels are Pillow's, because torchvision and most training code scale with it. A side that shrinks
    to a quarter or less is first averaged by a whole factor: this takes less than half of the time, and changes the
    result by a third of a level on average. The other kernels are OpenCV's, and alias when they shrink, except `AREA`.

    Args:
        pixels: height x width, or height x width x 3 or 4, of uint8; uint16 becomes uint8; float32 in two dimensions.
        width: pixels of the result.
        height: pixels of the result.
        kernel: how.

    Returns:
        A new array, or `pixels` itself when nothing is to be done.
    """
    if pixels.shape[:2] == (height, width):
        return pixels
    pixels = to_eight_bits(pixels)
    if kernel in PILLOW_FILTERS:
        return _resize_with_pillow(pixels, width, height, PILLOW_FILTERS[kernel])
    import cv2

    interpolation = getattr(cv2, _OPENCV_INTERPOLATIONS[kernel])
    return cv2.resize(np.ascontiguousarray(pixels), (width, height), interpolation=interpolation)


def _resize_with_pillow(pixels: Pixels, width: int, height: int, name: str) -> Pixels:
    source_height, source_width = pixels.shape[:2]
    across, down = block_size(source_width, source_height, width, height)
    if across > 1 or down > 1:
        pixels = _averaged(pixels, across, down)
    return scale_with_pillow(pixels, width, height, name, (source_width / across, source_height / down))


def scale_with_pillow(pixels: Pixels, width: int, height: int, name: str, used: tuple[float, float]) -> Pixels:
    """Scales the part of a picture that is `used`, width and height from its corner, with one of Pillow's filters."""
    from PIL import Image

    if pixels.dtype == np.float32:
        mode = "F"
    else:  # RGBX: as RGBA, Pillow would weigh colours by their alpha, which Windows ML ignores
        mode = {1: "L", 3: "RGB", 4: "RGBX"}[pixels.shape[2] if pixels.ndim == 3 else 1]
    size = (pixels.shape[1], pixels.shape[0])
    image: Image.Image = Image.frombytes(mode, size, np.ascontiguousarray(pixels).data)
    return np.asarray(image.resize((width, height), Image.Resampling[name], (0, 0, *used)))


def scales_height_first(width: int, height: int, to_width: int, to_height: int) -> bool:
    """Whether `resize` with an antialiased kernel scales the height of a picture before its width.

    Pillow 13 does so where the height loses more than twice as many pixels as the width. The order matters because
    Pillow rounds to bytes after each, and cuts off what a cubic kernel overshoots.
    """
    across, down = block_size(width, height, to_width, to_height)
    lost_width, lost_height = -(-width // across) - to_width, -(-height // down) - to_height
    return lost_height > max(0, 2 * lost_width) and _pillow_chooses_the_order()


@cache
def _pillow_chooses_the_order() -> bool:
    """Whether this Pillow ever scales the height first: versions before 13 always begin with the width."""
    pixels = np.tile(np.array([[0, 255], [255, 0]], np.uint8), (8, 8))
    height_first = resize(resize(pixels, 16, 9), 23, 9)
    return bool(np.array_equal(resize(pixels, 23, 9), height_first))


def block_size(width: int, height: int, to_width: int, to_height: int) -> tuple[int, int]:
    """Width and height of the blocks that `resize` averages before it scales with an antialiased kernel."""
    return _whole_factor(width / to_width), _whole_factor(height / to_height)


def _whole_factor(shrink: float) -> int:
    """By how many pixels a side is averaged first: so that the kernel still shrinks it by 2, or by 2.5 from 6 on."""
    if shrink < 4:
        return 1
    return int(shrink / (2 if shrink < 6 else 2.5))


def _averaged(pixels: Pixels, across: int, down: int) -> Pixels:
    """The means of blocks of pixels; the pixels of the edge are repeated where the last block is not full."""
    import cv2

    height, width = pixels.shape[:2]
    right, below = -width % across, -height % down
    if right or below:
        pixels = cv2.copyMakeBorder(pixels, 0, below, 0, right, cv2.BORDER_REPLICATE)
    size = ((width + right) // across, (height + below) // down)
    return cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
