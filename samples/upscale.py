"""Makes a picture twice as wide and as high, on the best GPU, or on the CPU if there is no GPU.

        python samples/upscale.py                            enlarges a photograph at half size, and compares the result
    python samples/upscale.py PICTURE TARGET [MODEL]     enlarges your picture, and writes the file TARGET

MODEL can be any model that takes and returns a picture, such as one that removes noise. The sample evaluates the
picture in tiles. A device therefore needs memory for only one tile, however large the picture is.
"""

import math
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from winml_py import ImageFeatureValue, LearningModel, LearningModelDevice, LearningModelSession

ROOT = Path(__file__).parent.parent
TILE, MARGIN = 256, 16
"""Sides of a tile, and how far from its rim a pixel may be wrong, as the model does not see what lies beyond."""


def starts(length: int) -> list[int]:
    """Where tiles of one size begin in one direction. Each begins two margins before the end of the previous one."""
    last = max(length - TILE, 0)
    return [*range(0, last, TILE - 2 * MARGIN), last]


def enlarged(session: LearningModelSession, picture: Image.Image) -> Image.Image:
    """The model's output for a picture, tile by tile."""
    width, height = min(TILE, picture.width), min(TILE, picture.height)
    corners = [(left, top) for top in starts(picture.height) for left in starts(picture.width)]
    tiles = (picture.crop((left, top, left + width, top + height)) for left, top in corners)
    whole, scale = Image.new("RGB", (0, 0)), 1
    for (left, top), result in zip(corners, session.evaluate_many(tiles), strict=True):
        (output,) = result.outputs.values()
        if not isinstance(output, ImageFeatureValue):
            raise SystemExit("The model does not say that its output is a picture: see docs/tasks/upscaling.md.")
        tile = output.to_pil()
        if not whole.size[0]:
            scale = tile.width // width
            whole = Image.new("RGB", (picture.width * scale, picture.height * scale))
        # The right and the lower margin are pasted too: the next tiles cover them.
        x, y = (scale * MARGIN if start else 0 for start in (left, top))
        whole.paste(tile.crop((x, y, *tile.size)), (left * scale + x, top * scale + y))
    return whole


def decibels(picture: Image.Image, original: Image.Image) -> float:
    """The peak signal-to-noise ratio. If pictures differ by a tenth less, it is about one decibel higher."""
    difference = np.asarray(picture, np.float64) - np.asarray(original, np.float64)
    return 10 * math.log10(255**2 / np.square(difference).mean())


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else ROOT / "samples" / "pictures" / "cat.jpg"
    target = sys.argv[2] if len(sys.argv) > 2 else "upscaled.png"
    model = sys.argv[3] if len(sys.argv) > 3 else ROOT / "models" / "upscale.onnx"

    picture = ImageFeatureValue.load(path).to_pil().convert("RGB")
    original = None
    if len(sys.argv) == 1:
        original = picture.crop((0, 0, picture.width // 2 * 2, picture.height // 2 * 2))
        picture = original.resize((original.width // 2, original.height // 2), Image.Resampling.BICUBIC)

    devices = LearningModelDevice.find_all()
    device = next((device for device in devices if device.hardware == "gpu"), devices[0])
    with LearningModelSession(LearningModel.load(model), device) as session:
        result = enlarged(session, picture)
    result.save(target)
    print(f"{picture.width}x{picture.height} to {result.width}x{result.height} on {device.name}, by {device.provider}")
    if original is not None:
        bicubic = picture.resize(original.size, Image.Resampling.BICUBIC)
        print(f"{decibels(result, original):.2f} dB; Pillow's bicubic: {decibels(bicubic, original):.2f} dB")


if __name__ == "__main__":
    main()
