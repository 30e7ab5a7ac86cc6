"""Applies five effect models to a photograph, and writes five pictures.

python samples/effects.py [PICTURE] [FOLDER]
"""

import sys
from pathlib import Path

from winml_py import ImageFeatureValue, LearningModel, LearningModelSession

ROOT = Path(__file__).parent.parent


def main() -> None:
    source = sys.argv[1] if len(sys.argv) > 1 else ROOT / "samples" / "pictures" / "cat.jpg"
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else ".")
    picture = ImageFeatureValue.load(source)

    for name in ("edges", "sharpen", "blur", "emboss", "invert"):
        with LearningModelSession(LearningModel.load(ROOT / "models" / f"{name}.onnx")) as session:
            result = session.evaluate_features({"image": picture})
        result.outputs["result"].save(folder / f"{name}.png")
        print(folder / f"{name}.png")


if __name__ == "__main__":
    main()
