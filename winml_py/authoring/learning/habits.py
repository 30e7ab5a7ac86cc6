"""What a function does with the files that people have: turned by EXIF, gray, partly transparent.

A bind turns a picture as its EXIF data say, takes gray for three equal colours, and never looks at transparency. No
contract changes that, so where the function does something else, a note says so.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
from PIL import Image

from ...core.base.arrays import Array
from ...core.imaging.codecs import ORIENTATION
from ..asked import AskedFunction
from .probes import texture

SIZE = (90, 120)
"""Height and width: not square, so that a picture that lies on its side shows."""

CLOSE = 0.1
"""The share of what two different pictures are apart: below it, two answers are of the same picture."""


def find_habits(asked: AskedFunction, seed: int) -> Iterator[str]:
    """Where the function treats files otherwise than a bind, in words.

    Args:
        asked: the function; one that takes arrays sees no files.
        seed: of the pictures.
    """
    if asked.pictures not in ("pillow", "path"):
        return
    pixels = texture(SIZE, np.random.default_rng(seed), 0, 255)
    plain = Image.fromarray(pixels)
    upright = _ask(asked, plain)
    turned = _ask(asked, plain.transpose(Image.Transpose.ROTATE_270))
    if _nearest(_ask(asked, _with_orientation(plain)), turned, upright) == 1:
        yield "it leaves pictures on their side that EXIF data turn, and a bind turns them"
    gray = plain.convert("L")
    if not _is_same(_ask(asked, gray), _ask(asked, gray.convert("RGB")), upright):
        yield "it raises for gray pictures, or makes other numbers of them than of three equal colours, as a bind does"
    alpha = Image.fromarray(texture(SIZE, np.random.default_rng(seed + 1), 0, 255)[..., 0])
    see_through = plain.copy()
    see_through.putalpha(alpha)
    if not _is_same(_ask(asked, see_through), upright, turned):
        ways = [("over black", (0, 0, 0)), ("over white", (255, 255, 255))]
        laid = [_ask(asked, Image.composite(plain, Image.new("RGB", plain.size, colour), alpha)) for _, colour in ways]
        given = _ask(asked, see_through)
        nearest = None if given is None else _nearest(given, *laid, upright)
        words = "refuses pictures with transparency" if given is None else "does something with transparency"
        if nearest in (0, 1):
            words = f"lays transparent pictures {ways[nearest][0]}"
        yield f"it {words}, and a bind takes their colours as they are"


def _with_orientation(image: Image.Image) -> Image.Image:
    """The picture as a camera writes it that was held upright: a file whose EXIF data turn it clockwise."""
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    file = io.BytesIO()
    image.save(file, "PNG", exif=exif)
    return Image.open(file)


def _ask(asked: AskedFunction, image: Image.Image) -> Array | None:
    """The tensor of an image; None where the function raises."""
    answer = asked.ask_image(image)
    return None if answer is None else answer.numbers


def _apart(one: Array | None, other: Array | None) -> float:
    if one is None or other is None or one.shape != other.shape:
        return np.inf
    return float(np.abs(one - other).mean())


def _is_same(one: Array | None, other: Array | None, different: Array | None) -> bool:
    """Whether two answers are of one picture, for an answer that is of another one."""
    scale = _apart(other, different)
    if np.isinf(scale):  # of another size: how far apart the numbers of one picture are tells as much
        scale = 0.0 if other is None else float(np.abs(other - other.mean()).mean())
    return _apart(one, other) <= CLOSE * scale


def _nearest(given: Array | None, *others: Array | None) -> int | None:
    """Which of several answers is closest; None where none has its size."""
    distances = [_apart(given, other) for other in others]
    return None if np.isinf(min(distances)) else int(np.argmin(distances))
