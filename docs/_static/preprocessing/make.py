"""Makes the pictures of the page on preprocessing: what a model sees under a right and several wrong contracts.

python docs/_static/preprocessing/make.py
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper
from PIL import Image, ImageDraw, ImageFont

from winml_py import (
    BitmapPixelFormat,
    ImageContract,
    ImageFeatureValue,
    LearningModel,
    LearningModelBinding,
    LearningModelPixelRange,
    LearningModelSession,
)
from winml_py.scaling import CropToAspect, Fit, ShortestSide, Stretch

HERE = Path(__file__).parent
PICTURE = HERE.parents[2] / "samples" / "pictures" / "cat.jpg"
SIDE, GAP, TITLE = 224, 12, 36
GROUND = "#f4f5f7"  # as of the pictures of tasks: a tensor that is all white shows

RIGHT = ImageContract.imagenet()
BGR = replace(RIGHT, pixel_format=BitmapPixelFormat.BGR8, mean=RIGHT.mean, std=RIGHT.std)
SHOWN = {
    "right": RIGHT,
    "blue for red": BGR,
    "range 0 to 255": replace(RIGHT, pixel_range=LearningModelPixelRange.ZERO_TO255),
    "no mean, no std": replace(RIGHT, mean=(), std=()),
    "stretched": replace(RIGHT, scaling=Stretch()),
    "no crop": replace(RIGHT, scaling=CropToAspect()),
    "scaled to 512 first": replace(RIGHT, scaling=ShortestSide(512)),
    "letterbox": replace(RIGHT, scaling=Fit()),
}


def tensor(contract: ImageContract) -> np.ndarray:
    """What the contract makes of the picture: 224 x 224 x 3."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, SIDE, SIDE]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = LearningModelSession(LearningModel.load(model.SerializeToString()))
    binding = LearningModelBinding(session)
    binding.bind("x", ImageFeatureValue.load(PICTURE), {"ImageContract": contract})
    return session.evaluate(binding).outputs["y"].to_numpy()[0].transpose(1, 2, 0)


def seen(numbers: np.ndarray) -> Image.Image:
    """The numbers as the model takes them: red, green, blue, with the mean and std that it was trained with."""
    levels = (numbers * RIGHT.std + RIGHT.mean) * 255
    return Image.fromarray(np.clip(np.rint(levels), 0, 255).astype(np.uint8))


def main() -> None:
    columns = 4
    rows = -(-len(SHOWN) // columns)
    size = (columns * (SIDE + GAP) + GAP, rows * (SIDE + GAP + TITLE) + GAP)
    sheet = Image.new("RGB", size, GROUND)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(24)
    for number, (title, contract) in enumerate(SHOWN.items()):
        x = GAP + number % columns * (SIDE + GAP)
        y = GAP + number // columns * (SIDE + GAP + TITLE)
        draw.text((x, y), title, fill=(30, 30, 30), font=font)
        sheet.paste(seen(tensor(contract)), (x, y + TITLE - 4))
    sheet.save(HERE / "contracts.jpg", quality=88, optimize=True)


if __name__ == "__main__":
    main()
