"""Builds every model of this folder, bit for bit, from the weights in `weights/`.

    python models/build.py            writes them here
    python models/build.py FOLDER     writes them there

The models:
    digits.onnx         a handwritten digit as a 28x28 gray picture -> probabilities of 0 to 9
    digits_batch.onnx   the same for a batch of any size; the dimension is named `batch` and denoted DATA_BATCH
    edges, sharpen, blur, emboss, invert .onnx
                        a picture of any size -> a picture of the same size, made of convolutions
    digits_float16, sharpen_float16 .onnx
                        twins of two of them, converted by `winml_py.float16` and checked
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from winml_py.float16 import convert

HERE = Path(__file__).parent
OPSET, IR_VERSION = 17, 8  # old enough for every runtime still in use

FLOAT16 = ("digits", "sharpen")
"""The models that have a float16 twin."""

EFFECTS = {
    # name: kernel, divisor, offset; all numbers are whole, so float32 computes them exactly
    "sharpen": ([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], 1, 0),
    "blur": (np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]), 256, 0),
    "emboss": ([[-2, -1, 0], [-1, 0, 1], [0, 1, 2]], 1, 128),
    "invert": ([[-1]], 1, 255),
}
SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])


def picture(name: str, shape: list[int | str], description: str) -> ValueInfoProto:
    """A feature that Windows ML takes for a picture."""
    value = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape, description)
    value.type.denotation = "IMAGE"
    denotations = ("DATA_BATCH", "DATA_CHANNEL", "DATA_FEATURE", "DATA_FEATURE")
    for dimension, denotation in zip(value.type.tensor_type.shape.dim, denotations, strict=True):
        dimension.denotation = denotation
    return value


def model(
    name: str,
    description: str,
    nodes: list[NodeProto],
    inputs: list[ValueInfoProto],
    outputs: list[ValueInfoProto],
    weights: dict[str, np.ndarray],
    pixel_format: str,
    pixel_range: str,
) -> ModelProto:
    tensors = [numpy_helper.from_array(np.ascontiguousarray(value), key) for key, value in weights.items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    proto.producer_name = "winml-py"
    proto.producer_version = proto.domain = ""
    proto.model_version = 1
    proto.doc_string = description
    helper.set_model_props(
        proto,
        {
            "Image.BitmapPixelFormat": pixel_format,
            "Image.ColorSpaceGamma": "SRGB",
            "Image.NominalPixelRange": pixel_range,
        },
    )
    return proto


def digits(name: str, batch: int | str) -> ModelProto:
    weights = dict(np.load(HERE / "weights" / "digits.npz"))
    weights["linear_weight"] = weights["linear_weight"].T
    nodes = [
        helper.make_node("Conv", ["image", "conv1_weight", "conv1_bias"], ["conv1"], pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["conv1"], ["relu1"]),
        helper.make_node("MaxPool", ["relu1"], ["pool1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["pool1", "conv2_weight", "conv2_bias"], ["conv2"], pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["conv2"], ["relu2"]),
        helper.make_node("MaxPool", ["relu2"], ["pool2"], kernel_shape=[3, 3], strides=[3, 3]),
        helper.make_node("Flatten", ["pool2"], ["flat"]),
        helper.make_node("Gemm", ["flat", "linear_weight", "linear_bias"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    image = picture("image", [batch, 1, 28, 28], "a handwritten digit, white on black")
    output = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [batch, 10], "of the digits 0 to 9")
    if isinstance(batch, str):
        output.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    description = "Handwritten digits, trained on scikit-learn's bundled digits; 447 of 450 test pictures right."
    return model(name, description, nodes, [image], [output], weights, "Gray8", "Normalized_0_1")


def depthwise(kernel: np.ndarray) -> np.ndarray:
    """A kernel for each of the three channels, which are filtered apart."""
    return np.repeat(kernel[None, None].astype(np.float32), 3, axis=0)


def effect(
    name: str, description: str, filters: list[NodeProto], margin: int, weights: dict[str, np.ndarray]
) -> ModelProto:
    """A picture whose edge is mirrored by `margin` pixels, so that `filters` keep its size."""
    weights = {"margins": np.array([0, 0, margin, margin] * 2, np.int64), **weights}
    pad = helper.make_node("Pad", ["image", "margins"], ["padded"], mode="reflect")
    shape: list[int | str] = [1, 3, "height", "width"]
    image = picture("image", shape, "any picture")
    result = picture("result", shape, "the picture, filtered")
    return model(name, description, [pad, *filters], [image], [result], weights, "Bgr8", "NominalRange_0_255")


def convolution_effect(name: str) -> ModelProto:
    kernel, divisor, offset = EFFECTS[name]
    kernel = np.array(kernel)
    weights = {"kernel": depthwise(kernel / divisor), "offset": np.full(3, offset, np.float32)}
    node = helper.make_node("Conv", ["padded", "kernel", "offset"], ["result"], group=3)
    return effect(name, f"Picture to picture: {name}.", [node], len(kernel) // 2, weights)


def edges() -> ModelProto:
    """Sobel's operator: the length of the gradient, channel by channel."""
    weights = {"across": depthwise(SOBEL), "down": depthwise(SOBEL.T)}
    nodes = [
        helper.make_node("Conv", ["padded", "across"], ["dx"], group=3),
        helper.make_node("Conv", ["padded", "down"], ["dy"], group=3),
        helper.make_node("Mul", ["dx", "dx"], ["dx2"]),
        helper.make_node("Mul", ["dy", "dy"], ["dy2"]),
        helper.make_node("Add", ["dx2", "dy2"], ["squares"]),
        helper.make_node("Sqrt", ["squares"], ["result"]),
    ]
    return effect("edges", "Picture to picture: edges (Sobel).", nodes, 1, weights)


def build() -> dict[str, bytes]:
    """Every model, by file name."""
    models = [digits("digits", 1), digits("digits_batch", "batch"), edges(), *map(convolution_effect, EFFECTS)]
    built = {f"{proto.graph.name}.onnx": proto.SerializeToString(deterministic=True) for proto in models}
    return built | {f"{name}_float16.onnx": float16(built[f"{name}.onnx"]) for name in FLOAT16}


def float16(model: bytes) -> bytes:
    """The model in float16, which the converter has checked."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "model.onnx"), Path(folder, "half.onnx")
        source.write_bytes(model)
        convert(source, target)
        return target.read_bytes()


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, data in build().items():
        (folder / name).write_bytes(data)
        print(f"{name}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
