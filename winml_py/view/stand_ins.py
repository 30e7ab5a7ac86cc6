"""Pictures that stand in for the one that was given: an answer that is the same for all of them says nothing of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image

from ..core.base.arrays import Array
from ..core.features.pictures import ImageFeatureValue
from ..errors import InvalidArgumentError

STAND_INS: dict[str, Callable[[Array], Array]] = {
    "turned": lambda pixels: pixels[::-1, ::-1],
    "black": np.zeros_like,
    "white": lambda pixels: np.full_like(pixels, 255),
    "noise": lambda pixels: np.random.default_rng(0).integers(0, 256, pixels.shape, np.uint8),
}
"""From the pixels of a picture to those of its stand-in. Turned is by 180 degrees."""


def stand_in(picture: ImageFeatureValue, name: str) -> ImageFeatureValue:
    """A picture of the same size, by a key of `STAND_INS`."""
    if name not in STAND_INS:
        raise InvalidArgumentError(f"There is no stand-in {name!r}.", hint=f"Known: {', '.join(STAND_INS)}.")
    image = picture.to_pil().convert("RGB")
    return ImageFeatureValue.from_pil(Image.fromarray(np.ascontiguousarray(STAND_INS[name](np.asarray(image)))))
