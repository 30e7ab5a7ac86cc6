"""Finds objects in a picture, prints where they are, and draws them.

        python samples/detect_shapes.py                    finds objects in a picture that the sample draws
    python samples/detect_shapes.py PICTURE DRAWN      finds objects in your picture, and writes the file DRAWN

The model finds only drawn circles, squares and triangles. Its outputs have the layout of YOLO v8, so you can replace it
with a detector from the Ultralytics exporter. The boxes are in the pixels of the picture, whatever its size.
"""

import sys
from pathlib import Path

from PIL import Image, ImageDraw

from winml_py import ImageFeatureValue, LearningModel, LearningModelSession, vision

ROOT = Path(__file__).parent.parent


def drawn() -> Image.Image:
    picture = Image.new("RGB", (480, 320), (225, 222, 210))
    pen = ImageDraw.Draw(picture)
    pen.ellipse((60, 70, 190, 200), (200, 60, 50))
    pen.polygon([(300, 60), (430, 90), (400, 220), (270, 190)], (40, 90, 160))
    pen.polygon([(150, 300), (215, 215), (270, 290)], (60, 130, 60))
    return picture


def main() -> None:
    picture = ImageFeatureValue.load(sys.argv[1]).to_pil() if len(sys.argv) > 1 else drawn()
    target = sys.argv[2] if len(sys.argv) > 2 else "drawn.png"

    session = LearningModelSession(LearningModel.load(ROOT / "models" / "shapes.onnx"))
    found = vision.detections(session.evaluate_features({"image": picture}), threshold=0.5)
    for one in found:
        left, top, right, bottom = one.box.round().astype(int)
        print(f"{one.label:8} {one.score:.0%} {left},{top} to {right},{bottom}")
    found.draw(picture).save(target)


if __name__ == "__main__":
    main()
