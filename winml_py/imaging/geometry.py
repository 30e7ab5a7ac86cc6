"""Which part of a picture a model sees, and how it is brought to the model's size."""

from __future__ import annotations

import numpy as np

from ..errors import InvalidBindingError
from .bitmap import BitmapBounds
from .formats import Pixels, to_eight_bits


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


def resize(pixels: Pixels, width: int, height: int) -> Pixels:
    """Scales a picture with antialiased cubic interpolation: Pillow's `BICUBIC`, channel by channel.

    Args:
        pixels: height x width, or height x width x 3 or 4; 16-bit pictures become 8-bit ones.
        width: pixels of the result.
        height: pixels of the result.

    Returns:
        A new uint8 array, or `pixels` itself when nothing is to be done.
    """
    pixels = to_eight_bits(pixels)
    if pixels.shape[:2] == (height, width):
        return pixels
    from PIL import Image

    # RGBX: as RGBA, Pillow would weigh colours by their alpha, which Windows ML ignores.
    mode = {2: "L", 3: "RGB", 4: "RGBX"}[pixels.ndim if pixels.ndim == 2 else pixels.shape[2]]
    source_height, source_width = pixels.shape[:2]
    image = Image.frombytes(mode, (source_width, source_height), np.ascontiguousarray(pixels).data)
    return np.asarray(image.resize((width, height), Image.Resampling.BICUBIC))
