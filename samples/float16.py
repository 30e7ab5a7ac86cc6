"""Converts two models to float16, checks them, and compares them on a picture.

    python samples/float16.py [FOLDER]

The converter needs `pip install 'winml-py[float16]'`.

The converter checks its result on example inputs. It keeps nodes in float32 that would lose too much accuracy, such as
the nodes in edges.onnx whose values exceed the range of float16. Always check the result with your own picture, too, as
this sample does. The sample writes the models to FOLDER.
"""

import sys
from pathlib import Path

import numpy as np

from winml_py import ImageFeatureValue, LearningModel, LearningModelSession, LearningModelSessionOptions, Precision
from winml_py.float16 import convert

ROOT = Path(__file__).parent.parent
PICTURES = {"digits": "seven.png", "edges": "cat.jpg"}


def numbers(path: Path, picture: ImageFeatureValue) -> np.ndarray:
    """The output of a model for a picture. The binding rounds the picture's numbers to the model's own type."""
    model = LearningModel.load(path)
    options = LearningModelSessionOptions()
    options.precision = Precision.FLOAT32  # the same arithmetic for both models, on a GPU, too
    with LearningModelSession(model, None, options) as session:
        (output,) = session.evaluate_features({model.input_features[0].name: picture}).outputs.values()
        return output.to_numpy().astype(np.float32)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for name, file in PICTURES.items():
        whole, half = ROOT / "models" / f"{name}.onnx", folder / f"{name}_float16.onnx"
        report = convert(whole, half)
        print(f"{name}: {LearningModel.load(half).precision}, {report}")

        picture = ImageFeatureValue.load(ROOT / "samples" / "pictures" / file)
        before, after = numbers(whole, picture), numbers(half, picture)
        print(f"{file}: {np.abs(after - before).max():.2g} apart, of {before.max():.3g}")


if __name__ == "__main__":
    main()
