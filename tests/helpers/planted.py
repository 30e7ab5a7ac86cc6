"""A detector with a built-in contract and known answers, and the same with a fault each, to be found by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from helpers.paths import MODELS, PICTURES
from winml_py import BitmapPixelFormat, ImageKernel, LearningModel
from winml_py.authoring import build_in, write_samples

CONTRACTS = {
    "another kernel": {"kernel": ImageKernel.ANTIALIASED_LINEAR},
    "a shifted mean": {"mean": (0.01, 0.01, 0.01)},  # two and a half levels
    "swapped channels": {"pixel_format": BitmapPixelFormat.BGR8},
}


def plant(folder: Path) -> dict[str, Path]:
    """The models by their fault; "" has none. All are in one folder, whose samples have the answers of that one."""
    source, half = folder / "detector.onnx", folder / "half.onnx"
    model = onnx.load(MODELS / "shapes.onnx")
    rename_output(model, "raw")  # the answers have an output named "boxes"
    onnx.save(model, source)
    contract = LearningModel.load(source).input_features[0].contract
    _round_to_half(source, half)
    made = {name: (source, replace(contract, **change)) for name, change in CONTRACTS.items()}
    made |= {"": (source, contract), "a transposed axis": (source, contract), "half precision": (half, contract)}
    paths = {name: folder / f"{name.replace(' ', '_') or 'right'}.onnx" for name in made}
    for name, (model, stated) in made.items():
        build_in(model, paths[name], stated, answers="auto")
    _transpose(paths["a transposed axis"])
    write_samples(paths[""], [PICTURES / "shapes.png"])
    return paths


def rename_output(model: onnx.ModelProto, name: str) -> None:
    """Renames a model's only output."""
    (output,) = model.graph.output
    for node in model.graph.node:
        node.output[:] = [name if value == output.name else value for value in node.output]
    output.name = name


def _transpose(path: Path) -> None:
    """Exchanges height and width of the pictures."""
    model = onnx.load(path)
    (picture,) = model.graph.input
    axes = list(range(len(picture.type.tensor_type.shape.dim)))
    axes[-3:-1] = axes[-2], axes[-3]
    for node in model.graph.node:
        node.input[:] = ["turned" if name == picture.name else name for name in node.input]
    model.graph.node.insert(0, helper.make_node("Transpose", [picture.name], ["turned"], perm=axes))
    onnx.save(model, path)


def _round_to_half(source: Path, target: Path) -> None:
    """Rounds the weights, as a runtime does that computes in half precision."""
    model = onnx.load(source)
    for weight in model.graph.initializer:
        numbers = numpy_helper.to_array(weight)
        if numbers.dtype == np.float32:
            weight.CopyFrom(numpy_helper.from_array(numbers.astype(np.float16).astype(np.float32), weight.name))
    onnx.save(model, target)
