"""Colour profiles of pictures: their colours brought to sRGB."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..base.arrays import Pixels
from ..base.messages import logger

if TYPE_CHECKING:
    from PIL.Image import Image

WIDE_GRAY = ("I;16", "I;16L", "I;16B", "I;16N")
"""Pillow's modes for gray pictures of 16 bits."""

WITHOUT_RANGE = ("I", "F")
"""Pillow's modes for numbers, such as a float TIFF's, of which nobody says which one is white: they are refused."""

_GRAY = ("1", "L", "LA", *WIDE_GRAY)


def has_foreign_colours(image: Image) -> bool:
    """Whether the image names a colour space other than sRGB."""
    profile = image.info.get("icc_profile")
    return bool(profile) and not _is_srgb(profile)


@lru_cache(32)
def _is_srgb(profile: bytes) -> bool:
    from PIL import ImageCms

    try:
        return "srgb" in ImageCms.getProfileDescription(ImageCms.ImageCmsProfile(io.BytesIO(profile))).lower()
    except (ImageCms.PyCMSError, OSError) as error:
        logger.warning("A picture's colour profile cannot be read, and is ignored: %s", error)
        return True


def in_srgb(image: Image) -> Image:
    """The image with its colours converted to sRGB, where its profile names another colour space.

    Gray pictures of any depth become gray ones of 8 bits.
    """
    if image.mode in WITHOUT_RANGE or not has_foreign_colours(image):
        return image
    from PIL import ImageCms
    from PIL.Image import fromarray

    image.load()
    profile = image.info["icc_profile"]
    try:
        if image.mode in _GRAY:
            wide = image.mode in WIDE_GRAY
            levels = np.asarray(image, np.uint16) if wide else np.asarray(image.convert("L"), np.uint16) * 257
            converted = fromarray(_gray_table(profile)[levels])
        else:
            source = image if image.mode in ("RGB", "CMYK") else image.convert("RGB")
            read, srgb = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
            converted = ImageCms.buildTransform(read, srgb, source.mode, "RGB").apply(source)
    except ImageCms.PyCMSError as error:  # a profile for other channels than the image has
        logger.warning("A picture's colour profile does not fit it, and is ignored: %s", error)
        return image
    if image.has_transparency_data and image.mode not in WIDE_GRAY:
        alpha = image.convert("RGBA").getchannel("A")
        converted = converted.convert("RGB")
        converted.putalpha(alpha)
    return converted


@lru_cache(32)
def _gray_table(profile: bytes) -> Pixels:
    """The byte in sRGB of each of the 65536 levels of a gray profile.

    LittleCMS is asked once for each level, without its optimisation: that goes over 33 points alone, and is up to ten
    levels wrong in the dark.
    """
    from PIL import Image, ImageCms

    levels = Image.fromarray(np.arange(1 << 16, dtype=np.uint16).reshape(256, 256))
    read, srgb = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
    transform = ImageCms.buildTransform(read, srgb, levels.mode, "RGB", flags=ImageCms.Flags.NOOPTIMIZE)
    return np.asarray(transform.apply(levels))[..., 1].reshape(-1)
