"""Builds the tensorization of a picture as a model, and joins it to the front of a classifier.

python samples/built_tensorization.py PICTURE OUT.onnx

The joined model takes the bytes of a gray picture of any height and width. It scales the picture and stretches its
contrast, which no image contract can do. It runs in any ONNX runtime.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import version_converter
from PIL import Image

from winml_py import LearningModel, LearningModelSession, TensorKind
from winml_py.experimental import (
    LearningModelBuilder,
    LearningModelExperimental,
    LearningModelJoinOptions,
    LearningModelOperator,
)

ROOT = Path(__file__).parent.parent

describe = LearningModelBuilder.create_tensor_feature_descriptor


def tensorization() -> LearningModel:
    """A model from bytes (height x width) to floats from 0 to 1 (1 x 1 x 28 x 28): darkest is 0, lightest is 1."""
    operators = [
        LearningModelOperator("Cast")
        .set_input("input", "picture")
        .set_attribute("to", TensorKind.FLOAT)
        .set_output("output", "gray"),
        LearningModelOperator("Unsqueeze")
        .set_input("data", "gray")
        .set_constant("axes", [0, 1])
        .set_output("expanded", "plane"),
        LearningModelOperator("Resize")
        .set_input("X", "plane")
        .set_constant("sizes", [1, 1, 28, 28])
        .set_attribute("mode", "linear")
        .set_attribute("antialias", 1)
        .set_output("Y", "small"),
        LearningModelOperator("ReduceMin").set_input("data", "small").set_output("reduced", "darkest"),
        LearningModelOperator("ReduceMax").set_input("data", "small").set_output("reduced", "lightest"),
        LearningModelOperator("Sub").set_input("A", "lightest").set_input("B", "darkest").set_output("C", "contrast"),
        LearningModelOperator("Sub").set_input("A", "small").set_input("B", "darkest").set_output("C", "above"),
        LearningModelOperator("Div").set_input("A", "above").set_input("B", "contrast").set_output("C", "tensor"),
    ]
    builder = (
        LearningModelBuilder.create(18)
        .inputs.add(describe("picture", "gray, a byte a pixel", TensorKind.UINT8, ["height", "width"]))
        .outputs.add(describe("tensor", TensorKind.FLOAT, [1, 1, 28, 28]))
    )
    for operator in operators:
        builder.operators.add(operator)
    return builder.create_model()


def main() -> None:
    picture, out = sys.argv[1:]
    options = LearningModelJoinOptions()
    options.link("tensor", "image")
    # Joined models have one operator set, and Resize has `antialias` from set 18 on.
    digits = version_converter.convert_version(onnx.load(ROOT / "models" / "digits.onnx"), 18)
    classifier = LearningModel.load(digits.SerializeToString())
    model = LearningModelExperimental(tensorization()).join_model(classifier, options)
    LearningModelExperimental(model).save(out)

    session = LearningModelSession(LearningModel.load(out))
    gray = np.asarray(Image.open(picture).convert("L"))
    result = session.evaluate_features({"picture": gray})
    print("digit:", int(result.outputs["probabilities"].to_numpy().argmax()))


if __name__ == "__main__":
    main()
