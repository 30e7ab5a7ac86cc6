"""Public architectures with realistic weights: in onnx's wheel, all weights of a layer are one constant."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
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
    """An architecture of onnx's wheel. Its weights are random numbers with a fixed seed, scaled so that values neither
    vanish nor grow (He).
    """
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
    """Scales and variances of 1, shifts and means of 0, and matrices that keep the magnitude of their inputs."""
    sizes = tuple(weight.dims)
    if operator in ("Conv", "Gemm", "MatMul") and place == 1:
        values = rng.normal(0, np.sqrt(2 / np.prod(sizes[1:])), sizes)
    elif operator == "BatchNormalization":
        values = np.full(sizes, 1.0 if place in (1, 4) else 0.0)
    else:
        values = np.full(sizes, 1.0 if operator == "Mul" else 0.0)
    weight.CopyFrom(numpy_helper.from_array(values.astype(np.float32), weight.name))


RAPIDOCR_SHAPES = {
    "PP-OCRv6_det_small": (1, 3, 320, 320),
    "PP-OCRv6_rec_small": (1, 3, 48, 320),
    "ch_ppocr_mobile_v2.0_cls_mobile": (1, 3, 48, 192),
}


def public_models() -> dict[str, onnx.ModelProto]:
    """The models in the wheels of onnx, rapidocr and magika, with the sizes that fix their free input dimensions."""
    models = {name: light(name) for name in LIGHT}
    for path in sorted(folder("rapidocr", "models").glob("*.onnx")):
        models[path.stem] = fixed(onnx.load(path), RAPIDOCR_SHAPES[path.stem])
    (path,) = folder("magika", "models").glob("*/model.onnx")
    models["magika"] = fixed(onnx.load(path), (1, 2048))
    return models


def fixed(model: onnx.ModelProto, shape: tuple[int, ...]) -> onnx.ModelProto:
    """The model with a fixed input shape, as an application would set it that knows the size of its pictures."""
    for dimension, size in zip(model.graph.input[0].type.tensor_type.shape.dim, shape, strict=True):
        dimension.dim_value = size
    return model


def inputs(session: onnxruntime.InferenceSession, seed: int = 0) -> dict[str, np.ndarray]:
    """Random numbers for the inputs of a raw ONNX Runtime session."""
    rng = np.random.default_rng(seed)
    made = {}
    for value in session.get_inputs():
        if value.type == "tensor(int32)":
            made[value.name] = rng.integers(0, 256, value.shape, np.int32)
        else:
            dtype = np.float16 if value.type == "tensor(float16)" else np.float32
            made[value.name] = rng.standard_normal(value.shape).astype(dtype)
    return made
