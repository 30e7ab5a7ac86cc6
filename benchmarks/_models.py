"""Public architectures with sensible weights: those of onnx's wheel hold one constant for all weights of a layer."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)


def folder(package: str, *inside: str) -> Path:
    """A folder of an installed package."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.joinpath(*inside)


def light(name: str) -> onnx.ModelProto:
    """An architecture of onnx's wheel, its weights seeded and scaled so that values neither vanish nor grow (He)."""
    model = onnx.load(folder("onnx", "backend", "test", "data", "light") / f"light_{name}.onnx")
    graph, rng = model.graph, np.random.default_rng(0)
    known = {weight.name: weight for weight in graph.initializer}
    shapes = {node.output[0]: node for node in graph.node if node.op_type == "ConstantOfShape"}
    for output, node in shapes.items():
        sizes = tuple(numpy_helper.to_array(known[node.input[0]]))
        known[output] = graph.initializer.add()
        known[output].CopyFrom(numpy_helper.from_array(np.zeros(sizes, np.float32), output))
        graph.node.remove(node)
    aliases = {node.output[0]: node.input[0] for node in graph.node if node.op_type in ("Unsqueeze", "Reshape")}
    for node in graph.node:
        for place, given in enumerate(node.input):
            weight = known.get(aliases.get(given, given))
            if weight is not None and weight.data_type == onnx.TensorProto.FLOAT:
                _fill(weight, node.op_type, place, rng)
    used = {given for node in graph.node for given in node.input}
    kept = [weight for weight in graph.initializer if weight.name in used]
    inputs = [value for value in graph.input if value.name not in known]
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(kept)
    graph.input.extend(inputs)
    return model


def _fill(weight: onnx.TensorProto, operator: str, place: int, rng: np.random.Generator) -> None:
    """Scales and variances of 1, shifts and means of 0, and matrices that keep the size of what goes through them."""
    sizes = tuple(weight.dims)
    if operator in ("Conv", "Gemm", "MatMul") and place == 1:
        values = rng.normal(0, np.sqrt(2 / np.prod(sizes[1:])), sizes)
    elif operator == "BatchNormalization":
        values = np.full(sizes, 1.0 if place in (1, 4) else 0.0)
    else:
        values = np.full(sizes, 1.0 if operator == "Mul" else 0.0)
    weight.CopyFrom(numpy_helper.from_array(values.astype(np.float32), weight.name))
