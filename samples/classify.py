"""Classifies a picture and prints the three most likely classes.

python samples/classify.py [PICTURE]
"""

import sys
from pathlib import Path

from winml_py import ImageFeatureValue, LearningModel, LearningModelBinding, LearningModelSession

ROOT = Path(__file__).parent.parent


def main() -> None:
    picture = sys.argv[1] if len(sys.argv) > 1 else ROOT / "samples" / "pictures" / "seven.png"
    labels = (ROOT / "models" / "digits.labels.txt").read_text().splitlines()

    session = LearningModelSession(LearningModel.load(ROOT / "models" / "digits.onnx"))
    binding = LearningModelBinding(session)
    binding.bind("image", ImageFeatureValue.load(picture))
    scores = session.evaluate(binding).outputs["probabilities"].to_numpy()[0]

    for index in scores.argsort()[::-1][:3]:
        print(f"{labels[index]:6} {scores[index]:.1%}")


if __name__ == "__main__":
    main()
