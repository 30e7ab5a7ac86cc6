"""Which part of a picture a model sees, where it lies in the tensor, and how it is scaled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..enums import ImageCropMode, ImageKernel
from ..errors import InvalidBindingError
from .formats import Pixels, to_eight_bits


class BitmapBounds(NamedTuple):
    """A rectangle of a picture, in pixels from its top left corner."""

    x: int = 0
    y: int = 0
    width: int = 0
    height: int = 0


class Placement(NamedTuple):
    """What part of a picture goes to what part of the tensor."""

    part: BitmapBounds
    target: BitmapBounds


def compute_placement(
    width: int, height: int, model_width: int, model_height: int, mode: ImageCropMode, bounds: BitmapBounds | None
) -> Placement:
    """Where a picture goes in a tensor.

    Args:
        width: of the picture.
        height: of the picture.
        model_width: of the tensor.
        model_height: of the tensor.
        mode: what becomes of another aspect ratio.
        bounds: the part to use; it is stretched where the mode would crop, as Windows ML does.

    Raises:
        InvalidBindingError: the bounds leave the picture.
    """
    if bounds is not None:
        require_inside(bounds, width, height)
    part = bounds or BitmapBounds(0, 0, width, height)
    whole = BitmapBounds(0, 0, model_width, model_height)
    if mode == ImageCropMode.LETTERBOX:
        return Placement(part, letterbox(part.width, part.height, model_width, model_height))
    if mode == ImageCropMode.CENTER and bounds is None:
        return Placement(center_crop(width, height, model_width, model_height), whole)
    return Placement(part, whole)


def center_crop(width: int, height: int, model_width: int, model_height: int) -> BitmapBounds:
    """The largest centred part of a picture that has the model's aspect ratio.

    Windows ML's rule (`CenterAndCropBounds` in `ImageFeatureValue.cpp`), in its float32 arithmetic;
    at least one pixel remains.

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
    """Where a whole picture of this shape lies in the middle of a tensor, its aspect ratio kept.

    Sizes are rounded half to even, as in Ultralytics' preprocessing; an odd rest goes right and below.

    Example:
        >>> letterbox(1920, 1080, 640, 640)
        BitmapBounds(x=0, y=140, width=640, height=360)
    """
    scale = min(model_width / width, model_height / height)
    inner_width = min(max(1, round(width * scale)), model_width)
    inner_height = min(max(1, round(height * scale)), model_height)
    return BitmapBounds((model_width - inner_width) // 2, (model_height - inner_height) // 2, inner_width, inner_height)


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
    """Scales a picture, channel by channel; alpha weighs nothing.

    The antialiased kernels are Pillow's. A side that shrinks to a quarter or less is first averaged by a whole factor:
    less than half of the time, for a third of a level on average. The others are OpenCV's, and alias when they shrink,
    except `AREA`.

    Args:
        pixels: height x width, or height x width x 3 or 4; 16-bit pictures become 8-bit ones.
        width: pixels of the result.
        height: pixels of the result.
        kernel: how.

    Returns:
        A new uint8 array, or `pixels` itself when nothing is to be done.
    """
    if pixels.shape[:2] == (height, width):
        return pixels
    pixels = to_eight_bits(pixels)
    if kernel in (ImageKernel.ANTIALIASED_CUBIC, ImageKernel.ANTIALIASED_LINEAR):
        return _resize_with_pillow(pixels, width, height, kernel)
    import cv2

    interpolation = {
        ImageKernel.NEAREST: cv2.INTER_NEAREST_EXACT,
        ImageKernel.LINEAR: cv2.INTER_LINEAR,
        ImageKernel.CUBIC: cv2.INTER_CUBIC,
        ImageKernel.AREA: cv2.INTER_AREA,
    }[kernel]
    return cv2.resize(np.ascontiguousarray(pixels), (width, height), interpolation=interpolation)


def _resize_with_pillow(pixels: Pixels, width: int, height: int, kernel: ImageKernel) -> Pixels:
    from PIL import Image

    source_height, source_width = pixels.shape[:2]
    across, down = exact_factor(source_width / width), exact_factor(source_height / height)
    if across > 1 or down > 1:
        pixels = _reduced(pixels, across, down)
    # RGBX: as RGBA, Pillow would weigh colours by their alpha, which Windows ML ignores.
    mode = {2: "L", 3: "RGB", 4: "RGBX"}[pixels.ndim if pixels.ndim == 2 else pixels.shape[2]]
    size = (pixels.shape[1], pixels.shape[0])
    image: Image.Image = Image.frombytes(mode, size, np.ascontiguousarray(pixels).data)
    filters = {
        ImageKernel.ANTIALIASED_CUBIC: Image.Resampling.BICUBIC,
        ImageKernel.ANTIALIASED_LINEAR: Image.Resampling.BILINEAR,
    }
    box = (0, 0, source_width / across, source_height / down)
    return np.asarray(image.resize((width, height), filters[kernel], box))


def exact_factor(scale: float) -> int:
    """By how many pixels a side is averaged first: so that the kernel still shrinks it by 2, or by 2.5 from 6 on."""
    if scale < 4:
        return 1
    return int(scale / (2 if scale < 6 else 2.5))


def _reduced(pixels: Pixels, across: int, down: int) -> Pixels:
    """The means of blocks of pixels; what lies beyond the edge is as the edge."""
    import cv2

    height, width = pixels.shape[:2]
    right, below = -width % across, -height % down
    if right or below:
        pixels = cv2.copyMakeBorder(pixels, 0, below, 0, right, cv2.BORDER_REPLICATE)
    size = ((width + right) // across, (height + below) // down)
    return cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
