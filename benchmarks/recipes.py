"""What it costs to bind a picture with a full recipe, compared with the same scaling without one.

    python benchmarks/recipes.py [--json FILE]

The recipe is torchvision's: the shorter side to 256, the middle 224 x 224, mean and std. The same scaling is a contract
that stretches the picture to the recipe's scaled size, with the same mean and std, and crops nothing. By hand is Pillow
and numpy, as in tutorials. Results are checked first: the recipe against Pillow. Bar: recipe / same scaling at most
1.1.

Where a side shrinks to a quarter or less, a contract without a recipe averages blocks of pixels first, and differs from
Pillow by a third of a level on average, by 13 at most; a recipe stays within three levels, and takes longer.
"""

from dataclasses import replace
from typing import Any

import cv2
import numpy as np
from _measure import arguments, at_most, interleaved, medians, report
from onnx import TensorProto, helper
from PIL import Image
from tensorize import photograph

from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageCropMode,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    SoftwareBitmap,
)

SIZES = [(320, 240), (640, 480), (1024, 768), (1920, 1080), (4032, 3024)]
RECIPE = replace(ImageContract.imagenet(), size=(224, 224))


def by_hand(picture: np.ndarray, scaled: tuple[int, int]) -> np.ndarray:
    """Pillow and numpy: scaled is height and width."""
    image = Image.fromarray(picture).resize(scaled[::-1], Image.Resampling.BILINEAR)
    top, left = round((scaled[0] - 224) / 2), round((scaled[1] - 224) / 2)
    pixels = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32) / 255
    return ((pixels - RECIPE.mean) / RECIPE.std).astype(np.float32).transpose(2, 0, 1)[None]


def measure(width: int, height: int, rounds: int) -> dict[str, Any]:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, "h", "w"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = LearningModelSession(LearningModel.load(model.SerializeToString()))
    pixels = np.asarray(Image.fromarray(photograph().to_numpy()[..., 2::-1]).resize((width, height)))
    value = ImageFeatureValue.from_software_bitmap(SoftwareBitmap.from_array(pixels, BitmapPixelFormat.RGB8))
    assert RECIPE.scaling is not None
    scaled = RECIPE.scaling.scaled(width, height, (224, 224))
    same = replace(RECIPE, scaling=None, size=scaled, crop_mode=ImageCropMode.STRETCH)
    bindings = {contract: LearningModelBinding(session) for contract in (RECIPE, same)}
    calls = {
        "recipe": lambda: bindings[RECIPE].bind("x", value, {"ImageContract": RECIPE}),
        "same scaling": lambda: bindings[same].bind("x", value, {"ImageContract": same}),
        "by hand": lambda: by_hand(pixels, scaled),
    }
    calls["recipe"]()
    came = session.evaluate(bindings[RECIPE]).outputs["y"].to_numpy()
    levels = np.abs(came - by_hand(pixels, scaled)) * np.reshape(RECIPE.std, (1, 3, 1, 1)) * 255
    assert levels.mean() <= 0.5
    assert levels.max() <= 3.01
    found = medians(interleaved(calls, rounds, 3 if width < 1500 else 1))
    return {
        "picture": f"{width}x{height}",
        "recipe ms": found["recipe"] * 1e3,
        "Pillow and numpy / recipe": found["by hand"] / found["recipe"],
        "recipe / same scaling": found["recipe"] / found["same scaling"],
        "mean difference in levels": float(levels.mean()),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    rows = [measure(*size, options.rounds) for size in SIZES]
    bars = [at_most("recipe / same scaling", max(row["recipe / same scaling"] for row in rows), 1.1)]
    report({"recipes": rows}, options.json, bars)


if __name__ == "__main__":
    main()
