"""Finds the class of every pixel in a picture, prints the share of each class, and colours the picture.

    python samples/segment_shapes.py PICTURE DRAWN

The model finds only drawn circles, squares and triangles. Like other models for semantic segmentation, it returns a
number for each class and pixel. The result has a class for each pixel of your picture, whatever its size.
"""

import sys
from pathlib import Path

from winml_py import ImageFeatureValue, LearningModel, LearningModelSession, vision

ROOT = Path(__file__).parent.parent


def main() -> None:
    picture, target = sys.argv[1], sys.argv[2]
    session = LearningModelSession(LearningModel.load(ROOT / "models" / "shapes_mask.onnx"))
    seen = vision.masks(session.evaluate_features({"image": ImageFeatureValue.load(picture)}))
    for index, share in seen.shares.items():
        print(f"{share:5.1%} {seen.labels[index]}")
    seen.draw(picture).save(target)


if __name__ == "__main__":
    main()
