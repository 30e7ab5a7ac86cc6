"""Fixes a model that is right in training and wrong in the app: learns how the training prepares pictures.

    python samples/learn_preprocessing.py [PICTURE]

Like most exported models, this detector of shapes does not state how to prepare pictures. `prepare` stands for the
function in the training's repository. The sample learns a contract from it, and writes the contract into a copy of the
model, together with the picture and its answer. To check the copy on any machine, run
`winml-py run shapes_right.onnx --check`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np
import onnx
from PIL import Image

from winml_py import ImageContract, ImageFeatureValue, LearningModel, LearningModelSession, vision
from winml_py.authoring import learn_contract, write_contract, write_samples

ROOT = Path(__file__).resolve().parents[1]
LABELS = ("circle", "square", "triangle")


def prepare(image: Image.Image) -> np.ndarray:
    """Prepares a picture as the training does: fits it into 128 x 128 pixels, with gray around it."""
    pixels = np.asarray(image.convert("RGB"))
    scale = 128 / max(pixels.shape[:2])
    height, width = (round(side * scale) for side in pixels.shape[:2])
    whole = np.full((128, 128, 3), 114, np.uint8)
    top, left = (128 - height) // 2, (128 - width) // 2
    whole[top : top + height, left : left + width] = cv2.resize(pixels, (width, height))
    return (whole.astype(np.float32) / 255).transpose(2, 0, 1)[None]


def exported() -> bytes:
    """The model without metadata about pictures."""
    model = onnx.load(ROOT / "models" / "shapes.onnx")
    del model.metadata_props[:]
    model.graph.input[0].type.denotation = ""
    return model.SerializeToString()


def find(model: LearningModel, picture: Path) -> str:
    """What the model finds in the picture, in words."""
    with LearningModelSession(model) as session:
        result = session.evaluate_features({"image": ImageFeatureValue.load(picture)})
        found = list(vision.detections(result, labels=LABELS, threshold=0.5))
        return f"{len(found)} found: " + ", ".join(f"{one.label} {one.score:.2f}" for one in found[:3])


def main() -> None:
    """Evaluates the model with the contract that an app would assume, and with the learned one."""
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "samples" / "pictures" / "shapes.png"
    Path("shapes_exported.onnx").write_bytes(exported())

    model = LearningModel.load("shapes_exported.onnx")
    model.contracts["image"] = ImageContract()  # the Windows ML rule for models that state nothing
    print(f"assumed: {model.contracts['image'].describe()}: {find(model, picture)}")

    learned = learn_contract(prepare, model=model)
    write_contract("shapes_exported.onnx", "shapes_right.onnx", learned.contract)
    write_samples("shapes_right.onnx", [picture], force=True)
    print(f"learned: {learned.contract.describe()}: {find(LearningModel.load('shapes_right.onnx'), picture)}")
    print(f"{learned.mean_difference:.2f} levels from the training's own tensors, on {learned.checked_on} pictures")


if __name__ == "__main__":
    main()
